// GEMM of at most 8 rows, for CPUs: C = op(A) B, or C += op(A) B with accumulate; reads B [k, n] once, in memory order. If k is split into parts,
// each part gives a matrix, and gemm_sum_parts adds them.
// Options: ROWS; CHUNK, the most columns of a group; an epilogue.

#include "epilogue.clh"
#include "loops.clh"
#include "prefetch.clh"
#include "vectors.clh"

#define T 8
#define ROOM (CHUNK + 16)  // so that rows of sums begin in different sets of the first cache
/// T rows of B at a time, k / T apart: T long streams, to which memory gives more than to neighbouring rows. `columns`: at most CHUNK. Items: one a
/// chunk and matrix.
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
  const long share = k / T, stream = share * n;
  for (long i = 0; i < share; ++i, b += n) {
    float x[ROWS * T];
    for (int r = 0; r < ROWS; ++r)
      for (int t = 0; t < T; ++t) x[r * T + t] = a[r * a_row + (i + t * share) * a_step];
    for (int j = 0; j < whole; j += 16) {
      float16 y[T];
      UNROLLED (int t = 0; t < T; ++t) {
        PREFETCH(b + t * stream + j + FLOATS_AHEAD);
        y[t] = vload16(0, b + t * stream + j);
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
        for (int t = 0; t < T; ++t) sum = fma(x[r * T + t], b[t * stream + j], sum);
        sums[r * ROOM + j] += sum;
      }
  }
  b += (T - 1) * stream;
  for (long i = T * share; i < k; ++i, b += n)
    for (int r = 0; r < ROWS; ++r) {
      const float x = a[r * a_row + i * a_step];
      for (int j = 0; j < used; ++j) sums[r * ROOM + j] = fma(x, b[j], sums[r * ROOM + j]);
    }
  __global float* to = c_of_batch + batch * stride_c + column;
  for (int r = 0; r < ROWS; ++r)
    for (int j = 0; j < used; ++j) to[r * n + j] = accumulate ? sums[r * ROOM + j] + to[r * n + j] : sums[r * ROOM + j];
  FINISH(c_of_batch, batch * stride_c + column, n, ROWS, column, used)
}

/// C [ROWS, n], or what is added to it, from the products of `count` parts, each `part` floats behind the one before. Items: one for CHUNK
/// columns of a row.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm_sum_parts(__global const float* restrict parts, __global float* restrict c, const long n, const long part, const long count,
                    const int accumulate EPILOGUE_PARAMETERS) {
  const long column = get_group_id(0) * CHUNK, first = get_group_id(1) * n + column;
  const int used = (int)min((long)CHUNK, n - column);
  for (int j = 0; j < used; ++j) {
    float sum = parts[first + j];
    for (long p = 1; p < count; ++p) sum += parts[p * part + first + j];
    c[first + j] = accumulate ? sum + c[first + j] : sum;
  }
  FINISH(c, first, n, 1, column, used)
}
