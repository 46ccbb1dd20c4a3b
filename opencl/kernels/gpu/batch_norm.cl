// Batch normalisation on GPUs: the sums of spans of rows. Legend: batch_norm.clh.
// Mapping: a group of WIDTH channels x LANES rows.

#include "lib/ops/batch_norm.clh"
#define WIDTH 32
#define LANES 8
#define UNROLL 8
#define TILE_GROUP __attribute__((reqd_work_group_size(WIDTH, LANES, 1)))

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
