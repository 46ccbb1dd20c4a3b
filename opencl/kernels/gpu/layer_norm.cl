// Layer normalisation on GPUs: 64 items a row; COLUMNS columns x LANES rows, or spans of rows, for the sums over rows.
// Legend and options: layer_norm.clh.

#define GROUP 64
#define COLUMNS 32
#define LANES 8
#define UNROLL 8
#include "lib/group.clh"
#include "lib/lanes.clh"
#include "lib/ops/layer_norm.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void layer_norm_group(__global const STORED* x, __global const STORED* gamma, __global const STORED* beta, __global STORED* y,
                      __global float* mean_out, __global float* inverse_out, const long n, const float eps) {
  __local float shared[GROUP];
  const long r = get_group_id(0);
  const int me = get_local_id(0);
  __global const STORED* from = x + r * n;
  float total = 0, squares = 0;
  for (long j = me; j < n; j += GROUP) total += LOAD(from + j);
  const float mean = group_sum(shared, total) / n;
  for (long j = me; j < n; j += GROUP) squares += (LOAD(from + j) - mean) * (LOAD(from + j) - mean);
  const float inverse = 1 / sqrt(group_sum(shared, squares) / n + eps);
  if (me == 0) {
    mean_out[r] = mean;
    inverse_out[r] = inverse;
  }
  for (long j = me; j < n; j += GROUP) STORE((LOAD(from + j) - mean) * inverse * LOAD(gamma + j) + LOAD(beta + j), y + r * n + j);
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void layer_norm_slope_group(__global const STORED* dy, __global const STORED* x, __global const STORED* gamma, __global const float* means,
                            __global const float* inverses, __global STORED* dx, const long n) {
  __local float shared[GROUP];
  const long r = get_group_id(0), row = r * n;
  const int me = get_local_id(0);
  const float mean = means[r], inverse = inverses[r];
  float plain = 0, weighted = 0;
  for (long j = me; j < n; j += GROUP) {
    const float g = LOAD(dy + row + j) * LOAD(gamma + j);
    plain += g;
    weighted += g * (LOAD(x + row + j) - mean);
  }
  plain = group_sum(shared, plain) / n;
  const float slope = group_sum(shared, weighted) / n * inverse * inverse;
  for (long j = me; j < n; j += GROUP)
    STORE(inverse * (LOAD(dy + row + j) * LOAD(gamma + j) - plain - (LOAD(x + row + j) - mean) * slope), dx + row + j);
}

__kernel __attribute__((reqd_work_group_size(COLUMNS, LANES, 1)))
void layer_norm_sums_tile(__global const STORED* dy, __global const STORED* x, __global const float* means, __global const float* inverses,
                          __global float* parts, const long rows, const long n, const long spans, const long span_rows) {
  __local float dgammas[LANES * COLUMNS], dbetas[LANES * COLUMNS];
  const int lane = LANE;
  const long j = get_global_id(0), span = get_group_id(1);
  const long last = min((span + 1) * span_rows, rows);
  float dgamma = 0, dbeta = 0;
  for (long r = span * span_rows + lane; j < n && r < last; r += LANES * UNROLL) {
    float block_dgamma = 0, block_dbeta = 0;
    for (int k = 0; k < UNROLL; ++k) {
      const long row = r + k * LANES;
      const bool inside = row < last;
      const float d = inside ? LOAD(dy + row * n + j) : 0.0f;
      block_dgamma += inside ? d * (LOAD(x + row * n + j) - means[row]) * inverses[row] : 0.0f;
      block_dbeta += d;
    }
    dgamma += block_dgamma;
    dbeta += block_dbeta;
  }
  add_lanes(&dgamma, &dbeta, dgammas, dbetas);
  if (lane == 0 && j < n) {
    parts[span * n + j] = dgamma;
    parts[(spans + span) * n + j] = dbeta;
  }
}

__kernel __attribute__((reqd_work_group_size(COLUMNS, LANES, 1)))
void layer_norm_totals_tile(__global const float* parts, __global STORED* dgamma, __global STORED* dbeta, const long n, const long spans) {
  __local float dgammas[COLUMNS * LANES], dbetas[COLUMNS * LANES];
  const long j = get_global_id(0);
  float first, second;
  add_spans(parts, j, n, spans, &first, &second, dgammas, dbetas);
  if (LANE != 0 || j >= n) return;
  STORE(first, dgamma + j);
  STORE(second, dbeta + j);
}
