// Softmax:   y[i] = exponential(x[i] - max x) / sum_j exponential(x[j] - max x);   with `logarithm`, its logarithm.
// Layout: x [outer, n, inner], normalised along n. Options: those of types.clh.
// Mapping: softmax_rows: inner = 1, each work-item computes `chunk` rows, eight lanes wide. softmax_group: a work-group of 64 items for each
// (outer, inner). softmax_any: one work-item for each (outer, inner).

#define GROUP 64
#include "group.clh"
#include "rows.clh"

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

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void softmax_group(__global const STORED* x, __global STORED* y, const long n, const long inner, const int logarithm) {
  __local float shared[GROUP];
  const long base = (get_group_id(0) / inner) * n * inner + get_group_id(0) % inner;
  const int me = get_local_id(0);
  float top = -INFINITY, total = 0;
  for (long j = me; j < n; j += GROUP) top = fmax(top, LOAD(x + base + j * inner));
  top = group_max(shared, top);
  for (long j = me; j < n; j += GROUP) total += exponential(LOAD(x + base + j * inner) - top);
  total = group_sum(shared, total);
  const float scale = 1 / total, shift = log(total);
  for (long j = me; j < n; j += GROUP) {
    const float d = LOAD(x + base + j * inner) - top;
    STORE(logarithm ? d - shift : exponential(d) * scale, y + base + j * inner);
  }
}

__kernel void softmax_any(__global const STORED* x, __global STORED* y, const long outer, const long n, const long inner, const int logarithm) {
  const long i = get_global_id(0);
  if (i >= outer * inner) return;
  const long base = (i / inner) * n * inner + i % inner;
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
