// Scatter-add, in place:   y[o, indices[k], i] += updates[o, k, i]   for k = 0, 1, ... in this order.
// Layout: y [outer, n, inner], indices [count], updates [outer, count, inner].
// Mapping: a work-item owns a block of rows and columns of y and walks all the indices, so that nobody else adds there:
// deterministic, without atomics. An index out of range is skipped.
// Options: T, the element type; INDEX, int or long.

#include "index.clh"

__kernel void scatter_add(__global const INDEX* restrict indices, __global const T* restrict updates, __global T* restrict y,
                          __global int* error, const long n, const long count, const long inner, const long row_block,
                          const long column_block) {
  const long column_blocks = (inner + column_block - 1) / column_block;
  const long c0 = get_global_id(0) % column_blocks * column_block, c1 = min(c0 + column_block, inner);
  const long first = get_global_id(0) / column_blocks * row_block, last = min(first + row_block, n);
  const long o = get_global_id(1);
  const int checks = get_global_id(0) == 0 && o == 0;
  for (long k = 0; k < count; ++k) {
    const long row = indices[k];
    if (checks && !in_range(row, n)) report(row, n, error);
    if (row < first || row >= last) continue;
    __global T* to = y + (o * n + row) * inner;
    __global const T* from = updates + (o * count + k) * inner;
    for (long i = c0; i < c1; ++i) to[i] += from[i];
  }
}
