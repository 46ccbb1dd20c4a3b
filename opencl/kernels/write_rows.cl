// Writes rows in place:   y[o, start + k, i] = x[o, k, i]   for 0 <= k < count; start is read from memory.
// Layout: y [outer, n, inner], x [outer, count, inner]. If the rows do not all lie in y, writes nothing and sets the error word.
// Mapping: each work-item copies `chunk` neighbours of x within one o.
// Options: T, any type of the size of an element; INDEX, int or long.

#include "index.clh"

__kernel void write_rows(__global T* restrict y, __global const INDEX* start, __global const T* restrict x, __global int* error,
                         const long outer, const long n, const long count, const long inner, const long chunk) {
  const long span = count * inner, chunks = (span + chunk - 1) / chunk, item = get_global_id(0), o = item / chunks;
  if (o >= outer) return;
  const long first = start[0], last_start = n - count;
  if (!in_range(first, last_start + 1)) {
    if (item == 0) report(first, last_start + 1, error);
    return;
  }
  __global T* to = y + (o * n + first) * inner;
  __global const T* from = x + o * span;
  const long begin = item % chunks * chunk, end = min(begin + chunk, span);
  for (long i = begin; i < end; ++i) to[i] = from[i];
}
