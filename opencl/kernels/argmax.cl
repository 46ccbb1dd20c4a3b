// Index of the first maximum along an axis; NaN counts as the largest.
// Layout: x [outer, n, inner], y [outer, inner]. Mapping: one work-item an output element.
// Options: T, the element type.

__kernel void argmax(__global const T* x, __global long* y, const long outer, const long n, const long inner) {
  const long i = get_global_id(0);
  if (i >= outer * inner) return;
  __global const T* from = x + (i / inner) * n * inner + i % inner;
  T best = from[0];
  long where = 0;
  for (long j = 1; j < n; ++j) {
    const T v = from[j * inner];
    const int better = v > best || (v != v && best == best);
    best = better ? v : best;
    where = better ? j : where;
  }
  y[i] = where;
}
