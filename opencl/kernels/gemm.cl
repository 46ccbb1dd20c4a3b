// GEMM for CPUs: C = op(A) op(B), or C += op(A) op(B) with accumulate; C [m, n] row-major.
// Mapping: work-groups of one item. Each computes `row_tiles` x `column_tiles` tiles of MR x NR, whose accumulators stay in vector registers while k
// runs through a block: a slice of B [K_BLOCK, NR] and the group's block of A stay in the L2 cache. Each group packs for itself, so that packed data
// never leaves its caches.
// Layout: A [m, k], or [k, m] with A_TRANSPOSED, is read in place, or with PACK_A from tiles [k][MR]. B [k, n] is read in place (n >= NR), or with
// PACK_B from a slice [k][NR], padded with zeros; B [n, k], with B_TRANSPOSED, always from a slice.
// A last tile that would exceed the edge is moved back over its neighbour, and stores only its own elements.
// Options: MR (1, 2, 4, 6, 7, 8, 12 or 14), NR (32 or 16) and WIDTH (16 or 8), half of it; K_BLOCK; A_TRANSPOSED; PACK_A, the most rows of a
// group; PACK_B; B_TRANSPOSED; an epilogue.

#include "width.clh"
#include "epilogue.clh"
#include "loops.clh"
#include "prefetch.clh"
#include "transpose_block.clh"

#define ROWS_1(X) X(0)
#define ROWS_2(X) ROWS_1(X) X(1)
#define ROWS_4(X) ROWS_2(X) X(2) X(3)
#define ROWS_6(X) ROWS_4(X) X(4) X(5)
#define ROWS_7(X) ROWS_6(X) X(6)
#define ROWS_8(X) ROWS_7(X) X(7)
#define ROWS_12(X) ROWS_8(X) X(8) X(9) X(10) X(11)
#define ROWS_14(X) ROWS_12(X) X(12) X(13)
#define ROWS(X) CALL(ROWS_, MR)(X)

#ifdef A_TRANSPOSED
#define A_TILE(row, k0) (a_all + (k0) * lda + (row))
#else
#define A_TILE(row, k0) (a_all + (row) * lda + (k0))
#endif
#ifdef B_TRANSPOSED
#define B_TILE(column, k0) (b_all + (column) * ldb + (k0))
#else
#define B_TILE(column, k0) (b_all + (k0) * ldb + (column))
#endif
// Where a tile's values lie. What is turned when packed is read along its rows, which memory delivers ahead; the rest is asked for a
// tile ahead.
#ifdef PACK_A
#define A_POINTER const float*
#define A_ELEMENT(r) a[r]
#define A_STEP MR
#define ASKS_FOR_A 0
#elif defined(A_TRANSPOSED)
#define A_POINTER __global const float*
#define A_ELEMENT(r) a[r]
#define A_STEP lda
#define ASKS_FOR_A 1
#else
#define A_POINTER __global const float*
#define A_ELEMENT(r) a[(r) * lda]
#define A_STEP 1
#define ASKS_FOR_A 1
#endif
#ifdef PACK_B
#define B_POINTER const float*
#define B_STEP NR
#else
#define B_POINTER __global const float*
#define B_STEP ldb
#endif
#ifdef B_TRANSPOSED
#define ASKS_FOR_B 0
#else
#define ASKS_FOR_B 1
#endif

// Lines are asked for one step of k after the other: many at once would keep what the step itself loads waiting.
#ifdef A_TRANSPOSED
#define ASK_FOR_A(next) PREFETCH((next) + (i + j) * lda);
#else
#define ASK_FOR_A(next) if (j < MR) PREFETCH((next) + j * lda + i);
#endif

// What the rows of a tile, and of B, read a few steps on comes from the second cache to the first: so many loads leave no time to wait for it.
#ifdef PACK_A
#define FETCH_A PREFETCH(a + 32 * A_STEP);
#else
#define FETCH_A
#endif
#define FETCH_B ASK_FOR_LINES(b + 8 * B_STEP, NR)

