// GEMM on GPUs, a tile for each work-group: C = op(A) op(B), or C += op(A) op(B) with `adds`. All matrices are row-major and have less than 2^31 elements.
// Mapping: tiles along the first dimension of the range (group_tile.clh), along the others parts of the k terms, and matrices of the batch. Each part has
// a sum of its own, [parts, batch, m, n], which parts.cl adds up in order.
// Options: those of group_tile.clh; TURNED_A, TURNED_B: 1 where A is stored [k, m], B [n, k].

#include "lib/tiles/group_tile.clh"

#define OPERAND a
#define EXTENT ROWS
#define OPERAND_WIDTH VECTOR
#define ALONG_TERMS !TURNED_A
#include "lib/tiles/tile_operand.clh"

#define OPERAND b
#define EXTENT COLUMNS
#define OPERAND_WIDTH VECTOR
#define ALONG_TERMS TURNED_B
#include "lib/tiles/tile_operand.clh"

/// @param part_terms  of a part, a multiple of DEPTH
__kernel TILE_GROUP void gemm_tile(__global const float* restrict a, __global const float* restrict b, __global float* restrict c, const int m,
                                   const int n, const int k, const int part_terms, const long stride_a, const long stride_b, const long stride_c,
                                   const int adds EPILOGUE_PARAMETERS) {
  LOCAL_TILES
  const int rows = (m + ROWS - 1) / ROWS, columns = (n + COLUMNS - 1) / COLUMNS;
  const int2 tile = tile_of_group(get_group_id(0), rows, columns);
  const int first_row = tile.x * ROWS, first_column = tile.y * COLUMNS;
  const int part = get_group_id(1), first_term = part * part_terms;
  const long batch = get_group_id(2);
  const int a_step = TURNED_A ? m : 1, b_step = TURNED_B ? 1 : n;  // from a term to the next
  a += batch * stride_a + (long)first_term * a_step;
  b += batch * stride_b + (long)first_term * b_step;
  c += (part * (long)get_num_groups(2) + batch) * stride_c;

  int a_offsets[a_carries], b_offsets[b_carries];
  a_begin(a_offsets, first_row, m, k);
  b_begin(b_offsets, first_column, n, k);
  CARRIED(a)
  CARRIED(b)
  NO_SUMS(sums)

  int left = min(part_terms, k - first_term);
#define FETCH() { \
    a_fetch(a_carried, a, a_offsets, left); \
    b_fetch(b_carried, b, b_offsets, left); \
    a += DEPTH * (long)a_step; \
    b += DEPTH * (long)b_step; \
    left -= DEPTH; \
  }
  const int steps = (left + DEPTH - 1) / DEPTH;
  ADD_STEPS(sums, steps)

  EACH_ROW_OF_RESULTS(i, row, first_row, m) {
    const long to = row * (long)n;
    STORE_ROW(sums[i], c, to, batch * stride_c + to, first_column, n, adds)
  }
}
