// GEMM: C = alpha op(A) op(B) + beta C, C [m, n] row-major, shaped for CPUs.
// Layout: A is read where it lies: row r of a tile is a[r * lda] (A [m, k]) or a[r] (A [k, m], -DA_TRANSPOSED). B is read
// where it lies too ([k, n], n >= NR), or from panels of NR columns, [n / NR][k][NR], padded with zeros.
// Mapping: one work-item a group. A group computes `row_tiles` x `column_tiles` tiles of MR x NR, whose accumulators stay
// in vector registers while k runs through K_BLOCK: a slice of B [K_BLOCK, NR] stays in the first cache, the group's
// slice of A in the second. A last tile that would hang over the edge is moved back over its neighbour, and stores only
// what is its own.
// Options: MR (1, 2, 4, 6, 8 or 12), NR (16 or 32), K_BLOCK.

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
                const long stride_b, const long stride_c, const float alpha, const float beta) {
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
}

/// Panels of B [k, n]. Items: one a panel, block of k and matrix.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pack_rows(__global const float* restrict from, __global float* restrict to, const long n, const long k, const long stride) {
  const long panel = get_group_id(0), panels = get_num_groups(0), batch = get_group_id(2);
  const long k0 = get_group_id(1) * K_BLOCK, k1 = min(k0 + K_BLOCK, k);
  const long used = min((long)NR, n - panel * NR);
  __global const float* source = from + batch * stride + panel * NR;
  __global float* target = to + (batch * panels + panel) * NR * k;
  if (used == NR) {
    for (long i = k0; i < k1; ++i)
      for (int j = 0; j < NR; j += 16) vstore16(vload16(0, source + i * n + j), 0, target + i * NR + j);
    return;
  }
  for (long i = k0; i < k1; ++i) {
    for (long j = 0; j < used; ++j) target[i * NR + j] = source[i * n + j];
    for (long j = used; j < NR; ++j) target[i * NR + j] = 0;
  }
}

/// Panels of B stored as [n, k]. Items: one a panel, block of k and matrix.
/// Squares of 16 x 16 are transposed in registers: four rounds that each interleave row i with row i + 8.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pack_transposed(__global const float* restrict from, __global float* restrict to, const long n, const long k,
                     const long stride) {
  const long panel = get_group_id(0), panels = get_num_groups(0), batch = get_group_id(2);
  const long k0 = get_group_id(1) * K_BLOCK, k1 = min(k0 + K_BLOCK, k);
  __global const float* source = from + batch * stride + panel * NR * k;
  __global float* target = to + (batch * panels + panel) * NR * k;
  for (long j = 0; j < NR; j += 16) {
    const long used = clamp(n - panel * NR - j, 0L, 16L);
    long i = k0;
    for (; used == 16 && i + 16 <= k1; i += 16) {
      float16 x[16], y[16];
#define LOAD(r) x[r] = vload16(0, source + (j + r) * k + i);
#define INTERLEAVE(x, y, r) \
  y[2 * r] = (float16)(x[r].s0, x[r + 8].s0, x[r].s1, x[r + 8].s1, x[r].s2, x[r + 8].s2, x[r].s3, x[r + 8].s3, \
                       x[r].s4, x[r + 8].s4, x[r].s5, x[r + 8].s5, x[r].s6, x[r + 8].s6, x[r].s7, x[r + 8].s7); \
  y[2 * r + 1] = (float16)(x[r].s8, x[r + 8].s8, x[r].s9, x[r + 8].s9, x[r].sa, x[r + 8].sa, x[r].sb, x[r + 8].sb, \
                           x[r].sc, x[r + 8].sc, x[r].sd, x[r + 8].sd, x[r].se, x[r + 8].se, x[r].sf, x[r + 8].sf);
#define ROUND_XY(r) INTERLEAVE(x, y, r)
#define ROUND_YX(r) INTERLEAVE(y, x, r)
#define PUT(r) vstore16(x[r], 0, target + (i + r) * NR + j);
      ROWS_12(LOAD) LOAD(12) LOAD(13) LOAD(14) LOAD(15)
      ROWS_8(ROUND_XY) ROWS_8(ROUND_YX) ROWS_8(ROUND_XY) ROWS_8(ROUND_YX)
      ROWS_12(PUT) PUT(12) PUT(13) PUT(14) PUT(15)
    }
    for (; i < k1; ++i) {
      for (long r = 0; r < used; ++r) target[i * NR + j + r] = source[(j + r) * k + i];
      for (long r = used; r < 16; ++r) target[i * NR + j + r] = 0;
    }
  }
}

/// Few rows by rows of B [n, k]: dot products along k, which is contiguous in both. Items: one a tile of 4 x 4 and matrix.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm_dots(__global const float* restrict a_of_batch, __global const float* restrict b_of_batch,
               __global float* restrict c_of_batch, const long m, const long n, const long k, const long stride_a,
               const long stride_b, const long stride_c, const float alpha, const float beta) {
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
    ROWS_4(DOT_ROW)
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
}

/// The simple form, for devices whose lanes are work-items. Items: one a column, eight rows and matrix.
__kernel void gemm_columns(__global const float* restrict a_of_batch, __global const float* restrict b_of_batch,
                           __global float* restrict c_of_batch, const long m, const long n, const long k, const long a_row,
                           const long a_step, const long b_column, const long b_step, const long stride_a,
                           const long stride_b, const long stride_c, const float alpha, const float beta) {
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
  __global float* to = c_of_batch + batch * stride_c + row * n + column;
  for (int r = 0; r < 8 && row + r < m; ++r) to[r * n] = alpha * sums[r] + (beta != 0 ? beta * to[r * n] : 0);
}
