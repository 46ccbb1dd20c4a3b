// GEMM: C = alpha op(A) op(B) + beta C, C [m, n] row-major, shaped for CPUs.
// Layout: A is read where it lies: row r of a tile is a[r * lda] (A [m, k]) or a[r] (A [k, m], -DA_TRANSPOSED). B is read
// where it lies too ([k, n], n >= NR), or from panels of NR columns, [n / NR][k][NR], padded with zeros.
// Mapping: one work-item a group. A group computes `row_tiles` x `column_tiles` tiles of MR x NR, whose accumulators stay
// in vector registers while k runs through K_BLOCK: a slice of B [K_BLOCK, NR] stays in the first cache, the group's
// slice of A in the second. A last tile that would hang over the edge is moved back over its neighbour, and stores only
// what is its own.
// Options: MR (1, 2, 4, 6, 8 or 12), NR (16 or 32), K_BLOCK; an epilogue.

#include "epilogue.clh"

#define ROWS_1(X) X(0)
#define ROWS_2(X) X(0) X(1)
#define ROWS_4(X) ROWS_2(X) X(2) X(3)
#define ROWS_6(X) ROWS_4(X) X(4) X(5)
#define ROWS_8(X) ROWS_6(X) X(6) X(7)
#define ROWS_12(X) ROWS_8(X) X(8) X(9) X(10) X(11)
#define JOIN(a, b) a##b
#define CALL(a, b) JOIN(a, b)
#define ROWS(X) CALL(ROWS_, MR)(X)

#ifdef A_TRANSPOSED
#define A_ELEMENT(r) a[r]
#define A_STEP lda
#define A_TILE(row, k0) (a_all + (k0) * lda + (row))
#else
#define A_ELEMENT(r) a[(r) * lda]
#define A_STEP 1
#define A_TILE(row, k0) (a_all + (row) * lda + (k0))
#endif

// A row of NR floats: one or two vectors of 16.
#if NR == 32
#define DECLARE(r) float16 lo##r = 0, hi##r = 0;
#define LOAD_B const float16 blo = vload16(0, b), bhi = vload16(1, b);
#define UPDATE(r) { const float16 x = (float16)(A_ELEMENT(r)); lo##r = fma(x, blo, lo##r); hi##r = fma(x, bhi, hi##r); }
#define STORE(r) if (r >= skip_rows) { store(to + r * n, begin, end, first, alpha, beta, lo##r); \
                                       store(to + r * n + 16, begin - 16, end - 16, first, alpha, beta, hi##r); }
#else
#define DECLARE(r) float16 lo##r = 0;
#define LOAD_B const float16 blo = vload16(0, b);
#define UPDATE(r) lo##r = fma((float16)(A_ELEMENT(r)), blo, lo##r);
#define STORE(r) if (r >= skip_rows) store(to + r * n, begin, end, first, alpha, beta, lo##r);
#endif

/// Stores columns [begin, end) of 16: adds to what earlier blocks of k left, or scales what was there before the first.
inline void store(__global float* to, int begin, int end, int first, float alpha, float beta, float16 sum) {
  if (begin <= 0 && end >= 16) {
    float16 value = alpha * sum;
    if (!first) value += vload16(0, to);
    else if (beta != 0) value += beta * vload16(0, to);
    vstore16(value, 0, to);
    return;
  }
  float values[16];
  vstore16(alpha * sum, 0, values);
  for (int j = max(begin, 0); j < min(end, 16); ++j) {
    float value = values[j];
    if (!first) value += to[j];
    else if (beta != 0) value += beta * to[j];
    to[j] = value;
  }
}

/// b_panel: elements from one column tile of B to the next; b_step: from one k to the next.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm_tiles(__global const float* restrict a_of_batch, __global const float* restrict b_of_batch,
                __global float* restrict c_of_batch, const long m, const long n, const long k, const long lda,
                const long b_panel, const long b_step, const long row_tiles, const long column_tiles, const long stride_a,
                const long stride_b, const long stride_c, const float alpha, const float beta EPILOGUE_PARAMETERS) {
  const long batch = get_group_id(2);
  const long row_begin = get_group_id(0) * row_tiles * MR, row_end = min(row_begin + row_tiles * MR, m);
  const long column_begin = get_group_id(1) * column_tiles * NR, column_end = min(column_begin + column_tiles * NR, n);
  __global const float* a_all = a_of_batch + batch * stride_a;
  __global const float* b_all = b_of_batch + batch * stride_b;
  __global float* c_all = c_of_batch + batch * stride_c;
  long k0 = 0;
  do {  // once also for k = 0: C = beta C
    const long length = min((long)K_BLOCK, k - k0);
    const int first = k0 == 0;
    for (long column = column_begin; column < column_end; column += NR) {
      const long moved_column = b_step == NR ? column : min(column, n - NR);
      const int begin = (int)(column - moved_column), end = (int)min((long)NR, n - moved_column);
      __global const float* b_slice = b_all + column / NR * b_panel - (column - moved_column) + k0 * b_step;
      for (long row = row_begin; row < row_end; row += MR) {
        const long moved_row = min(row, m - MR);
        const int skip_rows = (int)(row - moved_row);
        __global const float* a = A_TILE(moved_row, k0);
        __global const float* b = b_slice;
        ROWS(DECLARE)
        for (long i = 0; i < length; ++i) {
          LOAD_B
          ROWS(UPDATE)
          a += A_STEP;
          b += b_step;
        }
        __global float* to = c_all + moved_row * n + moved_column;
        ROWS(STORE)
      }
    }
    k0 += K_BLOCK;
  } while (k0 < k);
  // Of the whole group at once: what the epilogue reads is then a stream, which memory delivers ahead.
  FINISH(c_of_batch, batch * stride_c + row_begin * n + column_begin, n, row_end - row_begin, column_begin, column_end - column_begin)
}
