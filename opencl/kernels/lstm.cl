// LSTM over whole sequences, and its gradients. Legend, layout, mapping, variants and options: recurrent.clh.
// In step t, which is read after t':
//   i, f, o = sigmoid, g = tanh of (x_t + bias + h_t' weight);   c_t = f c_t' + i g;   h_t = o tanh(c_t)
// With dh and dc the gradients of h_t and c_t from outside and from the step read after t:
//   dc += dh o (1 - tanh(c_t)^2);   di = dc g i (1 - i);   df = dc c_t' f (1 - f);   dg = dc i (1 - g^2);   do = dh tanh(c_t) o (1 - o)
//   dx_t = [di, df, dg, do];   dh_t' = dx_t weight^T;   dc_t' = dc f
// x, gates and dx [N, T, 4 H] in the order i, f, g, o; y, cells and dy [N, T, H]; states [N, H]. gates may share memory with x, dx with gates.
// Source: S. Hochreiter, J. Schmidhuber, Long short-term memory, 1997; F. A. Gers et al., Learning to forget, 2000.
#include "recurrent.clh"

typedef struct {
  real i, f, g, o;
} Gates;
typedef struct {
  real h, c;
} Cell;

/// The gates become what they are after their functions. @param c  of the step before
static inline Cell cell_of(Gates* gates, real c) {
  gates->i = sigmoid(gates->i);
  gates->f = sigmoid(gates->f);
  gates->g = hyperbolic_tangent(gates->g);
  gates->o = sigmoid(gates->o);
  Cell cell;
  cell.c = fma(gates->f, c, gates->i * gates->g);
  cell.h = gates->o * hyperbolic_tangent(cell.c);
  return cell;
}

/// The gates' gradients. @param c, before  the cell in this step and in the one before @param carried  what has arrived so far; its cell's
/// becomes that of the step before
static inline Gates gates_gradient(Gates gates, real c, real before, Cell* carried) {
  const real top = hyperbolic_tangent(c), dc = fma(carried->h * gates.o, fma(-top, top, 1.0f), carried->c);
  Gates d;
  d.i = dc * gates.g * gates.i * (1.0f - gates.i);
  d.f = dc * before * gates.f * (1.0f - gates.f);
  d.g = dc * gates.i * fma(-gates.g, gates.g, 1.0f);
  d.o = carried->h * top * gates.o * (1.0f - gates.o);
  carried->c = dc * gates.f;
  return d;
}

