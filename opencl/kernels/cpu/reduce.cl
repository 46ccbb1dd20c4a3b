// Reductions on CPUs. Legend and options: reduce.clh.
// reduce_rows:     inner = 1; one work-item a block of rows of a slice, sixteen lanes wide.
// reduce_columns:  one work-item sixteen columns of a slice.

#include "lib/ops/reduce.clh"
#define PASTE(a, b) a##b
#define WIDE(t, n) PASTE(t, n)
#define LANES 16
typedef WIDE(T, 16) lanes16;

static inline T join_lanes(const lanes16 v) {
  T parts[LANES];
  vstore16(v, 0, parts);
  for (int left = LANES / 2; left > 0; left /= 2)
    for (int k = 0; k < left; ++k) parts[k] = JOIN(parts[k], parts[k + left]);
  return parts[0];
}

static inline T join_row(__global const X* x, const long n) {
  T total = START(X_LOAD(x));
  for (long begin = 0; begin < n; begin += BLOCK * LANES) {
    const long end = min(begin + BLOCK * LANES, n);
    T part = START(X_LOAD(x + begin));
    long j = begin;
    if (j + LANES <= end) {
      lanes16 lanes = START(X_LOAD_16(x + j));
      for (; j + LANES <= end; j += LANES) {
        const lanes16 next = X_LOAD_16(x + j);
        lanes = JOIN(lanes, next);
      }
      part = join_lanes(lanes);
    }
    for (; j < end; ++j) {
      const T next = X_LOAD(x + j);
      part = JOIN(part, next);
    }
    total = JOIN(total, part);
  }
  return total;
}

__kernel void reduce_rows(__global const X* x, __global Y* y, const long outer, const long reduced, const long slices,
                          const long length, const long row_block, const T scale) {
  const long s = get_global_id(0), begin = s * length, n = min(length, reduced - begin);
  const long first = get_global_id(1) * row_block, last = min(first + row_block, outer);
  for (long o = first; o < last; ++o) Y_STORE(join_row(x + o * reduced + begin, n) * scale, y + o * slices + s);
}

static inline lanes16 join_columns(__global const X* x, const long n, const long stride) {
  lanes16 total = START(X_LOAD_16(x));
  for (long begin = 0; begin < n; begin += BLOCK) {
    const long end = min(begin + BLOCK, n);
    lanes16 part = START(X_LOAD_16(x + begin * stride));
    for (long r = begin; r < end; ++r) {
      const lanes16 next = X_LOAD_16(x + r * stride);
      part = JOIN(part, next);
    }
    total = JOIN(total, part);
  }
  return total;
}

__kernel void reduce_columns(__global const X* x, __global Y* y, const long outer, const long reduced, const long inner, const long slices,
                             const long length, const T scale) {
  const long c = get_global_id(0) * LANES, s = get_global_id(1);
  const long begin = s * length, n = min(length, reduced - begin);
  for (long o = get_global_id(2); o < outer; o += get_global_size(2)) {
    __global const X* from = x + (o * reduced + begin) * inner;
    __global Y* to = y + (o * slices + s) * inner;
    if (c + LANES <= inner)
      Y_STORE_16(join_columns(from + c, n, inner) * scale, to + c);
    else
      for (long k = c; k < inner; ++k) Y_STORE(join_column(from + k, n, inner) * scale, to + k);
  }
}
