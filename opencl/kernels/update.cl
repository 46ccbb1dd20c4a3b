// Optimizers' updates, in place. p is a slab of parameters, g the slab of their gradients. A row of hyper is {rate, decay, ...}.
//   sgd       g' = g + decay p;  p -= rate g'
//   momentum  v = mu v + g';  p -= rate (nesterov ? g' + mu v : v)
//   adam      m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2;  p -= rate / c1 * m / (sqrt(v) / sqrt(c2) + eps)
//             with c = 1 - b^t from hyper; decoupled decay scales p by 1 - rate decay instead of adding to g'
//   rmsprop   v = alpha v + (1 - alpha) g'^2;  d = g' / (sqrt(v) + eps);  p -= rate d, or with momentum b = mu b + d;  p -= rate b
// Layout: pages of PAGE elements; pages[] holds {row of hyper, number of elements in use} of each; a page with row -1 is not updated.
// Mapping: each work-item updates `chunk` consecutive elements: some pages on a CPU, one element on a GPU.

#include "loops.clh"
#include "pages.clh"

__kernel void sgd_update(__global float* restrict p, __global const float* restrict g, __global const float* restrict hyper,
                         __global const int2* restrict pages, const long n, const long chunk) {
  for EACH_PAGE(page) {
    const struct Run run = run_of(page, pages, n, chunk);
    const float rate = hyper[2 * run.row], decay = hyper[2 * run.row + 1];
    INDEPENDENT
    for MINE(i, run) p[i] -= rate * (g[i] + decay * p[i]);
  }
}

__kernel void momentum_update(__global float* restrict p, __global const float* restrict g, __global const float* restrict hyper,
                              __global const int2* restrict pages, __global float* restrict v, const long n, const long chunk,
                              const float mu, const int nesterov) {
  for EACH_PAGE(page) {
    const struct Run run = run_of(page, pages, n, chunk);
    const float rate = hyper[2 * run.row], decay = hyper[2 * run.row + 1];
    INDEPENDENT
    for MINE(i, run) {
      const float slope = g[i] + decay * p[i];
      const float velocity = mu * v[i] + slope;
      v[i] = velocity;
      p[i] -= rate * (nesterov ? slope + mu * velocity : velocity);
    }
  }
}

__kernel void adam_update(__global float* restrict p, __global const float* restrict g, __global const float* restrict hyper,
                          __global const int2* restrict pages, __global float* restrict m, __global float* restrict v, const long n,
                          const long chunk, const float b1, const float rest1, const float b2, const float rest2, const float eps,
                          const int decoupled) {
  for EACH_PAGE(page) {
    const struct Run run = run_of(page, pages, n, chunk);
    __global const float* row = hyper + 4 * run.row;
    const float step = row[0] / row[2], root = 1 / sqrt(row[3]);
    const float keep = decoupled ? 1 - row[0] * row[1] : 1, decay = decoupled ? 0 : row[1];
    INDEPENDENT
    for MINE(i, run) {
      const float slope = g[i] + decay * p[i];
      const float mean = b1 * m[i] + rest1 * slope;
      const float variance = b2 * v[i] + rest2 * slope * slope;
      m[i] = mean;
      v[i] = variance;
      p[i] = keep * p[i] - step * mean / (sqrt(variance) * root + eps);
    }
  }
}

__kernel void rmsprop_update(__global float* restrict p, __global const float* restrict g, __global const float* restrict hyper,
                             __global const int2* restrict pages, __global float* restrict v, const long n, const long chunk,
                             const float alpha, const float rest, const float eps) {
  for EACH_PAGE(page) {
    const struct Run run = run_of(page, pages, n, chunk);
    const float rate = hyper[2 * run.row], decay = hyper[2 * run.row + 1];
    INDEPENDENT
    for MINE(i, run) {
      const float slope = g[i] + decay * p[i];
      const float variance = alpha * v[i] + rest * slope * slope;
      v[i] = variance;
      p[i] -= rate * slope / (sqrt(variance) + eps);
    }
  }
}

__kernel void rmsprop_momentum_update(__global float* restrict p, __global const float* restrict g, __global const float* restrict hyper,
                                      __global const int2* restrict pages, __global float* restrict v, __global float* restrict b,
                                      const long n, const long chunk, const float alpha, const float rest, const float eps,
                                      const float mu) {
  for EACH_PAGE(page) {
    const struct Run run = run_of(page, pages, n, chunk);
    const float rate = hyper[2 * run.row], decay = hyper[2 * run.row + 1];
    INDEPENDENT
    for MINE(i, run) {
      const float slope = g[i] + decay * p[i];
      const float variance = alpha * v[i] + rest * slope * slope;
      const float velocity = mu * b[i] + slope / (sqrt(variance) + eps);
      v[i] = variance;
      b[i] = velocity;
      p[i] -= rate * velocity;
    }
  }
}
