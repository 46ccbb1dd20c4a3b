// Batch normalisation on GPUs: the sums of spans of rows. Legend: batch_norm.clh.
// Mapping: batch_norm_tiles.clh.

#include "lib/ops/batch_norm_tiles.clh"
#define UNROLL 8

__kernel TILE_GROUP void batch_norm_moments_tile(__global const float* restrict x, __global float* restrict parts, const long rows,
                                                 const long C, const long spans, const long span_rows) {
  __local float means[ITEMS], m2s[ITEMS], counts[ITEMS];
  const int lane = LANE;
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
  merge_lanes(&mean, &m2, &seen, means, m2s, counts);
  if (lane == 0 && c < C) {
    parts[span * C + c] = mean + origin;
    parts[(spans + span) * C + c] = m2;
  }
}

__kernel TILE_GROUP void batch_norm_sums_tile(__global const float* restrict dy, __global const float* restrict x,
                                              __global const float* restrict mean, __global float* restrict parts, const long rows,
                                              const long C, const long spans, const long span_rows) {
  __local float plains[ITEMS], weighteds[ITEMS];
  const int lane = LANE;
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
  add_lanes(&plain, &weighted, plains, weighteds);
  if (lane == 0 && c < C) {
    parts[span * C + c] = plain;
    parts[(spans + span) * C + c] = weighted;
  }
}

__kernel TILE_GROUP void batch_norm_merged_moments_tile(__global const float* parts, __global float* mean_out, __global float* squares_out,
                                                        const long rows, const long C, const long spans, const long span_rows) {
  __local float means[ITEMS], m2s[ITEMS], counts[ITEMS];
  const long c = get_global_id(0);
  float mean, m2;
  merge_spans(parts, c, rows, C, spans, span_rows, &mean, &m2, means, m2s, counts);
  if (LANE != 0 || c >= C) return;
  mean_out[c] = mean;
  squares_out[c] = m2;
}
