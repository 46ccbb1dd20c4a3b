// Softmax:   y[i] = exponential(x[i] - max x) / sum_j exponential(x[j] - max x);   with `logarithm`, the logarithm of it.
// Layout: x as [outer, n, inner], normalised along n. Options: those of elements.clh. A group of 64 items for each (outer, inner).
// Mapping: outer along the first dimension of the range, inner along the second.

#define GROUP 64
#include "lib/group.clh"
#include "lib/rows.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void softmax_group(__global const STORED* x, __global STORED* y, const long n, const long inner, const int logarithm) {
  __local float shared[GROUP];
  const int me = get_local_id(0);
  for (long i = get_group_id(1); i < inner; i += get_num_groups(1)) {
    const long base = get_group_id(0) * n * inner + i;
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
}
