// Conversion between float16 or bfloat16 and float32: y[i] = x[i].
// Mapping: each work-item converts `run` neighbours. Options: those of types.clh.

#include "loops.clh"
#include "types.clh"

__kernel void widen(__global const STORED* restrict x, __global T* restrict y, const long n, const long run) {
  const long first = get_global_id(0) * run, last = min(first + run, n);
  INDEPENDENT
  for (long i = first; i < last; ++i) y[i] = LOAD(x + i);
}

__kernel void narrow(__global const T* restrict x, __global STORED* restrict y, const long n, const long run) {
  const long first = get_global_id(0) * run, last = min(first + run, n);
  INDEPENDENT
  for (long i = first; i < last; ++i) STORE(x[i], y + i);
}
