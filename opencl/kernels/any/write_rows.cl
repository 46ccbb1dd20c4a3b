// Writes rows in place:   y[o, start + k, i] = x[o, k, i]   for 0 <= k < count; start is read from memory.
// Layout: y [outer, n, inner], x [outer, count, inner]. If the rows do not all lie in y, writes nothing and sets the error word.
// Mapping: each work-item copies `chunk` neighbours of x within one o: chunks along the first dimension of the range, outer along the second.
// Options: T, any type of the size of an element; INDEX, int or long.

#include "lib/index.clh"

__kernel void write_rows(__global T* restrict y, __global const INDEX* start, __global const T* restrict x, __global int* error,
                         const long outer, const long n, const long count, const long inner, const long chunk) {
  const long span = count * inner, begin = get_global_id(0) * chunk, end = min(begin + chunk, span);
  const long first = start[0], last_start = n - count;
  if (!in_range(first, last_start + 1)) {
    if (begin == 0 && get_global_id(1) == 0) report(first, last_start + 1, error);
    return;
  }
  for (long o = get_global_id(1); o < outer; o += get_global_size(1)) {
    __global T* to = y + (o * n + first) * inner;
    __global const T* from = x + o * span;
    for (long i = begin; i < end; ++i) to[i] = from[i];
  }
}
