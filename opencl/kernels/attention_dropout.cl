// Dropout of attention weights [samples, heads, queries, keys]: y = x factor, with the random numbers of attention.clh.
// Mapping: each work-item computes `run` keys, a multiple of 64, of row_block rows; a row holds the weights of one query.
// Options: LANES (16, 8 or 1), the number of random blocks computed side by side.

#include "attention.clh"

__kernel void attention_dropout(__global const float* x, __global const long* state, __global float* y, const long rows, const long heads,
                                const long queries, const long keys, const long row_block, const long run, const long stream, const long keyed,
                                const float threshold, const float keep) {
  const long begin = get_global_id(0) * run, end = min(begin + run, keys);
  for (long r = get_global_id(1) * row_block, last = min(r + row_block, rows); r < last; ++r) {
    uint own[4];
    head_key(state, (uint)stream, place_of(state, r / queries / heads, keyed), r / queries % heads, own);
    for (long j = begin; j < end; j += 64) {
      float drawn[64];
      draw_factors(own, r % queries, j, 64, (float2)(threshold, keep), drawn);
      for (long l = j; l < min(j + 64, end); ++l) y[r * keys + l] = drawn[l - j] == 0 ? 0 : x[r * keys + l] * drawn[l - j];
    }
  }
}
