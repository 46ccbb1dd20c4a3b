// Copies of boxes on GPUs. Legend: move.clh.
// move_tiles_local:  a group of 16 x 16 work-items a tile, through local memory, so that both sides are coalesced.
// Mapping: columns of tiles along the first dimension of the range, rows of tiles along the second, places over the outer axes along the third.

#define PLACE uint  // drivers take fewer groups along the third dimension
#include "lib/ops/move.clh"
#define SIDE 16

__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1)))
void move_tiles_local(__global const T* x, __global T* y, const long from, const long to, const long rows, const long columns,
                      const long column_from, const long row_to, AXES) {
  __local T tile[SIDE][SIDE + 1];  // one more, so that a column lies in different banks
  const long c0 = get_group_id(0) * SIDE, r0 = get_group_id(1) * SIDE;
  const int i = get_local_id(0), j = get_local_id(1);
  LOCATE(get_group_id(2))
  if (r0 + i < rows && c0 + j < columns) tile[j][i] = x[f + r0 + i + (c0 + j) * column_from];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (r0 + j < rows && c0 + i < columns) y[t + (r0 + j) * row_to + c0 + i] = tile[i][j];
}