#define DECLARE(r) real lo##r = 0, hi##r = 0;
#define UPDATE(r) { const real x = (real)(A_ELEMENT(r)); lo##r = fma(x, blo, lo##r); hi##r = fma(x, bhi, hi##r); }
#define STEP \
  FETCH_A \
  FETCH_B \
  const real blo = LOAD(b), bhi = LOAD(b + WIDTH); \
  ROWS(UPDATE) \
  a += A_STEP; \
  b += B_STEP;
#define STORE_ROW(r) store(to + r * n, accumulate, lo##r); store(to + r * n + WIDTH, accumulate, hi##r);
#define SPILL_ROW(r) STORE(lo##r, values + r * NR); STORE(hi##r, values + r * NR + WIDTH);

static inline void store(__global float* to, int accumulate, real sum) { STORE(accumulate ? sum + LOAD(to) : sum, to); }

/// Rows [skip, MR) of the columns [begin, end) of a tile.
static inline void store_part(__global float* to, long n, int skip, int begin, int end, int accumulate, const float* values) {
  for (int r = skip; r < MR; ++r)
    for (int j = begin; j < end; ++j) to[r * n + j] = accumulate ? values[r * NR + j] + to[r * n + j] : values[r * NR + j];
}

/// Computes a tile from where its first row and column read, and stores it at `to`, but for rows [0, skip) and columns outside
/// [begin, end), which belong to a neighbour that this tile was moved over.
/// @param length  steps of this block of k  @param accumulate  adds to what is there
/// @param next_a, next_b  where the next tile's will read, which is asked for meanwhile; 0: nowhere
OUT_OF_LINE void tile(A_POINTER a, long lda, B_POINTER b, long ldb, int length, __global const float* next_a, __global const float* next_b,
                      __global float* to, long n, int skip, int begin, int end, int accumulate) {
  ROWS(DECLARE)
  int i = 0;
#ifndef EMULATOR
  // C, and what the next tile reads, are asked for meanwhile: memory does not follow so many rows by itself.
  for (; i + FLOATS_OF_LINE <= length && (i == 0 || next_a || next_b); i += FLOATS_OF_LINE)
    for (int j = 0; j < FLOATS_OF_LINE; ++j) {  // MR is less
      if (i == 0 && j < MR) ASK_FOR_LINES(to + j * n, NR)
      if (next_a) ASK_FOR_A(next_a)
      if (next_b) ASK_FOR_LINES(next_b + (i + j) * ldb, NR)
      STEP
    }
#endif
  for (; i < length; ++i) { STEP }
  if (skip == 0 && begin == 0 && end == NR) {
    ROWS(STORE_ROW)
    return;
  }
  float values[MR * NR];
  ROWS(SPILL_ROW)
  store_part(to, n, skip, begin, end, accumulate, values);
}

/// `rows` rows of `length` elements, `step` apart, as columns [length][to_step]; of WIDTH columns those beyond `rows` become 0.
/// Writes WIDTH elements at each step, in ascending order: what follows a narrower column is written over by the next.
static inline void pack_turned(__global const float* from, long step, int rows, int length, float* to, int to_step) {
  int i = 0;
  for (; i + WIDTH <= length; i += WIDTH) {
    real block[WIDTH];
    UNROLLED (int r = 0; r < WIDTH; ++r) block[r] = r < rows ? LOAD(from + r * step + i) : (real)0;
    transpose_block(block);
    UNROLLED (int r = 0; r < WIDTH; ++r) STORE(block[r], to + (i + r) * to_step);
  }
  for (; i < length; ++i)
    for (int r = 0; r < WIDTH; ++r) to[i * to_step + r] = r < rows ? from[r * step + i] : 0;
}

/// Rows [begin, end) of A as tiles [length][MR], one after the other; the last tile as it is computed.
static inline void pack_a(__global const float* a, long lda, long begin, long end, long m, int length, float* to) {
#ifdef A_TRANSPOSED
  enum { STEPS = 8 };  // of k, whose lines stay in the first cache until every tile has taken its part of them
  for (int i0 = 0; i0 < length; i0 += STEPS)
    for (long row = begin; row < end; row += MR)
      for (int i = i0; i < min(i0 + STEPS, length); ++i) {
        __global const float* from = a + i * lda + min(row, m - MR);
        PREFETCH(from + STEPS * lda);
        UNROLLED (int r = 0; r < MR; ++r) to[(row - begin) * length + i * MR + r] = from[r];
      }
#else
  for (long row = begin; row < end; row += MR) pack_turned(a + min(row, m - MR) * lda, lda, MR, length, to + (row - begin) * length, MR);
#endif
}

