// Copies of boxes: y[to + sum_k i_k t_k] = x[from + sum_k i_k f_k] for all 0 <= i_k < d_k. Used by transpose, concatenate, split, slice and pad.
// Only the size of an element matters: T is uchar, ushort, uint or ulong.
// Layout: the outer axes are given as (d, f, t), innermost first; an axis of extent 1 costs a comparison.
// move_rows:   the innermost axis is contiguous in x and y; one work-item copies a block of rows by a block of columns.
// move_items:  any strides; one work-item for each element.
// move_tiles:  contiguous along `columns` in y and along `rows` in x; one work-item for each tile of 32 x 32.
// move_tiles_local:  as move_tiles, by work-groups of 16 x 16 items through local memory, so that both sides are coalesced.

#define AXES const long d0, const long f0, const long t0, const long d1, const long f1, const long t1, \
             const long d2, const long f2, const long t2, const long d3, const long f3, const long t3, \
             const long d4, const long f4, const long t4, const long d5, const long f5, const long t5, \
             const long d6, const long f6, const long t6
#define STEP(k) if (d##k > 1) { const long i = rest % d##k; rest /= d##k; f += i * f##k; t += i * t##k; }
#define LOCATE(index) long rest = index, f = from, t = to; STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6)

__kernel void move_rows(__global const T* x, __global T* y, const long from, const long to, const long rows, const long columns,
                        const long row_block, const long column_block, AXES) {
  const long c0 = get_global_id(0) * column_block, c1 = min(c0 + column_block, columns);
  const long first = get_global_id(1) * row_block, last = min(first + row_block, rows);
  for (long r = first; r < last; ++r) {
    LOCATE(r)
    for (long c = c0; c < c1; ++c) y[t + c] = x[f + c];
  }
}

__kernel void move_items(__global const T* x, __global T* y, const long from, const long to, const long rows, const long columns,
                         const long column_from, const long column_to, AXES) {
  const long i = get_global_id(0);
  if (i >= rows * columns) return;
  const long c = i % columns;
  LOCATE(i / columns)
  y[t + c * column_to] = x[f + c * column_from];
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
