// Batch normalisation of x [rows, C]: each channel (column) by its mean and variance over the rows.
//   y  = (x - mean) scale + beta,   scale = gamma / sqrt(variance + eps)
//   dx = scale (dy - sum dy / rows - (x - mean) inverse^2 sum(dy (x - mean)) / rows)
// Sums over rows are split into spans of rows. Each span writes, for each channel, its mean and sum of squared deviations (or its two sums) to
// `parts` [2, spans, C]; one work-item for each channel then combines the spans in order.
// Squared deviations are taken from the mean of a small block of rows, and blocks are merged by Chan's formula, so that no digits are lost if the
// mean is far from 0. Values are relative to the first row of their span; means of spans are relative to the first span.
// y and dx are computed in batch_norm_pass.cl.
// Source: T. F. Chan et al., Updating formulae ..., COMPSTAT 1982, eq. 2.1.
// Mapping: _rows: one work-item for each span or block of rows, with loops along the contiguous channels (CPUs).
//          _tile: work-groups of WIDTH channels x LANES rows (GPUs).

#include "loops.clh"
#define WIDTH 32
#define LANES 8
#define UNROLL 8
#define TILE_GROUP __attribute__((reqd_work_group_size(WIDTH, LANES, 1)))

/// Merges (mean, m2) of n more values into those of `seen` values.
static inline void merge(float* mean, float* m2, float* seen, float more_mean, float more_m2, float n) {
  const float total = *seen + n, delta = more_mean - *mean;
  if (n == 0) return;
  *mean += delta * (n / total);
  *m2 += more_m2 + delta * delta * (*seen / total * n);
  *seen = total;
}

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

__kernel TILE_GROUP void batch_norm_moments_tile(__global const float* restrict x, __global float* restrict parts, const long rows,
                                                 const long C, const long spans, const long span_rows) {
  __local float means[LANES][WIDTH], m2s[LANES][WIDTH], counts[LANES][WIDTH];
  const int column = get_local_id(0), lane = get_local_id(1);
  const long c = get_global_id(0), span = get_group_id(1);
  const long last = min((span + 1) * span_rows, rows);
  const float origin = c < C ? x[span * span_rows * C + c] : 0.0f;
  float mean = 0, m2 = 0, seen = 0;
  for (long r = span * span_rows + lane; c < C && r < last; r += LANES * UNROLL) {
    float v[UNROLL], sum = 0, more = 0, n = 0;
    for (int k = 0; k < UNROLL; ++k) {
      const bool inside = r + k * LANES < last;
      v[k] = inside ? x[(r + k * LANES) * C + c] - origin : 0.0f;
      sum += v[k];
      n += inside ? 1.0f : 0.0f;
    }
    sum /= n;
    for (int k = 0; k < UNROLL; ++k) more += k < n ? (v[k] - sum) * (v[k] - sum) : 0.0f;
    merge(&mean, &m2, &seen, sum, more, n);
  }
  means[lane][column] = mean;
  m2s[lane][column] = m2;
  counts[lane][column] = seen;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_lanes = LANES / 2; half_lanes > 0; half_lanes /= 2) {
    if (lane < half_lanes) {
      const int other = lane + half_lanes;
      merge(&mean, &m2, &seen, means[other][column], m2s[other][column], counts[other][column]);
      means[lane][column] = mean;
      m2s[lane][column] = m2;
      counts[lane][column] = seen;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0 && c < C) {
    parts[span * C + c] = mean + origin;
    parts[(spans + span) * C + c] = m2;
  }
}

__kernel void batch_norm_statistics(__global const float* parts, __global const float* gamma, __global float* running_mean,
                                    __global float* running_var, __global long* batches, __global float* mean_out, __global float* inverse_out,
                                    __global float* scale, const long rows, const long C, const long spans, const long span_rows,
                                    const float momentum, const float eps) {
  const long c = get_global_id(0);
  if (c == 0) ++*batches;
  if (c >= C) return;
  const float origin = parts[c];
  float mean = 0, m2 = parts[spans * C + c], seen = min(span_rows, rows);
  for (long s = 1; s < spans; ++s)
    merge(&mean, &m2, &seen, parts[s * C + c] - origin, parts[(spans + s) * C + c], min(span_rows, rows - s * span_rows));
  mean += origin;
  const float inverse = 1 / sqrt(m2 / rows + eps);
  mean_out[c] = mean;
  inverse_out[c] = inverse;
  scale[c] = gamma[c] * inverse;
  running_mean[c] += momentum * (mean - running_mean[c]);
  running_var[c] += momentum * (m2 / (rows - 1) - running_var[c]);
}

