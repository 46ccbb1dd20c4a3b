// Layer normalisation of each row of x [rows, n].
//   y  = (x - mean) inverse gamma + beta,   inverse = 1 / sqrt(variance + eps)
//   dx = inverse (g - sum g / n - (x - mean) inverse^2 sum(g (x - mean)) / n),   g = dy gamma, sums along the row
//   dgamma = sum_rows dy (x - mean) inverse,   dbeta = sum_rows dy
// Sums over rows are split into spans of rows. Each span writes two numbers for each column to `parts` [2, spans, n]; one work-item for each column then
// adds them in order.
// Options: those of types.clh, except for mean, inverse and parts, which are float.
// Mapping: _rows: each work-item computes a block or span of rows (CPUs); _group: 64 items for each row, and _tile: WIDTH columns x LANES rows for the
// sums over rows (GPUs).

#define GROUP 64
#define WIDTH 32
#define LANES 8
#define UNROLL 8
#include "group.clh"
#include "loops.clh"
#include "rows.clh"

// x and y may be the same memory.
__kernel void layer_norm_rows(__global const STORED* x, __global const STORED* restrict gamma, __global const STORED* restrict beta,
                              __global STORED* y, __global float* restrict mean_out, __global float* restrict inverse_out,
                              const long rows, const long n, const float eps, const long chunk) {
  const long first = get_global_id(0) * chunk, last = min(first + chunk, rows);
  for (long r = first; r < last; ++r) {
    __global const STORED* from = x + r * n;
    __global STORED* to = y + r * n;
    const float mean = row_sum(from, n, 0) / n;
    const float inverse = 1 / sqrt(row_squares(from, n, mean) / n + eps);
    mean_out[r] = mean;
    inverse_out[r] = inverse;
    INDEPENDENT
    for (long j = 0; j < n; ++j) STORE((LOAD(from + j) - mean) * inverse * LOAD(gamma + j) + LOAD(beta + j), to + j);
  }
}

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

/// dx of the span's rows, and the span's sums over them, added up in blocks.
__kernel void layer_norm_backward_rows(__global const STORED* restrict dy, __global const STORED* restrict x,
                                       __global const STORED* restrict gamma, __global const float* restrict means,
                                       __global const float* restrict inverses, __global STORED* restrict dx,
                                       __global float* restrict parts, __global float* restrict scratch, const long rows, const long n,
                                       const long spans, const long span_rows, const long block_rows) {
  const long span = get_global_id(0);
  const long first = span * span_rows, last = min(first + span_rows, rows);
  __global float* dgamma = parts + span * n;
  __global float* dbeta = dgamma + spans * n;
  __global float* block_dgamma = scratch + span * 2 * n;
  __global float* block_dbeta = block_dgamma + n;
  for (long j = 0; j < n; ++j) dgamma[j] = dbeta[j] = 0;
  for (long begin = first; begin < last; begin += block_rows) {
    const long end = min(begin + block_rows, last);
    for (long j = 0; j < n; ++j) block_dgamma[j] = block_dbeta[j] = 0;
    for (long r = begin; r < end; ++r) {
      const long row = r * n;
      const float mean = means[r], inverse = inverses[r];
      const float2 sums = row_products(dy + row, gamma, x + row, n, mean) / n;
      const float slope = sums.y * inverse * inverse;
      INDEPENDENT
      for (long j = 0; j < n; ++j) {
        const float d = LOAD(dy + row + j), centred = LOAD(x + row + j) - mean;
        STORE(inverse * (d * LOAD(gamma + j) - sums.x - centred * slope), dx + row + j);
        block_dgamma[j] += d * centred * inverse;
        block_dbeta[j] += d;
      }
    }
    INDEPENDENT
    for (long j = 0; j < n; ++j) {
      dgamma[j] += block_dgamma[j];
      dbeta[j] += block_dbeta[j];
    }
  }
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

__kernel __attribute__((reqd_work_group_size(WIDTH, LANES, 1)))
void layer_norm_sums_tile(__global const STORED* dy, __global const STORED* x, __global const float* means, __global const float* inverses,
                          __global float* parts, const long rows, const long n, const long spans, const long span_rows) {
  __local float dgammas[LANES][WIDTH], dbetas[LANES][WIDTH];
  const int column = get_local_id(0), lane = get_local_id(1);
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
  dgammas[lane][column] = dgamma;
  dbetas[lane][column] = dbeta;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_lanes = LANES / 2; half_lanes > 0; half_lanes /= 2) {
    if (lane < half_lanes) {
      dgammas[lane][column] += dgammas[lane + half_lanes][column];
      dbetas[lane][column] += dbetas[lane + half_lanes][column];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0 && j < n) {
    parts[span * n + j] = dgammas[0][column];
    parts[(spans + span) * n + j] = dbetas[0][column];
  }
}

__kernel void layer_norm_totals(__global const float* parts, __global STORED* dgamma, __global STORED* dbeta, const long n, const long spans) {
  const long j = get_global_id(0);
  if (j >= n) return;
  float first = 0, second = 0;
  for (long s = 0; s < spans; ++s) {
    first += parts[s * n + j];
    second += parts[(spans + s) * n + j];
  }
  STORE(first, dgamma + j);
  STORE(second, dbeta + j);
}
