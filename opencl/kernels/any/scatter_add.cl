// Scatter-add, in place:   y[o, indices[k], i] += updates[o, k, i]   for k = 0, 1, ... in this order.
// Layout: y [outer, n, inner], indices [count], updates [outer, count, inner].
// Mapping: a work-item owns a block of rows and columns of y and reads indices begin..end-1, so that no other item adds there: deterministic, without
// atomics: blocks of columns along the first dimension of the range, of rows along the second, outer along the third. An index out of range is skipped.
// Options: T, the element type; INDEX, int or long.

#include "lib/index.clh"

__kernel void scatter_add(__global const INDEX* restrict indices, __global const T* restrict updates, __global T* restrict y,
                          __global int* error, const long outer, const long n, const long count, const long inner,
                          const long row_block, const long column_block, const long begin, const long end) {
  const long c0 = get_global_id(0) * column_block, c1 = min(c0 + column_block, inner);
  const long first = get_global_id(1) * row_block, last = min(first + row_block, n);
  if (c0 >= inner || first >= n) return;
  for (long o = get_global_id(2); o < outer; o += get_global_size(2)) {
    const int checks = c0 == 0 && first == 0 && o == 0;
    for (long k = begin; k < end; ++k) {
      const long row = indices[k];
      if (checks && !in_range(row, n)) report(row, n, error);
      if (row < first || row >= last) continue;
      __global T* to = y + (o * n + row) * inner;
      __global const T* from = updates + (o * count + k) * inner;
      for (long i = c0; i < c1; ++i) to[i] += from[i];
    }
  }
}
