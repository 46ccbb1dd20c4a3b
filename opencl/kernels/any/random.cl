// Random numbers and dropout. Each number has its own key (philox.clh). Layout [outer, samples, n]: a row of n numbers belongs to a sample, whose rows
// begin at Philox blocks of their own; block b gives numbers 4b .. 4b + 3 of a row.
//   uniform  low + range u              normal  mean + deviation sqrt(-2 log u1) {cos, sin}(2 pi u2), by pairs, u1 in (0, 1]
//   dropout  y = x scale if 24 random bits are at least `threshold`, else 0
// Mapping: each work-item computes column_block Philox blocks of sample_block samples in each of outer_block layers: thousands of blocks on a CPU, one on a
// GPU. Blocks along the first dimension of the range, samples along the second, layers along the third.
// Options: LANES, the number of blocks computed side by side: 8, one in each vector lane, or 1. It divides column_block if a row has
// several column blocks.

#include "lib/math/philox.clh"

#if LANES == 8
/// The numbers of blocks i..l, one block's four after another.
#define QUADS(v, i, j, k, l)                                                                                               \
  (float16)(v[0].s##i, v[1].s##i, v[2].s##i, v[3].s##i, v[0].s##j, v[1].s##j, v[2].s##j, v[3].s##j, v[0].s##k, v[1].s##k, \
            v[2].s##k, v[3].s##k, v[0].s##l, v[1].s##l, v[2].s##l, v[3].s##l)
#define EACH_VECTOR(f, v) f(16, 0, QUADS(v, 0, 1, 2, 3)) f(16, 16, QUADS(v, 4, 5, 6, 7))
#else
#define EACH_VECTOR(f, v) f(4, 0, (float4)(v[0], v[1], v[2], v[3]))
#endif

/// The factor of each number: 0 or `scale`.
static inline void to_factors(const words bits[4], float threshold, float scale, floats v[4]) {
  for (int k = 0; k < 4; ++k) v[k] = UPPER(bits[k]) < (floats)threshold ? (floats)0 : (floats)scale;
}

static inline void to_uniform(const words bits[4], float low, float range, floats v[4]) {
  for (int k = 0; k < 4; ++k) v[k] = low + range * (UPPER(bits[k]) * 0x1p-24f);
}

static inline void to_normal(const words bits[4], float mean, float deviation, floats v[4]) {
  for (int k = 0; k < 4; k += 2) {
    const floats radius = sqrt(-2 * log((UPPER(bits[k]) + 1) * 0x1p-24f)) * deviation, turn = UPPER(bits[k + 1]) * 0x1p-23f;
    v[k] = mean + radius * cospi(turn);
    v[k + 1] = mean + radius * sinpi(turn);
  }
}

/// What is stored, of the input at its place and the number made. A dropped infinity is 0.
#define MADE(input, v) v
#define SCALED(input, v) ((v) == 0 ? (v) : (input) * (v))

#define STORE_MADE(width, at, v) vstore##width(v, 0, to + at);
#define STORE_SCALED(width, at, v) \
  { const float##width factors = v; vstore##width(SCALED(vload##width(0, from + at), factors), 0, to + at); }
#define SPILL(width, at, v) vstore##width(v, 0, rest + at);

#define SIZES \
  const long outer, const long samples, const long n, const long keyed, const long outer_block, const long sample_block, const long column_block, \
      const long stream
#define EACH_OF_BLOCK(i, dimension, block, extent) \
  for (long i = get_global_id(dimension) * block, end_of_##i = min(i + block, extent); i < end_of_##i; ++i)
#define EACH_ROW(from_base, convert, result, store)                                                                     \
  const long blocks = (n + 3) / 4, begin = get_global_id(0) * column_block, end = min(begin + column_block, blocks);    \
  EACH_OF_BLOCK(o, 2, outer_block, outer) EACH_OF_BLOCK(sample, 1, sample_block, samples) {                             \
    const long place = place_of(state, sample, keyed), r = o * samples + sample;                                        \
    for (long b = begin; b < end; b += LANES) {                                                                         \
      __global const float* from = from_base + r * n + 4 * b;                                                           \
      __global float* to = y + r * n + 4 * b;                                                                           \
      words bits[4];                                                                                                    \
      floats v[4];                                                                                                      \
      draw(state, (uint)stream, place, o * blocks + b, bits);                                                           \
      convert(bits, first, second, v);                                                                                  \
      const long left = n - 4 * b;                                                                                      \
      if (left >= 4 * LANES) {                                                                                          \
        EACH_VECTOR(store, v)                                                                                           \
      } else {                                                                                                          \
        float rest[4 * LANES];                                                                                          \
        EACH_VECTOR(SPILL, v)                                                                                           \
        for (long i = 0; i < left; ++i) to[i] = result(from[i], rest[i]);                                               \
      }                                                                                                                 \
    }                                                                                                                   \
  }

// x and y may be the same memory.
__kernel void dropout(__global const float* x, __global const long* state, __global float* y, SIZES, const float first, const float second) {
  EACH_ROW(x, to_factors, SCALED, STORE_SCALED)
}
__kernel void random_uniform(__global const long* state, __global float* y, SIZES, const float first, const float second) {
  EACH_ROW(y, to_uniform, MADE, STORE_MADE)
}
__kernel void random_normal(__global const long* state, __global float* y, SIZES, const float first, const float second) {
  EACH_ROW(y, to_normal, MADE, STORE_MADE)
}

__kernel void fold_in(__global const long* state, __global const long* count, __global long* y, const long n) {
  for (long i = 0; i < n; ++i) y[i] = i == 3 ? (long)fold_hash(state[3], count[0] + 1) : state[i];
}
