// Softmax:   y[i] = exponential(x[i] - max x) / sum_j exponential(x[j] - max x);   with `logarithm`, the logarithm of it.
// Layout: x as [outer, n, inner], normalised along n. Options: those of elements.clh. One work-item for each (outer, inner).
// Mapping: inner along the first dimension of the range, outer along the second.

#include "lib/rows.clh"

__kernel void softmax_any(__global const STORED* x, __global STORED* y, const long outer, const long n, const long inner, const int logarithm) {
  const long i = get_global_id(0);
  if (i >= inner) return;
  for (long o = get_global_id(1); o < outer; o += get_global_size(1)) {
    const long base = o * n * inner + i;
    float top = -INFINITY, total = 0;
    for (long j = 0; j < n; ++j) top = fmax(top, LOAD(x + base + j * inner));
    for (long begin = 0; begin < n; begin += ROW_BLOCK) {
      const long end = min(begin + ROW_BLOCK, n);
      float part = 0;
      for (long j = begin; j < end; ++j) part += exponential(LOAD(x + base + j * inner) - top);
      total += part;
    }
    const float scale = 1 / total, shift = log(total);
    for (long j = 0; j < n; ++j) {
      const float d = LOAD(x + base + j * inner) - top;
      STORE(logarithm ? d - shift : exponential(d) * scale, y + base + j * inner);
    }
  }
}
