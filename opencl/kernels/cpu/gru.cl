// GRU on CPUs: a work-item reads its sequences through all turns. Legend: gru.clh; mapping and options: recurrent_rows.clh.
#include "lib/ops/gru.clh"
#include "lib/ops/recurrent_rows.clh"

/// What is not read stays 0 in all tensors, and a state that nothing is read after is the one that was given.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gru_rows(__global const float* x, __global const float* bias, __global const float* hidden_bias, __global const float* h0, __global float* y,
              __global float* h_n, __global float* gates, __global float* inner, __global const long* lengths, __global const long* order,
              __global const float* panels, __global float* states, const long sequences, const long steps, const long hidden, const int reverse) {
  const Share share = share_of(lengths, order, sequences);
  const long row = STATE_ROW(hidden);
  __global float* h = states + get_group_id(0) * ROWS * 3 * row;
  __global float* next = h + ROWS * row;
  for (int r = 0; r < share.count; ++r) {
    const long n = share.sequence[r], end = n * steps + share.length[r], rest = steps - share.length[r];
    take_state(h0 + n * hidden, h + r * row, hidden);
    clear_row(y + end * hidden, rest * hidden);
    clear_row(inner + end * hidden, rest * hidden);
    clear_row(gates + end * 3 * hidden, rest * 3 * hidden);
    if (share.length[r] == 0) copy_row(h0 + n * hidden, h_n + n * hidden, hidden);
  }
  float sums[ROWS * COLUMNS] ALIGNED;
  for (long s = 0; s < steps; ++s) {
    const int count = read_in_turn(&share, s);
    for (long j = 0; j < hidden; j += WIDTH) {
      const int lanes = (int)min(hidden - j, (long)WIDTH);
      multiply_panel(h, row, count, panels + j * 3 * hidden, (int)hidden, sums);
      for (int r = 0; r < count; ++r) {
        const long n = share.sequence[r], at = n * steps + step_of(s, share.length[r], reverse);
        const float* sum = sums + r * COLUMNS;
        __global const float* ahead = x + (at + (reverse ? -1 : 1)) * 3 * hidden + j;
        UNROLLED (int g = 0; g < 3; ++g) PREFETCH(ahead + g * hidden);
        Gates of;
#define INPUT(g) (load_first(x + (at * 3 + g) * hidden + j, lanes) + load_first(bias + g * hidden + j, lanes))
#define PRODUCT(g) (LOAD(sum + g * WIDTH) + load_first(hidden_bias + g * hidden + j, lanes))
        of.r = PRODUCT(0) + INPUT(0), of.z = PRODUCT(1) + INPUT(1), of.n = INPUT(2);
        const real product = PRODUCT(2), state = state_of(&of, product, LOAD(h + r * row + j));
        STORE(state, next + r * row + j);
        store_first(state, y + at * hidden + j, lanes);
        store_first(product, inner + at * hidden + j, lanes);
#define KEEP(name, g) store_first(of.name, gates + (at * 3 + g) * hidden + j, lanes);
        KEEP(r, 0) KEEP(z, 1) KEEP(n, 2)
        if (s + 1 == share.length[r]) store_first(state, h_n + n * hidden + j, lanes);
      }
    }
    __global float* const last = h;
    h = next;
    next = last;
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gru_backward_rows(__global const float* dy, __global const float* dh_n, __global const float* h0, __global const float* y,
                       __global const float* gates, __global const float* inner, __global float* dx, __global float* dp, __global float* dh0,
                       __global const long* lengths, __global const long* order, __global const float* panels, __global float* states,
                       const long sequences, const long steps, const long hidden, const int reverse) {
  const Share share = share_of(lengths, order, sequences);
  const long row = STATE_ROW(hidden), d_row = 3 * row;
  __global float* dh = states + get_group_id(0) * ROWS * 5 * row;
  __global float* d = dh + ROWS * row;
  for (int r = 0; r < share.count; ++r) {
    const long n = share.sequence[r], end = n * steps + share.length[r], rest = steps - share.length[r];
    take_state(dh_n + n * hidden, dh + r * row, hidden);
    clear_row(dx + end * 3 * hidden, rest * 3 * hidden);
    clear_row(dp + end * 3 * hidden, rest * 3 * hidden);
  }
  float sums[ROWS * COLUMNS] ALIGNED;
  for (long s = steps - 1; s >= 0; --s) {
    const int count = read_in_turn(&share, s);
    for (int r = 0; r < count; ++r) {
      const long n = share.sequence[r], at = n * steps + step_of(s, share.length[r], reverse);
      __global const float* before = s > 0 ? y + (n * steps + step_of(s - 1, share.length[r], reverse)) * hidden : h0 + n * hidden;
      for (long j = 0; j < hidden; j += WIDTH) {
        const int lanes = (int)min(hidden - j, (long)WIDTH);
        const real arrived = LOAD(dh + r * row + j) + load_first(dy + at * hidden + j, lanes);
        Gates of;
#define KEPT(name, g) of.name = load_first(gates + (at * 3 + g) * hidden + j, lanes);
        KEPT(r, 0) KEPT(z, 1) KEPT(n, 2)
        const real scale = of.r;
        STORE(arrived * of.z, dh + r * row + j);
        of = gates_gradient(of, load_first(inner + at * hidden + j, lanes), load_first(before + j, lanes), arrived);
#define GIVE(value, to, g) store_first(value, to + (at * 3 + g) * hidden + j, lanes);
        GIVE(of.r, dx, 0) GIVE(of.z, dx, 1) GIVE(of.n, dx, 2)
        of.n *= scale;
        GIVE(of.r, dp, 0) GIVE(of.z, dp, 1) GIVE(of.n, dp, 2)
#define MULTIPLIED(name, g) STORE(of.name, d + r * d_row + g * PADDED(hidden) + j);
        MULTIPLIED(r, 0) MULTIPLIED(z, 1) MULTIPLIED(n, 2)
      }
    }
    for (long j = 0; j < hidden; j += COLUMNS) {
      multiply_panel(d, d_row, count, panels + j * 3 * PADDED(hidden), (int)(3 * PADDED(hidden)), sums);
      for (int r = 0; r < count; ++r)
        for (long v = 0; v < COLUMNS && j + v < hidden; v += WIDTH) {
          __global float* to = dh + r * row + j + v;
          STORE(LOAD(to) + LOAD(sums + r * COLUMNS + v), to);
        }
    }
  }
  for (int r = 0; r < share.count; ++r) copy_row(dh + r * row, dh0 + share.sequence[r] * hidden, hidden);
}
