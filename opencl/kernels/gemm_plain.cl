// The forms of GEMM that pack nothing: C = alpha op(A) op(B) + beta C, C [m, n] row-major.
// gemm_dots: few rows of A [m, k] by rows of B [n, k], vectors along k, one work-item a group; for CPUs.
// gemm_columns: any layout, one work-item a column; for devices whose lanes are work-items.
// Options: an epilogue.

#include "epilogue.clh"

/// Few rows by rows of B [n, k]: dot products along k, which is contiguous in both. Items: one a tile of 4 x 4 and matrix.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm_dots(__global const float* restrict a_of_batch, __global const float* restrict b_of_batch,
               __global float* restrict c_of_batch, const long m, const long n, const long k, const long stride_a,
               const long stride_b, const long stride_c, const float alpha, const float beta EPILOGUE_PARAMETERS) {
  const long batch = get_group_id(2), row = get_group_id(0) * 4, column = get_group_id(1) * 4;
  __global const float* a[4];
  __global const float* b[4];
  for (int i = 0; i < 4; ++i) {  // over the edge: the last one again, not stored
    a[i] = a_of_batch + batch * stride_a + min(row + i, m - 1) * k;
    b[i] = b_of_batch + batch * stride_b + min(column + i, n - 1) * k;
  }
  float16 sums[4][4];
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) sums[i][j] = 0;
  long at = 0;
  for (; at + 16 <= k; at += 16) {
    const float16 b0 = vload16(0, b[0] + at), b1 = vload16(0, b[1] + at), b2 = vload16(0, b[2] + at), b3 = vload16(0, b[3] + at);
#define DOT_ROW(i) { const float16 x = vload16(0, a[i] + at); sums[i][0] = fma(x, b0, sums[i][0]); \
    sums[i][1] = fma(x, b1, sums[i][1]); sums[i][2] = fma(x, b2, sums[i][2]); sums[i][3] = fma(x, b3, sums[i][3]); }
    DOT_ROW(0) DOT_ROW(1) DOT_ROW(2) DOT_ROW(3)
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      if (row + i >= m || column + j >= n) continue;
      float parts[16], value = 0;
      vstore16(sums[i][j], 0, parts);
      for (int part = 0; part < 16; ++part) value += parts[part];
      for (long rest = at; rest < k; ++rest) value = fma(a[i][rest], b[j][rest], value);
      __global float* to = c_of_batch + batch * stride_c + (row + i) * n + column + j;
      *to = alpha * value + (beta != 0 ? beta * *to : 0);
    }
  FINISH(c_of_batch, batch * stride_c + row * n + column, n, min(4L, m - row), column, min(4L, n - column))
}

/// The simple form, for devices whose lanes are work-items. Items: one a column, eight rows and matrix.
__kernel void gemm_columns(__global const float* restrict a_of_batch, __global const float* restrict b_of_batch,
                           __global float* restrict c_of_batch, const long m, const long n, const long k, const long a_row,
                           const long a_step, const long b_column, const long b_step, const long stride_a,
                           const long stride_b, const long stride_c, const float alpha, const float beta EPILOGUE_PARAMETERS) {
  const long column = get_global_id(0), row = get_global_id(1) * 8, batch = get_global_id(2);
  if (column >= n) return;
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
    const float value = alpha * sums[r] + (beta != 0 ? beta * c_of_batch[i] : 0);
    c_of_batch[i] = EPILOGUE(value, i, column);
  }
}
