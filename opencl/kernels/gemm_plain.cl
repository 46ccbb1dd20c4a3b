// The forms of GEMM that pack nothing: C = op(A) op(B), or C += op(A) op(B) with accumulate; C [m, n] row-major.
// gemm_dots: few rows of A [m, k] by rows of B [n, k], vectors along k, one work-item a group; for CPUs.
// gemm_few_rows: at most 8 rows by B [k, n], which is read once, as it lies; one work-item a group; for CPUs.
// gemm_columns: any layout, one work-item a column; for devices whose lanes are work-items.
// Options: WIDTH (16 or 8), ROWS and COLUMNS of the tile of gemm_dots; ROWS and CHUNK, the columns of a group, of gemm_few_rows; an epilogue.

#include "epilogue.clh"
#include "loops.clh"
#include "prefetch.clh"
#include "vectors.clh"

#define SUMMED 64  // terms that a lane sums at a time: one sum of 1 568, of 25 088 inputs in 16 lanes, has four times the rounding error
#define AHEAD 96  // floats that each stream of B is asked for before they are read: memory delivers more than it does by itself

#ifdef COLUMNS
#include "width.clh"

inline float sum_of(real v) {
#if WIDTH == 16
  const float8 eight = v.lo + v.hi;
#else
  const float8 eight = v;
#endif
  const float4 four = eight.lo + eight.hi;
  return (four.x + four.z) + (four.y + four.w);
}

/// Dot products along k, which is contiguous in both. Items: one a tile of ROWS x COLUMNS and matrix.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm_dots(__global const float* restrict a_of_batch, __global const float* restrict b_of_batch,
               __global float* restrict c_of_batch, const long m, const long n, const long k, const long stride_a,
               const long stride_b, const long stride_c, const int accumulate EPILOGUE_PARAMETERS) {
  const long batch = get_group_id(2), row = get_group_id(0) * ROWS, column = get_group_id(1) * COLUMNS;
  __global const float* a[ROWS];
  __global const float* b[COLUMNS];
  // Over the edge: the last one again, not stored.
  for (int i = 0; i < ROWS; ++i) a[i] = a_of_batch + batch * stride_a + min(row + i, m - 1) * k;
  for (int j = 0; j < COLUMNS; ++j) b[j] = b_of_batch + batch * stride_b + min(column + j, n - 1) * k;
  real totals[ROWS][COLUMNS];
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < COLUMNS; ++j) totals[i][j] = 0;
  long at = 0;
  while (at + WIDTH <= k) {
    const long end = min(at + SUMMED * WIDTH, k - k % WIDTH);
    real sums[ROWS][COLUMNS];
    for (int i = 0; i < ROWS; ++i)
      for (int j = 0; j < COLUMNS; ++j) sums[i][j] = 0;
    for (; at < end; at += WIDTH)
      UNROLLED (int j = 0; j < COLUMNS; ++j) {
        PREFETCH(b[j] + at + AHEAD);
        const real y = LOAD(b[j] + at);
        UNROLLED (int i = 0; i < ROWS; ++i) sums[i][j] = fma(LOAD(a[i] + at), y, sums[i][j]);
      }
    for (int i = 0; i < ROWS; ++i)
      for (int j = 0; j < COLUMNS; ++j) totals[i][j] += sums[i][j];
  }
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < COLUMNS; ++j) {
      if (row + i >= m || column + j >= n) continue;
      float value = sum_of(totals[i][j]);
      for (long rest = at; rest < k; ++rest) value = fma(a[i][rest], b[j][rest], value);
      __global float* to = c_of_batch + batch * stride_c + (row + i) * n + column + j;
      *to = accumulate ? value + *to : value;
    }
  FINISH(c_of_batch, batch * stride_c + row * n + column, n, min((long)ROWS, m - row), column, min((long)COLUMNS, n - column))
}

/// A [k, m] as [m, k], for gemm_dots. Items: one a row and matrix.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm_turn(__global const float* restrict a, __global float* restrict to, const long m, const long k, const long stride_a) {
  const long row = get_group_id(0), batch = get_group_id(1);
  for (long i = 0; i < k; ++i) to[(batch * m + row) * k + i] = a[batch * stride_a + i * m + row];
}
#endif

#ifdef CHUNK
#define T 8
#define ROOM (CHUNK + 16)  // so that rows of sums begin in different sets of the first cache
/// T rows of B at a time: as many streams, each of `columns` (at most CHUNK) neighbours. Items: one a chunk and matrix.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm_few_rows(__global const float* restrict a_of_batch, __global const float* restrict b_of_batch,
                   __global float* restrict c_of_batch, const long n, const long k, const long a_row, const long a_step,
                   const long columns, const long stride_a, const long stride_b, const long stride_c,
                   const int accumulate EPILOGUE_PARAMETERS) {
  const long column = get_group_id(0) * columns, batch = get_group_id(1);
  const int used = (int)min(columns, n - column), whole = used / 16 * 16;
  __global const float* a = a_of_batch + batch * stride_a;
  __global const float* b = b_of_batch + batch * stride_b + column;
  float sums[ROWS * ROOM] ALIGNED;
  for (int r = 0; r < ROWS; ++r)
    for (int j = 0; j < used; ++j) sums[r * ROOM + j] = 0;
  long i = 0;
  for (; i + T <= k; i += T, b += T * n) {
    float x[ROWS * T];
    for (int r = 0; r < ROWS; ++r)
      for (int t = 0; t < T; ++t) x[r * T + t] = a[r * a_row + (i + t) * a_step];
    for (int j = 0; j < whole; j += 16) {
      float16 y[T];
      UNROLLED (int t = 0; t < T; ++t) {
        PREFETCH(b + t * n + j + AHEAD);
        y[t] = vload16(0, b + t * n + j);
      }
      UNROLLED (int r = 0; r < ROWS; ++r) {
        float16 sum = (float16)(x[r * T]) * y[0];  // by itself: it rounds less than one sum of all k terms
        UNROLLED (int t = 1; t < T; ++t) sum = fma((float16)(x[r * T + t]), y[t], sum);
        store_vector(vload16(0, sums + r * ROOM + j) + sum, sums + r * ROOM + j);
      }
    }
    for (int j = whole; j < used; ++j)
      for (int r = 0; r < ROWS; ++r) {
        float sum = 0;
        for (int t = 0; t < T; ++t) sum = fma(x[r * T + t], b[t * n + j], sum);
        sums[r * ROOM + j] += sum;
      }
  }
  for (; i < k; ++i, b += n)
    for (int r = 0; r < ROWS; ++r) {
      const float x = a[r * a_row + i * a_step];
      for (int j = 0; j < used; ++j) sums[r * ROOM + j] = fma(x, b[j], sums[r * ROOM + j]);
    }
  __global float* to = c_of_batch + batch * stride_c + column;
  for (int r = 0; r < ROWS; ++r)
    for (int j = 0; j < used; ++j) to[r * n + j] = accumulate ? sums[r * ROOM + j] + to[r * n + j] : sums[r * ROOM + j];
  FINISH(c_of_batch, batch * stride_c + column, n, ROWS, column, used)
}
#endif

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
