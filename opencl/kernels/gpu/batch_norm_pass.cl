// The last pass of batch normalisation and of its gradient, over x [rows, C], once the sums over the rows are known (batch_norm.clh).
//   y  = (x - mean) scale + beta
//   dx = scale (dy - shift - (x - mean) slope),   line = [shift; slope; scale]
// Mapping: a group of WIDTH channels x LANES rows.
// An epilogue, of y. x and y, dy and dx may be the same memory.

#include "lib/epilogue.clh"
#define WIDTH 32
#define LANES 8
#define TILE_GROUP __attribute__((reqd_work_group_size(WIDTH, LANES, 1)))

__kernel TILE_GROUP void batch_norm_apply_tile(__global const float* x, __global const float* mean, __global const float* scale,
                                               __global const float* beta, __global float* y, const long rows, const long C,
                                               const long run_rows EPILOGUE_PARAMETERS) {
  const long c = get_global_id(0);
  if (c >= C) return;
  const long first = get_group_id(1) * run_rows, last = min(first + run_rows, rows);
  const float m = mean[c], s = scale[c], b = beta[c];
  for (long r = first + get_local_id(1); r < last; r += LANES) y[r * C + c] = EPILOGUE((x[r * C + c] - m) * s + b, r * C + c, c);
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
