// Softmax:   y[i] = exponential(x[i] - max x) / sum_j exponential(x[j] - max x);   with `logarithm`, the logarithm of it.
// Layout: x as [rows, n], normalised along n. Options: those of elements.clh. Each work-item does `chunk` rows, eight lanes wide.

#include "lib/rows.clh"

__kernel void softmax_rows(__global const STORED* x, __global STORED* y, const long rows, const long n, const long chunk, const int logarithm) {
  const long first = get_global_id(0) * chunk, last = min(first + chunk, rows);
  for (long r = first; r < last; ++r) {
    __global const STORED* from = x + r * n;
    __global STORED* to = y + r * n;
    const float top = row_max(from, n);
    if (logarithm) {
      const float total = log(row_exp_sum(from, n, top));
      for (long j = 0; j < n; ++j) STORE(LOAD(from + j) - top - total, to + j);
    } else {
#ifdef STORED_AS  // what is stored would be rounded before it is scaled
      const float scale = 1 / row_exp_sum(from, n, top);
      for (long j = 0; j < n; ++j) STORE(exponential(LOAD(from + j) - top) * scale, to + j);
#else
      const float scale = 1 / row_exponentials(from, to, n, top);
      for (long j = 0; j < n; ++j) to[j] *= scale;
#endif
    }
  }
}
