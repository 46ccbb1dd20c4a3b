// Batch normalisation on CPUs: the sums of spans of rows. Legend: batch_norm.clh.
// Mapping: a span of rows for each work-item, loops along the contiguous channels.

#include "lib/loops.clh"
#include "lib/ops/batch_norm.clh"

__kernel void batch_norm_moments_rows(__global const float* restrict x, __global float* restrict parts, __global float* restrict scratch,
                                      const long rows, const long C, const long spans, const long span_rows, const long block_rows) {
  const long span = get_global_id(0);
  const long first = span * span_rows, last = min(first + span_rows, rows);
  __global const float* origin = x + first * C;
  __global float* mean = parts + span * C;
  __global float* m2 = mean + spans * C;
  __global float* block_mean = scratch + span * 2 * C;
  __global float* block_m2 = block_mean + C;
  for (long c = 0; c < C; ++c) mean[c] = m2[c] = 0;
  for (long begin = first; begin < last; begin += block_rows) {
    const long end = min(begin + block_rows, last);
    const float n = end - begin, seen = begin - first, share = n / (seen + n), weight = seen * share, one = 1 / n;
    for (long c = 0; c < C; ++c) block_mean[c] = block_m2[c] = 0;
    for (long r = begin; r < end; ++r) {
      INDEPENDENT
      for (long c = 0; c < C; ++c) block_mean[c] += x[r * C + c] - origin[c];
    }
    INDEPENDENT
    for (long c = 0; c < C; ++c) block_mean[c] *= one;
    for (long r = begin; r < end; ++r) {
      INDEPENDENT
      for (long c = 0; c < C; ++c) {
        const float d = x[r * C + c] - origin[c] - block_mean[c];
        block_m2[c] += d * d;
      }
    }
    INDEPENDENT
    for (long c = 0; c < C; ++c) {
      const float delta = block_mean[c] - mean[c];
      mean[c] += delta * share;
      m2[c] += block_m2[c] + delta * delta * weight;
    }
  }
  INDEPENDENT
  for (long c = 0; c < C; ++c) mean[c] += origin[c];
}

__kernel void batch_norm_sums_rows(__global const float* restrict dy, __global const float* restrict x, __global const float* restrict mean,
                                   __global float* restrict parts, __global float* restrict scratch, const long rows, const long C,
                                   const long spans, const long span_rows, const long block_rows) {
  const long span = get_global_id(0);
  const long first = span * span_rows, last = min(first + span_rows, rows);
  __global float* plain = parts + span * C;
  __global float* weighted = plain + spans * C;
  __global float* block_plain = scratch + span * 2 * C;
  __global float* block_weighted = block_plain + C;
  for (long c = 0; c < C; ++c) plain[c] = weighted[c] = 0;
  for (long begin = first; begin < last; begin += block_rows) {
    const long end = min(begin + block_rows, last);
    for (long c = 0; c < C; ++c) block_plain[c] = block_weighted[c] = 0;
    for (long r = begin; r < end; ++r) {
      INDEPENDENT
      for (long c = 0; c < C; ++c) {
        const float d = dy[r * C + c];
        block_plain[c] += d;
        block_weighted[c] += d * (x[r * C + c] - mean[c]);
      }
    }
    INDEPENDENT
    for (long c = 0; c < C; ++c) {
      plain[c] += block_plain[c];
      weighted[c] += block_weighted[c];
    }
  }
}
