// LSTM on any device: what is left of one turn beside its product. Legend: lstm.clh; mapping: recurrent.clh.
#include "lib/ops/lstm.clh"

/// Turn s. @param h_n, c_n  the states so far @param product  h_n weight, [N, 4 H]
__kernel void lstm_step(__global const float* x, __global const float* bias, __global const float* h0, __global const float* c0, __global float* y,
                        __global float* h_n, __global float* c_n, __global float* gates, __global float* cells, __global const long* lengths,
                        __global const float* product, const long sequences, const long steps, const long hidden, const int reverse, const long s) {
  const long j = get_global_id(0);
  for (long n = get_global_id(1); n < sequences && j < hidden; n += get_global_size(1)) {
    const int is_read = s < lengths[n];
    const long at = n * steps + (is_read ? step_of(s, lengths[n], reverse) : s);
    Gates of = {0, 0, 0, 0};
    Cell cell = {0, 0};
    if (is_read) {
#define SUM(g) product[(n * 4 + g) * hidden + j] + (x[(at * 4 + g) * hidden + j] + bias[g * hidden + j])
      of.i = SUM(0), of.f = SUM(1), of.g = SUM(2), of.o = SUM(3);
      cell = cell_of(&of, c_n[n * hidden + j]);
      h_n[n * hidden + j] = cell.h;
      c_n[n * hidden + j] = cell.c;
    }
    y[at * hidden + j] = cell.h;
    cells[at * hidden + j] = cell.c;
    __global float* to = gates + at * 4 * hidden + j;
    to[0] = of.i, to[hidden] = of.f, to[2 * hidden] = of.g, to[3 * hidden] = of.o;
  }
}

/// Turn s. @param dh0, dc0  what has arrived so far @param d  dx of this step, [N, 4 H], whose product with the turned weight joins dh0
__kernel void lstm_backward_step(__global const float* dy, __global const float* dh_n, __global const float* dc_n, __global const float* c0,
                                 __global const float* gates, __global const float* cells, __global float* dx, __global float* dh0,
                                 __global float* dc0, __global const long* lengths, __global float* d, const long sequences, const long steps,
                                 const long hidden, const int reverse, const long s) {
  const long j = get_global_id(0);
  for (long n = get_global_id(1); n < sequences && j < hidden; n += get_global_size(1)) {
    const int is_read = s < lengths[n];
    const long at = n * steps + (is_read ? step_of(s, lengths[n], reverse) : s), state = n * hidden + j;
    Gates of = {0, 0, 0, 0};
    if (is_read) {
      __global const float* kept = gates + at * 4 * hidden + j;
      of.i = kept[0], of.f = kept[hidden], of.g = kept[2 * hidden], of.o = kept[3 * hidden];
      Cell carried = {dh0[state] + dy[at * hidden + j], dc0[state]};
      of = gates_gradient(of, cells[at * hidden + j], s > 0 ? cells[(n * steps + step_of(s - 1, lengths[n], reverse)) * hidden + j] : c0[state], &carried);
      dh0[state] = 0;
      dc0[state] = carried.c;
    }
    __global float* to = dx + at * 4 * hidden + j;
    __global float* also = d + n * 4 * hidden + j;
    to[0] = also[0] = of.i, to[hidden] = also[hidden] = of.f, to[2 * hidden] = also[2 * hidden] = of.g, to[3 * hidden] = also[3 * hidden] = of.o;
  }
}
