// Copies of boxes with any strides: one work-item an element. Legend: move.clh.

#include "lib/ops/move.clh"

__kernel void move_items(__global const T* x, __global T* y, const long from, const long to, const long rows, const long columns,
                         const long column_from, const long column_to, AXES) {
  const long i = get_global_id(0);
  if (i >= rows * columns) return;
  const long c = i % columns;
  LOCATE(i / columns)
  y[t + c * column_to] = x[f + c * column_from];
}
