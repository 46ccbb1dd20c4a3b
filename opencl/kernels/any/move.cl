// Copies of boxes with any strides: one work-item an element. Legend: move.clh.
// Mapping: columns along the first dimension of the range, the first two outer axes along the others; along the rest of them a work-item goes on.

#include "lib/ops/move.clh"

#define EACH(k) for (long i##k = 0; i##k < d##k; ++i##k)

__kernel void move_items(__global const T* x, __global T* y, const long from, const long to, const long columns, const long column_from,
                         const long column_to, AXES) {
  const long c = get_global_id(0);
  if (c >= columns) return;
  for (long i1 = get_global_id(2); i1 < d1; i1 += get_global_size(2))
    for (long i0 = get_global_id(1); i0 < d0; i0 += get_global_size(1)) {
      const long f = from + c * column_from + i0 * f0 + i1 * f1, t = to + c * column_to + i0 * t0 + i1 * t1;
      if (d2 == 1) {  // nor are there further axes
        y[t] = x[f];
        continue;
      }
      EACH(6) EACH(5) EACH(4) EACH(3) EACH(2)
        y[t + i2 * t2 + i3 * t3 + i4 * t4 + i5 * t5 + i6 * t6] = x[f + i2 * f2 + i3 * f3 + i4 * f4 + i5 * f5 + i6 * f6];
    }
}
