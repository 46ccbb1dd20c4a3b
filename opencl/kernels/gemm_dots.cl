// GEMM of few rows by dot products, for CPUs: C = A B^T, or C += A B^T with accumulate; C [m, n] row-major.
// Layout: A [m, k] and B [n, k], vectors along k; gemm_turn transposes an A [k, m].
// Options: WIDTH (16 or 8), ROWS and COLUMNS of a tile; APART, if B is read from main memory: column j of tile g is g + j * tiles, so that the rows of
// B of a tile are COLUMNS long streams, each of which continues where the tile before ended; an epilogue.

#include "epilogue.clh"
#include "loops.clh"
#include "prefetch.clh"
#include "width.clh"

#define SUMMED 64  // terms that a lane sums at a time: one sum of 1 568, of 25 088 inputs in 16 lanes, has four times the rounding error

static inline float sum_of(real v) {
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
#ifdef APART
  const long apart = get_num_groups(1), column = get_group_id(1);
#else
  const long apart = 1, column = get_group_id(1) * COLUMNS;
#endif
  const long batch = get_group_id(2), row = get_group_id(0) * ROWS;
  __global const float* a[ROWS];
  __global const float* b[COLUMNS];
  // Over the edge: the last one again, not stored.
  for (int i = 0; i < ROWS; ++i) a[i] = a_of_batch + batch * stride_a + min(row + i, m - 1) * k;
  for (int j = 0; j < COLUMNS; ++j) b[j] = b_of_batch + batch * stride_b + min(column + j * apart, n - 1) * k;
  real totals[ROWS][COLUMNS];
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < COLUMNS; ++j) totals[i][j] = 0;
  const long whole = k - k % WIDTH;
  for (long at = 0; at < whole;) {
    const long end = min(at + SUMMED * WIDTH, whole);
    real sums[ROWS][COLUMNS];
    for (int i = 0; i < ROWS; ++i)
      for (int j = 0; j < COLUMNS; ++j) sums[i][j] = 0;
    for (; at < end; at += WIDTH)
      UNROLLED (int j = 0; j < COLUMNS; ++j) {
        PREFETCH(b[j] + at + FLOATS_AHEAD);
        const real y = LOAD(b[j] + at);
        UNROLLED (int i = 0; i < ROWS; ++i) sums[i][j] = fma(LOAD(a[i] + at), y, sums[i][j]);
      }
    for (int i = 0; i < ROWS; ++i)
      for (int j = 0; j < COLUMNS; ++j) totals[i][j] += sums[i][j];
  }
  const int rows = (int)min((long)ROWS, m - row), columns = (int)min((long)COLUMNS, (n - column + apart - 1) / apart);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      float value = sum_of(totals[i][j]);
      for (long rest = whole; rest < k; ++rest) value = fma(a[i][rest], b[j][rest], value);
      __global float* to = c_of_batch + batch * stride_c + (row + i) * n + column + j * apart;
      *to = accumulate ? value + *to : value;
    }
  FINISH_APART(c_of_batch, batch * stride_c + row * n + column, n, rows, column, columns, apart)
}

/// A [k, m] as [m, k], for gemm_dots. Items: one a row and matrix.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm_turn(__global const float* restrict a, __global float* restrict to, const long m, const long k, const long stride_a) {
  const long row = get_group_id(0), batch = get_group_id(1);
  for (long i = 0; i < k; ++i) to[(batch * m + row) * k + i] = a[batch * stride_a + i * m + row];
}
