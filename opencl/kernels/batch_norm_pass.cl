// Last pass of batch normalisation and of its gradient over x [rows, C], after the sums over the rows (batch_norm.cl).
//   y  = (x - mean) scale + beta
//   dx = scale (dy - shift - (x - mean) slope),   line = [shift; slope; scale]
// Mapping: _rows: one work-item for each block of rows, with loops along the contiguous channels (CPUs); `around`: stores bypass the caches.
//          _tile: work-groups of WIDTH channels x LANES rows (GPUs).
// Options: an epilogue, for y. x and y, and dy and dx, may be the same memory.

#include "epilogue.clh"
#include "stores.clh"
#define WIDTH 32
#define LANES 8
#define TILE_GROUP __attribute__((reqd_work_group_size(WIDTH, LANES, 1)))

/// to[i] = value(i, c) for all elements i of rows [first, last), in channel c.
#define EACH_ELEMENT(to, value) \
  for (long r = first; r < last; ++r) { \
    for (long begin = 0; around && begin < C; begin += STRIP) { \
      const int count = min((long)STRIP, C - begin); \
      float line_[STRIP]; \
      INDEPENDENT \
      for (int j = 0; j < count; ++j) line_[j] = value(r * C + begin + j, begin + j); \
      store_around(line_, to + r * C + begin, count); \
    } \
    INDEPENDENT \
    for (long c = 0; c < (around ? 0 : C); ++c) to[r * C + c] = value(r * C + c, c); \
  }

#define NORMALISED(i, c) EPILOGUE((x[i] - mean[c]) * scale[c] + beta[c], i, c)
__kernel void batch_norm_apply_rows(__global const float* x, __global const float* restrict mean, __global const float* restrict scale,
                                    __global const float* restrict beta, __global float* y, const long rows, const long C,
                                    const long run_rows, const int around EPILOGUE_PARAMETERS) {
  const long first = get_global_id(0) * run_rows, last = min(first + run_rows, rows);
  EACH_ELEMENT(y, NORMALISED)
}

__kernel TILE_GROUP void batch_norm_apply_tile(__global const float* x, __global const float* mean, __global const float* scale,
                                               __global const float* beta, __global float* y, const long rows, const long C,
                                               const long run_rows EPILOGUE_PARAMETERS) {
  const long c = get_global_id(0);
  if (c >= C) return;
  const long first = get_group_id(1) * run_rows, last = min(first + run_rows, rows);
  const float m = mean[c], s = scale[c], b = beta[c];
  for (long r = first + get_local_id(1); r < last; r += LANES) y[r * C + c] = EPILOGUE((x[r * C + c] - m) * s + b, r * C + c, c);
}

#define SLOPE(i, c) line[2 * C + c] * (dy[i] - line[c] - (x[i] - mean[c]) * line[C + c])
__kernel void batch_norm_slope_rows(__global const float* dy, __global const float* restrict x, __global const float* restrict mean,
                                    __global const float* restrict line, __global float* dx, const long rows, const long C,
                                    const long run_rows, const int around) {
  const long first = get_global_id(0) * run_rows, last = min(first + run_rows, rows);
  EACH_ELEMENT(dx, SLOPE)
}
__kernel TILE_GROUP void batch_norm_slope_tile(__global const float* dy, __global const float* restrict x, __global const float* mean,
                                               __global const float* line, __global float* dx, const long rows, const long C,
                                               const long run_rows) {
  const long c = get_global_id(0);
  if (c >= C) return;
  const long first = get_group_id(1) * run_rows, last = min(first + run_rows, rows);
  const float m = mean[c], shift = line[c], slope = line[C + c], scale = line[2 * C + c];
  for (long r = first + get_local_id(1); r < last; r += LANES)
    dx[r * C + c] = scale * (dy[r * C + c] - shift - (x[r * C + c] - m) * slope);
}
