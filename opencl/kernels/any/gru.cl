// GRU on any device: what is left of one turn beside its product. Legend: gru.clh; mapping: recurrent.clh.
#include "lib/ops/gru.clh"

/// Turn s. @param h_n  the states so far @param product  h_n weight, [N, 3 H]
__kernel void gru_step(__global const float* x, __global const float* bias, __global const float* hidden_bias, __global const float* h0,
                       __global float* y, __global float* h_n, __global float* gates, __global float* inner, __global const long* lengths,
                       __global const float* product, const long sequences, const long steps, const long hidden, const int reverse, const long s) {
  const long j = get_global_id(0);
  for (long n = get_global_id(1); n < sequences && j < hidden; n += get_global_size(1)) {
    const int is_read = s < lengths[n];
    const long at = n * steps + (is_read ? step_of(s, lengths[n], reverse) : s);
    Gates of = {0, 0, 0};
    real p = 0, state = 0;
    if (is_read) {
#define INPUT(g) (x[(at * 3 + g) * hidden + j] + bias[g * hidden + j])
#define PRODUCT(g) (product[(n * 3 + g) * hidden + j] + hidden_bias[g * hidden + j])
      of.r = PRODUCT(0) + INPUT(0), of.z = PRODUCT(1) + INPUT(1), of.n = INPUT(2);
      p = PRODUCT(2);
      state = state_of(&of, p, h_n[n * hidden + j]);
      h_n[n * hidden + j] = state;
    }
    y[at * hidden + j] = state;
    inner[at * hidden + j] = p;
    __global float* to = gates + at * 3 * hidden + j;
    to[0] = of.r, to[hidden] = of.z, to[2 * hidden] = of.n;
  }
}

/// Turn s. @param dh0  what has arrived so far @param d  dp of this step, [N, 3 H], whose product with the turned weight joins dh0
__kernel void gru_backward_step(__global const float* dy, __global const float* dh_n, __global const float* h0, __global const float* y,
                                __global const float* gates, __global const float* inner, __global float* dx, __global float* dp,
                                __global float* dh0, __global const long* lengths, __global float* d, const long sequences, const long steps,
                                const long hidden, const int reverse, const long s) {
  const long j = get_global_id(0);
  for (long n = get_global_id(1); n < sequences && j < hidden; n += get_global_size(1)) {
    const int is_read = s < lengths[n];
    const long at = n * steps + (is_read ? step_of(s, lengths[n], reverse) : s), state = n * hidden + j;
    Gates of = {0, 0, 0};
    real scale = 0;
    if (is_read) {
      __global const float* kept = gates + at * 3 * hidden + j;
      of.r = scale = kept[0], of.z = kept[hidden], of.n = kept[2 * hidden];
      const real arrived = dh0[state] + dy[at * hidden + j];
      dh0[state] = arrived * of.z;
      const real h = s > 0 ? y[(n * steps + step_of(s - 1, lengths[n], reverse)) * hidden + j] : h0[state];
      of = gates_gradient(of, inner[at * hidden + j], h, arrived);
    }
    __global float* to = dx + at * 3 * hidden + j;
    __global float* also = dp + at * 3 * hidden + j;
    __global float* factor = d + n * 3 * hidden + j;
    to[0] = also[0] = factor[0] = of.r, to[hidden] = also[hidden] = factor[hidden] = of.z;
    to[2 * hidden] = of.n;
    also[2 * hidden] = factor[2 * hidden] = scale * of.n;
  }
}
