// Scatter-add, in place:   y[o, indices[k], i] += updates[o, k, i]   for k = 0, 1, ... in this order.
// Layout: y [outer, n, inner], indices [count], updates [outer, count, inner].
// Mapping: a work-item owns a block of rows and columns of y and reads indices begin..end-1, so that no other item adds there: deterministic, without
// atomics. An index out of range is skipped.
// Options: T, the element type; INDEX, int or long.

#include "index.clh"

__kernel void scatter_add(__global const INDEX* restrict indices, __global const T* restrict updates, __global T* restrict y,
                          __global int* error, const long outer, const long n, const long count, const long inner,
                          const long row_block, const long column_block, const long begin, const long end) {
  const long column_blocks = (inner + column_block - 1) / column_block, row_blocks = (n + row_block - 1) / row_block;
  const long item = get_global_id(0), o = item / column_blocks / row_blocks;
  if (o >= outer) return;
  const long c0 = item % column_blocks * column_block, c1 = min(c0 + column_block, inner);
  const long first = item / column_blocks % row_blocks * row_block, last = min(first + row_block, n);
  const int checks = item == 0;
  for (long k = begin; k < end; ++k) {
    const long row = indices[k];
    if (checks && !in_range(row, n)) report(row, n, error);
    if (row < first || row >= last) continue;
    __global T* to = y + (o * n + row) * inner;
    __global const T* from = updates + (o * count + k) * inner;
    for (long i = c0; i < c1; ++i) to[i] += from[i];
  }
}
