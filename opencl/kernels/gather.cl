// Gather:   y[o, k, i] = x[o, indices[k], i]      One-hot rows:   y[k, c] = (indices[k] == c)
// Layout: x [outer, n, inner], indices [count], y [outer, count, inner]. An index out of range gives zeros.
// Mapping: gather_rows: one work-item for each block of rows. gather_items, one_hot: one work-item for each element of y.
// Options: T, for gather any type of the size of an element, for one_hot those of types.clh; INDEX, int or long.

#include "index.clh"
#include "types.clh"

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

__kernel void gather_items(__global const T* x, __global const INDEX* indices, __global T* y, __global int* error, const long rows,
                           const long n, const long count, const long inner) {
  const long at = get_global_id(0);
  if (at >= rows * inner) return;
  const long r = at / inner, i = at % inner;
  const long index = indices[r % count];
  const int usable = in_range(index, n);
  if (!usable && i == 0) report(index, n, error);
  y[at] = usable ? x[(r / count * n + index) * inner + i] : 0;
}

__kernel void one_hot(__global const INDEX* indices, __global STORED* y, __global int* error, const long count, const long classes) {
  const long at = get_global_id(0);
  if (at >= count * classes) return;
  const long index = indices[at / classes], c = at % classes;
  if (c == 0 && !in_range(index, classes)) report(index, classes, error);
  STORE((T)(index == c), y + at);
}
