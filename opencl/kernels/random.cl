// Random numbers and dropout. Every number has its own key (see philox.clh): sample r is row r of [samples, n], and one
// Philox block gives the four numbers 4b .. 4b + 3 of a sample.
//   uniform  low + range u              normal  mean + deviation sqrt(-2 log u1) {cos, sin}(2 pi u2), by pairs, u1 in (0, 1]
//   dropout  y = x scale where 24 random bits are not below `threshold`, else 0
// Mapping: each work-item does row_block samples by column_block Philox blocks: thousands on a CPU, one on a GPU.

#include "loops.clh"
#include "philox.clh"

#define ROWS(r) (long r = get_global_id(1) * row_block, last_row = min(r + row_block, samples); r < last_row; ++r)

// x and y may be the same memory.
__kernel void dropout(__global const float* x, __global const long* state, __global float* y, const long samples, const long n,
                      const long row_block, const long column_block, const long stream, const int threshold, const float scale) {
  const long whole = n / 4, begin = get_global_id(0) * column_block;
  const long end = min(begin + column_block, (n + 3) / 4), end_whole = min(end, whole);
  for ROWS(r) {
    __global const float* from = x + r * n;
    __global float* to = y + r * n;
    uint words[4];
    INDEPENDENT
    for (long b = begin; b < end_whole; ++b) {
      uint bits[4];
      draw(state, (uint)stream, r, b, bits);
      to[4 * b] = (bits[0] >> 8) < (uint)threshold ? 0.0f : from[4 * b] * scale;
      to[4 * b + 1] = (bits[1] >> 8) < (uint)threshold ? 0.0f : from[4 * b + 1] * scale;
      to[4 * b + 2] = (bits[2] >> 8) < (uint)threshold ? 0.0f : from[4 * b + 2] * scale;
      to[4 * b + 3] = (bits[3] >> 8) < (uint)threshold ? 0.0f : from[4 * b + 3] * scale;
    }
    if (whole < begin || whole >= end) continue;
    draw(state, (uint)stream, r, whole, words);
    for (long i = 4 * whole; i < n; ++i) to[i] = (words[i - 4 * whole] >> 8) < (uint)threshold ? 0.0f : from[i] * scale;
  }
}

void to_uniform(const uint bits[4], float low, float range, float v[4]) {
  for (int k = 0; k < 4; ++k) v[k] = low + range * unit_float(bits[k]);
}

void to_normal(const uint bits[4], float mean, float deviation, float v[4]) {
  for (int k = 0; k < 4; k += 2) {
    const float radius = sqrt(-2 * log(((bits[k] >> 8) + 1) * 0x1p-24f)) * deviation, turn = 2 * unit_float(bits[k + 1]);
    v[k] = mean + radius * cospi(turn);
    v[k + 1] = mean + radius * sinpi(turn);
  }
}

#define RANDOM_KERNEL(name, convert)                                                                                          \
  __kernel void name(__global const long* state, __global float* y, const long samples, const long n, const long row_block,   \
                     const long column_block, const long stream, const float first, const float second) {                     \
    const long whole = n / 4, begin = get_global_id(0) * column_block;                                                        \
    const long end = min(begin + column_block, (n + 3) / 4), end_whole = min(end, whole);                                     \
    for ROWS(r) {                                                                                                             \
      __global float* to = y + r * n;                                                                                         \
      INDEPENDENT                                                                                                             \
      for (long b = begin; b < end_whole; ++b) {                                                                              \
        uint bits[4];                                                                                                         \
        float v[4];                                                                                                           \
        draw(state, (uint)stream, r, b, bits);                                                                                \
        convert(bits, first, second, v);                                                                                      \
        to[4 * b] = v[0];                                                                                                     \
        to[4 * b + 1] = v[1];                                                                                                 \
        to[4 * b + 2] = v[2];                                                                                                 \
        to[4 * b + 3] = v[3];                                                                                                 \
      }                                                                                                                       \
      if (whole < begin || whole >= end) continue;                                                                            \
      uint bits[4];                                                                                                           \
      float v[4];                                                                                                             \
      draw(state, (uint)stream, r, whole, bits);                                                                              \
      convert(bits, first, second, v);                                                                                        \
      for (long i = 4 * whole; i < n; ++i) to[i] = v[i - 4 * whole];                                                          \
    }                                                                                                                         \
  }

RANDOM_KERNEL(random_uniform, to_uniform)
RANDOM_KERNEL(random_normal, to_normal)

__kernel void fold_in(__global const long* state, __global const long* count, __global long* y) {
  y[0] = state[0];
  y[1] = state[1];
  y[2] = state[2];
  y[3] = (long)fold_hash(state[3], count[0] + 1);
}
