// GEMM of any layout with one work-item for each column: C = op(A) op(B), or C += op(A) op(B) with accumulate; for devices whose lanes are
// work-items. Options: an epilogue.

#include "epilogue.clh"

/// The simple form, for devices whose lanes are work-items. Items: one a column, eight rows and matrix; where a driver takes fewer
/// groups than that, each goes on with further ones.
__kernel void gemm_columns(__global const float* restrict a_of_batch, __global const float* restrict b_of_batch,
                           __global float* restrict c_of_batch, const long m, const long n, const long k, const long batches, const long a_row,
                           const long a_step, const long b_column, const long b_step, const long stride_a,
                           const long stride_b, const long stride_c, const int accumulate EPILOGUE_PARAMETERS) {
  const long column = get_global_id(0);
  if (column >= n) return;
  for (long batch = get_global_id(2); batch < batches; batch += get_global_size(2))
    for (long row = get_global_id(1) * 8; row < m; row += get_global_size(1) * 8) {
      __global const float* a = a_of_batch + batch * stride_a;
      __global const float* b = b_of_batch + batch * stride_b + column * b_column;
      long rows[8];
      float sums[8];
      for (int r = 0; r < 8; ++r) {  // over the edge: the last row again, not stored
        rows[r] = min(row + r, m - 1) * a_row;
        sums[r] = 0;
      }
      for (long i = 0; i < k; ++i) {
        const float x = b[i * b_step];
        for (int r = 0; r < 8; ++r) sums[r] = fma(a[rows[r] + i * a_step], x, sums[r]);
      }
      for (int r = 0; r < 8 && row + r < m; ++r) {
        const long i = batch * stride_c + (row + r) * n + column;
        const float value = accumulate ? sums[r] + c_of_batch[i] : sums[r];
        c_of_batch[i] = EPILOGUE(value, i, column);
      }
    }
}
