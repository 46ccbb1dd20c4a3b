// GRU over whole sequences, and its gradients. Legend, layout, mapping, variants and options: recurrent.clh.
// In step t, which is read after t', with p = h_t' weight + hidden_bias and x short for x_t + bias:
//   r, z = sigmoid(x + p);   n = tanh(x_n + r p_n);   h_t = (1 - z) n + z h_t'
// With dh the gradient of h_t from outside and from the step read after t:
//   dn = dh (1 - z) (1 - n^2);   dr = dn p_n r (1 - r);   dz = dh (h_t' - n) z (1 - z)
//   dx_t = [dr, dz, dn];   dp_t = [dr, dz, r dn];   dh_t' = dh z + dp_t weight^T
// x, gates, dx and dp [N, T, 3 H] in the order r, z, n; y, inner (p_n) and dy [N, T, H]; states [N, H]. gates may share memory with x, dx with gates.
// Source: K. Cho et al., Learning phrase representations using RNN encoder-decoder, 2014, in PyTorch's form.
#include "recurrent.clh"

typedef struct {
  real r, z, n;
} Gates;

/// The state after a step. The gates become what they are after their functions. @param inner  p_n @param h  of the step before
static inline real state_of(Gates* gates, real inner, real h) {
  gates->r = sigmoid(gates->r);
  gates->z = sigmoid(gates->z);
  gates->n = hyperbolic_tangent(fma(gates->r, inner, gates->n));
  return fma(gates->z, h - gates->n, gates->n);
}

/// dr, dz, dn. @param inner  p_n @param h  of the step before @param dh  what has arrived so far
static inline Gates gates_gradient(Gates gates, real inner, real h, real dh) {
  Gates d;
  d.n = dh * (1.0f - gates.z) * fma(-gates.n, gates.n, 1.0f);
  d.r = d.n * inner * gates.r * (1.0f - gates.r);
  d.z = dh * (h - gates.n) * gates.z * (1.0f - gates.z);
  return d;
}

#if WIDTH > 1
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
#else
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
#endif
