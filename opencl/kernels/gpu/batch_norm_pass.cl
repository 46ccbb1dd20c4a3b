// The last pass of batch normalisation and of its gradient on GPUs, over x [rows, C]. Legend: batch_norm.clh; mapping: batch_norm_tiles.clh.
// Each group combines the spans of its channels by itself, which are in the cache: a launch for that alone would take longer. Those of the first run of rows
// write what the channels get.
// An epilogue, of y. x and y, dy and dx may be the same memory.

#include "lib/epilogue.clh"
#include "lib/ops/batch_norm_tiles.clh"
#define UNROLL 4

/// Begins a loop over this item's rows, UNROLL at a time, so that as many loads are on their way. ROW(k): the element of the k-th; IS_ROW(k): there is one.
#define EACH_ROWS \
  const long first = get_group_id(1) * run_rows, last = min(first + run_rows, rows); \
  for (long r = first + LANE; r < last; r += LANES * UNROLL)
#define ROW(k) ((r + (k) * LANES) * C + c)
#define IS_ROW(k) (r + (k) * LANES < last)

#define NORMALISE(x, mean, scale, beta, y) \
  EACH_ROWS { \
    float v[UNROLL]; \
    UNROLLED (int k = 0; k < UNROLL; ++k) v[k] = IS_ROW(k) ? (x)[ROW(k)] : 0.0f; \
    UNROLLED (int k = 0; k < UNROLL; ++k) \
      if (IS_ROW(k)) (y)[ROW(k)] = EPILOGUE((v[k] - (mean)) * (scale) + (beta), ROW(k), c); \
  }

__kernel TILE_GROUP void batch_norm_normalise_tile(__global const float* x, __global const float* parts, __global const float* gamma,
                                                   __global const float* beta, __global float* running_mean, __global float* running_var,
                                                   __global long* batches, __global float* mean_out, __global float* inverse_out, __global float* y,
                                                   const long spans, const long span_rows, const float momentum, const float eps, const long rows,
                                                   const long C, const long run_rows EPILOGUE_PARAMETERS) {
  __local float means[ITEMS], m2s[ITEMS], counts[ITEMS];
  const long c = get_global_id(0);
  float mean, m2;
  merge_spans(parts, c, rows, C, spans, span_rows, &mean, &m2, means, m2s, counts);
  const bool writes = get_group_id(1) == 0 && LANE == 0;
  if (writes && c == 0) ++*batches;
  if (c >= C) return;
  const float inverse = 1 / sqrt(m2 / rows + eps), scale = gamma[c] * inverse, shift = beta[c];
  if (writes) {
    mean_out[c] = mean;
    inverse_out[c] = inverse;
    running_mean[c] += momentum * (mean - running_mean[c]);
    running_var[c] += momentum * (m2 / (rows - 1) - running_var[c]);
  }
  NORMALISE(x, mean, scale, shift, y)
}

__kernel TILE_GROUP void batch_norm_inference_tile(__global const float* x, __global const float* gamma, __global const float* beta,
                                                   __global const float* running_mean, __global const float* running_var, __global float* y,
                                                   const float eps, const long rows, const long C, const long run_rows EPILOGUE_PARAMETERS) {
  const long c = get_global_id(0);
  if (c >= C) return;
  const float mean = running_mean[c], scale = gamma[c] / sqrt(running_var[c] + eps), shift = beta[c];
  NORMALISE(x, mean, scale, shift, y)
}

/// Parts are sum dy and sum dy (x - mean).
__kernel TILE_GROUP void batch_norm_slope_tile(__global const float* dy, __global const float* x, __global const float* parts,
                                               __global const float* gamma, __global const float* means, __global const float* inverses,
                                               __global float* dgamma, __global float* dbeta, __global float* dx, const long spans, const long rows,
                                               const long C, const long run_rows) {
  __local float plains[ITEMS], weighteds[ITEMS];
  const long c = get_global_id(0);
  float plain, weighted;
  add_spans(parts, c, C, spans, &plain, &weighted, plains, weighteds);
  plain = plains[COLUMN];
  weighted = weighteds[COLUMN];
  if (c >= C) return;
  const float mean = means[c], inverse = inverses[c], scale = gamma[c] * inverse, shift = plain / rows, slope = weighted * inverse * inverse / rows;
  if (get_group_id(1) == 0 && LANE == 0) {
    dgamma[c] = weighted * inverse;
    dbeta[c] = plain;
  }
  EACH_ROWS {
    float d[UNROLL], v[UNROLL];
    UNROLLED (int k = 0; k < UNROLL; ++k) {
      d[k] = IS_ROW(k) ? dy[ROW(k)] : 0.0f;
      v[k] = IS_ROW(k) ? x[ROW(k)] : 0.0f;
    }
    UNROLLED (int k = 0; k < UNROLL; ++k)
      if (IS_ROW(k)) dx[ROW(k)] = scale * (d[k] - shift - (v[k] - mean) * slope);
  }
}
