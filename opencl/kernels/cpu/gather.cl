// Gather:   y[o, k, i] = x[o, indices[k], i]
// Layout: x [outer, n, inner], indices [count], y [outer, count, inner]. An index out of range gives zeros.
// One work-item a block of rows. Options: T, any type of the size of an element; INDEX, int or long.

#include "lib/index.clh"

__kernel void gather_rows(__global const T* restrict x, __global const INDEX* indices, __global T* restrict y, __global int* error,
                          const long rows, const long n, const long count, const long inner, const long row_block) {
  const long first = get_global_id(0) * row_block, last = min(first + row_block, rows);
  for (long r = first; r < last; ++r) {
    const long index = indices[r % count];
    __global T* to = y + r * inner;
    if (in_range(index, n)) {
      __global const T* from = x + (r / count * n + index) * inner;
      for (long i = 0; i < inner; ++i) to[i] = from[i];
    } else {
      report(index, n, error);
      for (long i = 0; i < inner; ++i) to[i] = 0;
    }
  }
}
