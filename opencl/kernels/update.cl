// Optimizers' updates, in place; p is the parameter, g its gradient, hyper[0] the learning rate.
//   sgd       g' = g + decay p;  p -= rate g'
//   momentum  v = mu v + g';  p -= rate (nesterov ? g' + mu v : v)
//   adam      m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2;  p -= rate / c1 * m / (sqrt(v) / sqrt(c2) + eps)
//             with c = 1 - b^t from hyper[1] and hyper[2]; decoupled decay scales p by 1 - rate decay instead of joining g'
//   rmsprop   v = alpha v + (1 - alpha) g'^2;  d = g' / (sqrt(v) + eps);  p -= rate d, or with momentum b = mu b + d;  p -= rate b
// Mapping: each work-item updates `chunk` consecutive elements: thousands on a CPU, one on a GPU.

#include "loops.clh"

#define MINE(i) (long i = get_global_id(0) * chunk, last = min(i + chunk, n); i < last; ++i)

__kernel void sgd_update(__global float* restrict p, __global const float* restrict g, __global const float* restrict hyper,
                         const long n, const long chunk, const float decay) {
  const float rate = hyper[0];
  INDEPENDENT
  for MINE(i) p[i] -= rate * (g[i] + decay * p[i]);
}

__kernel void momentum_update(__global float* restrict p, __global float* restrict v, __global const float* restrict g,
                              __global const float* restrict hyper, const long n, const long chunk, const float mu,
                              const float decay, const int nesterov) {
  const float rate = hyper[0];
  INDEPENDENT
  for MINE(i) {
    const float slope = g[i] + decay * p[i];
    const float velocity = mu * v[i] + slope;
    v[i] = velocity;
    p[i] -= rate * (nesterov ? slope + mu * velocity : velocity);
  }
}

__kernel void adam_update(__global float* restrict p, __global float* restrict m, __global float* restrict v,
                          __global const float* restrict g, __global const float* restrict hyper, const long n, const long chunk,
                          const float b1, const float rest1, const float b2, const float rest2, const float eps,
                          const float joined_decay, const float decoupled_decay) {
  const float step = hyper[0] / hyper[1], root = 1 / sqrt(hyper[2]), keep = 1 - hyper[0] * decoupled_decay;
  INDEPENDENT
  for MINE(i) {
    const float slope = g[i] + joined_decay * p[i];
    const float mean = b1 * m[i] + rest1 * slope;
    const float variance = b2 * v[i] + rest2 * slope * slope;
    m[i] = mean;
    v[i] = variance;
    p[i] = keep * p[i] - step * mean / (sqrt(variance) * root + eps);
  }
}

__kernel void rmsprop_update(__global float* restrict p, __global float* restrict v, __global const float* restrict g,
                             __global const float* restrict hyper, const long n, const long chunk, const float alpha,
                             const float rest, const float eps, const float decay) {
  const float rate = hyper[0];
  INDEPENDENT
  for MINE(i) {
    const float slope = g[i] + decay * p[i];
    const float variance = alpha * v[i] + rest * slope * slope;
    v[i] = variance;
    p[i] -= rate * slope / (sqrt(variance) + eps);
  }
}

__kernel void rmsprop_momentum_update(__global float* restrict p, __global float* restrict v, __global float* restrict b,
                                      __global const float* restrict g, __global const float* restrict hyper, const long n,
                                      const long chunk, const float alpha, const float rest, const float eps, const float decay,
                                      const float mu) {
  const float rate = hyper[0];
  INDEPENDENT
  for MINE(i) {
    const float slope = g[i] + decay * p[i];
    const float variance = alpha * v[i] + rest * slope * slope;
    const float velocity = mu * b[i] + slope / (sqrt(variance) + eps);
    v[i] = variance;
    b[i] = velocity;
    p[i] -= rate * velocity;
  }
}
