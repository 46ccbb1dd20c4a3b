// Copies of boxes on CPUs. Legend: move.clh.
// move_rows:   the innermost axis is contiguous on both sides; one work-item copies a block of rows by a block of columns.
// move_tiles:  one work-item a tile of 32 x 32.

#include "lib/ops/move.clh"

__kernel void move_rows(__global const T* x, __global T* y, const long from, const long to, const long rows, const long columns,
                        const long row_block, const long column_block, AXES) {
  const long c0 = get_global_id(0) * column_block, c1 = min(c0 + column_block, columns);
  const long first = get_global_id(1) * row_block, last = min(first + row_block, rows);
  for (long r = first; r < last; ++r) {
    LOCATE(r)
    for (long c = c0; c < c1; ++c) y[t + c] = x[f + c];
  }
}

#define TILE 32

__kernel void move_tiles(__global const T* x, __global T* y, const long from, const long to, const long rows, const long columns,
                         const long column_from, const long row_to, AXES) {
  const long c0 = get_global_id(0) * TILE, c1 = min(c0 + TILE, columns);
  const long r0 = get_global_id(1) * TILE, r1 = min(r0 + TILE, rows);
  LOCATE(get_global_id(2))
  for (long r = r0; r < r1; ++r)
    for (long c = c0; c < c1; ++c) y[t + r * row_to + c] = x[f + r + c * column_from];
}
