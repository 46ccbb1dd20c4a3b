// Gather:   y[o, k, i] = x[o, indices[k], i]      One-hot rows:   y[k, c] = (indices[k] == c)
// Layout: x [outer, n, inner], indices [count], y [outer, count, inner]. An index out of range gives zeros.
// Mapping: one work-item for each element of y: inner axis along the first dimension of the range, indices along the second, outer along the third.
// Options: T, for gather any type of the size of an element, for one_hot those of types.clh; INDEX, int or long.

#include "lib/index.clh"
#include "lib/elements.clh"

__kernel void gather_items(__global const T* x, __global const INDEX* indices, __global T* y, __global int* error, const long outer,
                           const long n, const long count, const long inner) {
  const long i = get_global_id(0);
  if (i >= inner) return;
  for (long o = get_global_id(2); o < outer; o += get_global_size(2))
    for (long k = get_global_id(1); k < count; k += get_global_size(1)) {
      const long index = indices[k];
      const int usable = in_range(index, n);
      if (!usable && i == 0) report(index, n, error);
      y[(o * count + k) * inner + i] = usable ? x[(o * n + index) * inner + i] : 0;
    }
}

__kernel void one_hot(__global const INDEX* indices, __global STORED* y, __global int* error, const long count, const long classes) {
  const long c = get_global_id(0);
  if (c >= classes) return;
  for (long k = get_global_id(1); k < count; k += get_global_size(1)) {
    const long index = indices[k];
    if (c == 0 && !in_range(index, classes)) report(index, classes, error);
    STORE((T)(index == c), y + k * classes + c);
  }
}