/// Columns [0, used) of B from `from` on.
static inline void pack_b(__global const float* from, long ldb, int used, int length, float* to) {
#ifdef B_TRANSPOSED
  pack_turned(from, ldb, min(used, WIDTH), length, to, NR);
  pack_turned(from + WIDTH * ldb, ldb, used - WIDTH, length, to + WIDTH, NR);
#else
  if (used == NR) {
    for (int i = 0; i < length; ++i) {
      STORE(LOAD(from + i * ldb), to + i * NR);
      STORE(LOAD(from + i * ldb + WIDTH), to + i * NR + WIDTH);
    }
    return;
  }
  for (int i = 0; i < length; ++i)
    for (int j = 0; j < NR; ++j) to[i * NR + j] = j < used ? from[i * ldb + j] : 0;
#endif
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm_tiles(__global const float* restrict a_of_batch, __global const float* restrict b_of_batch,
                __global float* restrict c_of_batch, const long m, const long n, const long k, const long lda, const long ldb,
                const long row_tiles, const long column_tiles, const long k_block, const long stride_a, const long stride_b,
                const long stride_c, const int accumulate EPILOGUE_PARAMETERS) {
  const long batch = get_group_id(2);
  const long row_begin = get_group_id(0) * row_tiles * MR, row_end = min(row_begin + row_tiles * MR, m);
  const long column_begin = get_group_id(1) * column_tiles * NR, column_end = min(column_begin + column_tiles * NR, n);
  __global const float* a_all = a_of_batch + batch * stride_a;
  __global const float* b_all = b_of_batch + batch * stride_b;
  __global float* c_all = c_of_batch + batch * stride_c;
#ifdef PACK_A
  float a_block[PACK_A * K_BLOCK + WIDTH] ALIGNED;
#endif
#ifdef PACK_B
  float b_slice[K_BLOCK * NR] ALIGNED;
#endif
  long k0 = 0;
  do {  // once also for k = 0: a sum of nothing
    const int length = (int)min(k_block, k - k0);
#ifdef PACK_A
    pack_a(A_TILE(0, k0), lda, row_begin, row_end, m, length, a_block);
#endif
    for (long column = column_begin; column < column_end; column += NR) {
#ifdef PACK_B
      const long moved_column = column;
      pack_b(B_TILE(column, k0), ldb, (int)min((long)NR, n - column), length, b_slice);
#else
      const long moved_column = min(column, n - NR);
#endif
      const int begin = (int)(column - moved_column), end = (int)min((long)NR, n - moved_column);
      for (long row = row_begin; row < row_end; row += MR) {
        const long moved_row = min(row, m - MR);
#ifdef PACK_A
        A_POINTER a = a_block + (row - row_begin) * length;
#else
        A_POINTER a = A_TILE(moved_row, k0);
#endif
#ifdef PACK_B
        B_POINTER b = b_slice;
#else
        B_POINTER b = B_TILE(moved_column, k0);
#endif
        const int ask_a = ASKS_FOR_A && column == column_begin, ask_b = ASKS_FOR_B && row + MR >= row_end && column + NR < column_end;
        tile(a, lda, b, ldb, length, ask_a ? A_TILE(min(moved_row + MR, m - MR), k0) : 0, ask_b ? B_TILE(min(column + NR, n - NR), k0) : 0,
             c_all + moved_row * n + moved_column, n, (int)(row - moved_row), begin, end, accumulate || k0 > 0);
      }
    }
    k0 += k_block;
  } while (k0 < k);
  // Of the whole group at once: what the epilogue reads is then a stream, which memory delivers ahead.
  FINISH(c_of_batch, batch * stride_c + row_begin * n + column_begin, n, row_end - row_begin, column_begin, column_end - column_begin)
}