__kernel void batch_norm_merged_moments(__global const float* parts, __global float* mean_out, __global float* squares_out, const long rows,
                                        const long C, const long spans, const long span_rows) {
  const long c = get_global_id(0);
  if (c >= C) return;
  const float origin = spans > 0 ? parts[c] : 0;
  float mean = 0, m2 = 0, seen = 0;
  for (long s = 0; s < spans; ++s)
    merge(&mean, &m2, &seen, parts[s * C + c] - origin, parts[(spans + s) * C + c], min(span_rows, rows - s * span_rows));
  mean_out[c] = mean + origin;
  squares_out[c] = m2;
}

/// The same of the parts of a batch [parts, C], of so many rows each; and the running statistics.
__kernel void batch_norm_merge_parts(__global const float* means, __global const float* squares, __global const long* rows,
                                     __global float* running_mean, __global float* running_var, __global long* batches,
                                     __global float* mean_out, __global float* var_out, const long parts, const long C, const float momentum) {
  const long c = get_global_id(0);
  if (c == 0) ++*batches;
  if (c >= C) return;
  const float origin = parts > 0 ? means[c] : 0;
  float mean = 0, m2 = 0, seen = 0;
  for (long p = 0; p < parts; ++p) merge(&mean, &m2, &seen, means[p * C + c] - origin, squares[p * C + c], rows[p]);
  mean += origin;
  mean_out[c] = mean;
  var_out[c] = m2 / seen;
  running_mean[c] += momentum * (mean - running_mean[c]);
  running_var[c] += momentum * (m2 / fmax(seen - 1, 1.0f) - running_var[c]);
}

__kernel void batch_norm_running_scale(__global const float* gamma, __global const float* running_var, __global float* scale,
                                       const long C, const float eps) {
  const long c = get_global_id(0);
  if (c < C) scale[c] = gamma[c] / sqrt(running_var[c] + eps);
}

// ---- backward: parts are sum dy and sum dy (x - mean)

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

__kernel TILE_GROUP void batch_norm_sums_tile(__global const float* restrict dy, __global const float* restrict x,
                                              __global const float* restrict mean, __global float* restrict parts, const long rows,
                                              const long C, const long spans, const long span_rows) {
  __local float plains[LANES][WIDTH], weighteds[LANES][WIDTH];
  const int column = get_local_id(0), lane = get_local_id(1);
  const long c = get_global_id(0), span = get_group_id(1);
  const long last = min((span + 1) * span_rows, rows);
  const float m = c < C ? mean[c] : 0.0f;
  float plain = 0, weighted = 0;
  for (long r = span * span_rows + lane; c < C && r < last; r += LANES * UNROLL) {
    float block_plain = 0, block_weighted = 0;
    for (int k = 0; k < UNROLL; ++k) {
      const long i = (r + k * LANES) * C + c;
      const bool inside = r + k * LANES < last;
      const float d = inside ? dy[i] : 0.0f;
      block_plain += d;
      block_weighted += inside ? d * (x[i] - m) : 0.0f;
    }
    plain += block_plain;
    weighted += block_weighted;
  }
  plains[lane][column] = plain;
  weighteds[lane][column] = weighted;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_lanes = LANES / 2; half_lanes > 0; half_lanes /= 2) {
    if (lane < half_lanes) {
      plains[lane][column] += plains[lane + half_lanes][column];
      weighteds[lane][column] += weighteds[lane + half_lanes][column];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0 && c < C) {
    parts[span * C + c] = plains[0][column];
    parts[(spans + span) * C + c] = weighteds[0][column];
  }
}

/// dgamma, dbeta, and the three numbers a channel that dx needs: [shift; slope; scale].
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
