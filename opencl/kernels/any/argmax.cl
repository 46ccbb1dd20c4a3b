// Index of the first maximum along an axis. NaN counts as the largest value.
// Layout: x [outer, n, inner], y [outer, inner].
// Mapping: one work-item for each output element: inner along the first dimension of the range, outer along the second.
// Options: those of types.clh.

#include "lib/elements.clh"

__kernel void argmax(__global const STORED* x, __global long* y, const long outer, const long n, const long inner) {
  const long i = get_global_id(0);
  if (i >= inner) return;
  for (long o = get_global_id(1); o < outer; o += get_global_size(1)) {
    __global const STORED* from = x + o * n * inner + i;
    T best = LOAD(from);
    long where = 0;
    for (long j = 1; j < n; ++j) {
      const T v = LOAD(from + j * inner);
      const int better = v > best || (v != v && best == best);
      best = better ? v : best;
      where = better ? j : where;
    }
    y[o * inner + i] = where;
  }
}