#if WIDTH > 1
/// What is not read stays 0 in all tensors, and a state that nothing is read after is the one that was given.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void lstm_rows(__global const float* x, __global const float* bias, __global const float* h0, __global const float* c0, __global float* y,
               __global float* h_n, __global float* c_n, __global float* gates, __global float* cells, __global const long* lengths,
               __global const long* order, __global const float* panels, __global float* states, const long sequences, const long steps,
               const long hidden, const int reverse) {
  const Share share = share_of(lengths, order, sequences);
  const long row = STATE_ROW(hidden);
  __global float* h = states + get_group_id(0) * ROWS * 3 * row;
  __global float* next = h + ROWS * row;
  __global float* c = next + ROWS * row;
  for (int r = 0; r < share.count; ++r) {
    const long n = share.sequence[r], end = n * steps + share.length[r], rest = steps - share.length[r];
    take_state(h0 + n * hidden, h + r * row, hidden);
    take_state(c0 + n * hidden, c + r * row, hidden);
    clear_row(y + end * hidden, rest * hidden);
    clear_row(cells + end * hidden, rest * hidden);
    clear_row(gates + end * 4 * hidden, rest * 4 * hidden);
    if (share.length[r] > 0) continue;
    copy_row(h0 + n * hidden, h_n + n * hidden, hidden);
    copy_row(c0 + n * hidden, c_n + n * hidden, hidden);
  }
  float sums[ROWS * COLUMNS] ALIGNED;
  for (long s = 0; s < steps; ++s) {
    const int count = read_in_turn(&share, s);
    for (long j = 0; j < hidden; j += WIDTH) {
      const int lanes = (int)min(hidden - j, (long)WIDTH);
      multiply_panel(h, row, count, panels + j * 4 * hidden, (int)hidden, sums);
      for (int r = 0; r < count; ++r) {
        const long n = share.sequence[r], at = n * steps + step_of(s, share.length[r], reverse);
        const float* sum = sums + r * COLUMNS;
        __global const float* ahead = x + (at + (reverse ? -1 : 1)) * 4 * hidden + j;
        UNROLLED (int g = 0; g < 4; ++g) PREFETCH(ahead + g * hidden);
        Gates of;
#define GATE(name, g) of.name = LOAD(sum + g * WIDTH) + (load_first(x + (at * 4 + g) * hidden + j, lanes) + load_first(bias + g * hidden + j, lanes));
        GATE(i, 0) GATE(f, 1) GATE(g, 2) GATE(o, 3)
        const Cell cell = cell_of(&of, LOAD(c + r * row + j));
        STORE(cell.h, next + r * row + j);
        STORE(cell.c, c + r * row + j);
        store_first(cell.h, y + at * hidden + j, lanes);
        store_first(cell.c, cells + at * hidden + j, lanes);
#define KEEP(name, g) store_first(of.name, gates + (at * 4 + g) * hidden + j, lanes);
        KEEP(i, 0) KEEP(f, 1) KEEP(g, 2) KEEP(o, 3)
        if (s + 1 < share.length[r]) continue;
        store_first(cell.h, h_n + n * hidden + j, lanes);
        store_first(cell.c, c_n + n * hidden + j, lanes);
      }
    }
    __global float* const last = h;
    h = next;
    next = last;
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void lstm_backward_rows(__global const float* dy, __global const float* dh_n, __global const float* dc_n, __global const float* c0,
                        __global const float* gates, __global const float* cells, __global float* dx, __global float* dh0, __global float* dc0,
                        __global const long* lengths, __global const long* order, __global const float* panels, __global float* states,
                        const long sequences, const long steps, const long hidden, const int reverse) {
  const Share share = share_of(lengths, order, sequences);
  const long row = STATE_ROW(hidden), d_row = 4 * row;
  __global float* dh = states + get_group_id(0) * ROWS * 6 * row;
  __global float* dc = dh + ROWS * row;
  __global float* d = dc + ROWS * row;
  for (int r = 0; r < share.count; ++r) {
    const long n = share.sequence[r];
    take_state(dh_n + n * hidden, dh + r * row, hidden);
    take_state(dc_n + n * hidden, dc + r * row, hidden);
    clear_row(dx + (n * steps + share.length[r]) * 4 * hidden, (steps - share.length[r]) * 4 * hidden);
  }
  float sums[ROWS * COLUMNS] ALIGNED;
  for (long s = steps - 1; s >= 0; --s) {
    const int count = read_in_turn(&share, s);
    for (int r = 0; r < count; ++r) {
      const long n = share.sequence[r], at = n * steps + step_of(s, share.length[r], reverse);
      __global const float* before = s > 0 ? cells + (n * steps + step_of(s - 1, share.length[r], reverse)) * hidden : c0 + n * hidden;
      for (long j = 0; j < hidden; j += WIDTH) {
        const int lanes = (int)min(hidden - j, (long)WIDTH);
        Cell carried;
        carried.h = LOAD(dh + r * row + j) + load_first(dy + at * hidden + j, lanes);
        carried.c = LOAD(dc + r * row + j);
        Gates of;
#define KEPT(name, g) of.name = load_first(gates + (at * 4 + g) * hidden + j, lanes);
        KEPT(i, 0) KEPT(f, 1) KEPT(g, 2) KEPT(o, 3)
        of = gates_gradient(of, load_first(cells + at * hidden + j, lanes), load_first(before + j, lanes), &carried);
        STORE(carried.c, dc + r * row + j);
#define GIVE(name, g) STORE(of.name, d + r * d_row + g * PADDED(hidden) + j); store_first(of.name, dx + (at * 4 + g) * hidden + j, lanes);
        GIVE(i, 0) GIVE(f, 1) GIVE(g, 2) GIVE(o, 3)
      }
    }
    for (long j = 0; j < hidden; j += COLUMNS) {
      multiply_panel(d, d_row, count, panels + j * 4 * PADDED(hidden), (int)(4 * PADDED(hidden)), sums);
      for (int r = 0; r < count; ++r)
        for (long v = 0; v < COLUMNS && j + v < hidden; v += WIDTH) STORE(LOAD(sums + r * COLUMNS + v), dh + r * row + j + v);
    }
  }
  for (int r = 0; r < share.count; ++r) {
    copy_row(dh + r * row, dh0 + share.sequence[r] * hidden, hidden);
    copy_row(dc + r * row, dc0 + share.sequence[r] * hidden, hidden);
  }
}
#else
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
#endif
