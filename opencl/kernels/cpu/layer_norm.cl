// Layer normalisation on CPUs: each work-item does a run or a span of rows. Legend and options: layer_norm.clh.

#include "lib/loops.clh"
#include "lib/ops/layer_norm.clh"

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

__kernel void layer_norm_totals_rows(__global const float* parts, __global STORED* dgamma, __global STORED* dbeta, const long n, const long spans) {
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
