// Batch normalisation on CPUs: the sums of spans of rows, and of all spans. Legend: batch_norm.clh.
// Mapping: a span of rows for each work-item, loops along the contiguous channels; then a channel for each.

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

// ---- the spans of a channel

__kernel void batch_norm_statistics(__global const float* parts, __global const float* gamma, __global float* running_mean,
                                    __global float* running_var, __global long* batches, __global float* mean_out, __global float* inverse_out,
                                    __global float* scale, const long rows, const long C, const long spans, const long span_rows,
                                    const float momentum, const float eps) {
  const long c = get_global_id(0);
  if (c == 0) ++*batches;
  if (c >= C) return;
  const float origin = parts[c];
  float mean = 0, m2 = parts[spans * C + c], seen = SPAN_ROWS(0);
  for (long s = 1; s < spans; ++s) merge(&mean, &m2, &seen, parts[s * C + c] - origin, parts[(spans + s) * C + c], SPAN_ROWS(s));
  mean += origin;
  const float inverse = 1 / sqrt(m2 / rows + eps);
  mean_out[c] = mean;
  inverse_out[c] = inverse;
  scale[c] = gamma[c] * inverse;
  running_mean[c] += momentum * (mean - running_mean[c]);
  running_var[c] += momentum * (m2 / (rows - 1) - running_var[c]);
}

__kernel void batch_norm_running_scale(__global const float* gamma, __global const float* running_var, __global float* scale,
                                       const long C, const float eps) {
  const long c = get_global_id(0);
  if (c < C) scale[c] = gamma[c] / sqrt(running_var[c] + eps);
}

__kernel void batch_norm_merged_moments_rows(__global const float* parts, __global float* mean_out, __global float* squares_out, const long rows,
                                             const long C, const long spans, const long span_rows) {
  const long c = get_global_id(0);
  if (c >= C) return;
  const float origin = spans > 0 ? parts[c] : 0;
  float mean = 0, m2 = 0, seen = 0;
  for (long s = 0; s < spans; ++s) merge(&mean, &m2, &seen, parts[s * C + c] - origin, parts[(spans + s) * C + c], SPAN_ROWS(s));
  mean_out[c] = mean + origin;
  squares_out[c] = m2;
}

/// dgamma, dbeta, and the three numbers a channel that dx needs: [shift; slope; scale]. Parts are sum dy and sum dy (x - mean).
__kernel void batch_norm_totals(__global const float* parts, __global const float* gamma, __global const float* inverse,
                                __global float* dgamma, __global float* dbeta, __global float* line, const long rows, const long C,
                                const long spans) {
  const long c = get_global_id(0);
  if (c >= C) return;
  float plain = 0, weighted = 0;
  for (long s = 0; s < spans; ++s) {
    plain += parts[s * C + c];
    weighted += parts[(spans + s) * C + c];
  }
  dgamma[c] = weighted * inverse[c];
  dbeta[c] = plain;
  line[c] = plain / rows;
  line[C + c] = weighted * inverse[c] * inverse[c] / rows;
  line[2 * C + c] = gamma[c] * inverse[c];
}
