// Reductions on any device. Legend and options: reduce.clh.
// reduce_column_items:  one work-item a column of a slice.
// reduce_any:           one work-item an output element, over any axes.

#include "lib/ops/reduce.clh"

__kernel void reduce_column_items(__global const X* x, __global Y* y, const long outer, const long reduced, const long inner,
                                  const long slices, const long length, const T scale) {
  const long i = get_global_id(0);
  if (i >= outer * slices * inner) return;
  const long c = i % inner, s = i / inner % slices, o = i / inner / slices;
  const long begin = s * length, n = min(length, reduced - begin);
  Y_STORE(join_column(x + (o * reduced + begin) * inner + c, n, inner) * scale, y + i);
}

#define AXES(p) const long p##d0, const long p##s0, const long p##d1, const long p##s1, const long p##d2, const long p##s2, \
                const long p##d3, const long p##s3, const long p##d4, const long p##s4, const long p##d5, const long p##s5, \
                const long p##d6, const long p##s6, const long p##d7, const long p##s7
#define STEP(p, k) if (p##d##k > 1) { offset += (rest % p##d##k) * p##s##k; rest /= p##d##k; }
// What is left for the last axis is its index.
#define OFFSET(p) STEP(p, 0) STEP(p, 1) STEP(p, 2) STEP(p, 3) STEP(p, 4) STEP(p, 5) STEP(p, 6) offset += rest * p##s7;

__kernel void reduce_any(__global const X* x, __global Y* y, const long n, const T scale, AXES(k), AXES(r)) {
  const long i = get_global_id(0);
  if (i >= n) return;
  const long count = rd0 * rd1 * rd2 * rd3 * rd4 * rd5 * rd6 * rd7;
  long offset = 0, rest = i;
  OFFSET(k)
  const long base = offset;
  T total = START(X_LOAD(x + base));
  for (long begin = 0; begin < count; begin += BLOCK) {
    const long end = min(begin + BLOCK, count);
    T part = START(total);
    for (long j = begin; j < end; ++j) {
      offset = base;
      rest = j;
      OFFSET(r)
      const T next = X_LOAD(x + offset);
      part = JOIN(part, next);
    }
    total = JOIN(total, part);
  }
  Y_STORE(total * scale, y + i);
}
