// Reductions on any device. Legend and options: reduce.clh.
// reduce_column_items:  one work-item a column of a slice. Columns along the first dimension of the range, slices along the second, outer along the third.
// reduce_any:           one work-item an output element, over any axes: those that are kept and those that are reduced, innermost first, each as extent
//                       and stride. Neighbours of a kind are one axis, so that of either there are four at most. Three of the kept ones are the range's
//                       dimensions, along the fourth an item goes on.

#include "lib/ops/reduce.clh"

__kernel void reduce_column_items(__global const X* x, __global Y* y, const long outer, const long reduced, const long inner,
                                  const long slices, const long length, const T scale) {
  const long c = get_global_id(0);
  if (c >= inner) return;
  for (long o = get_global_id(2); o < outer; o += get_global_size(2))
    for (long s = get_global_id(1); s < slices; s += get_global_size(1)) {
      const long begin = s * length, n = min(length, reduced - begin);
      Y_STORE(join_column(x + (o * reduced + begin) * inner + c, n, inner) * scale, y + (o * slices + s) * inner + c);
    }
}

#define AXES(p) const long p##d0, const long p##s0, const long p##d1, const long p##s1, const long p##d2, const long p##s2, const long p##d3, const long p##s3
#define EACH(i, extent) for (long i = 0; i < (extent); ++i)

__kernel void reduce_any(__global const X* x, __global Y* y, const T scale, AXES(k), AXES(r)) {
  const long k0 = get_global_id(0);
  if (k0 >= kd0) return;
  EACH(k3, kd3)
    for (long k2 = get_global_id(2); k2 < kd2; k2 += get_global_size(2))
      for (long k1 = get_global_id(1); k1 < kd1; k1 += get_global_size(1)) {
        __global const X* from = x + k0 * ks0 + k1 * ks1 + k2 * ks2 + k3 * ks3;
        T total = START(X_LOAD(from)), part = START(total);
        int joined = 0;  // in this block
        EACH(r3, rd3) EACH(r2, rd2) EACH(r1, rd1) EACH(r0, rd0) {
          const T next = X_LOAD(from + r0 * rs0 + r1 * rs1 + r2 * rs2 + r3 * rs3);
          part = JOIN(part, next);
          if (++joined < BLOCK) continue;
          total = JOIN(total, part);
          part = START(total);
          joined = 0;
        }
        if (joined > 0) total = JOIN(total, part);
        Y_STORE(total * scale, y + ((k3 * kd2 + k2) * kd1 + k1) * kd0 + k0);
      }
}
