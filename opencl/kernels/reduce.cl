// Sums, means and maxima over axes:   y[o, i] = scale * sum_r x[o, r, i],   or max_r x[o, r, i], NaN if any value is.
// Layout: dense row-major x [outer, reduced, inner]. `reduced` may be cut into slices of `length`: y is then [outer, slices, inner], and a second pass
// with one slice adds the slices up, always in the same order.
// Mapping: reduce_rows:         inner = 1; one work-item for a block of rows of a slice, sixteen lanes wide.
//          reduce_groups:       inner = 1; a work-group of 64 items for a slice of a row, through local memory.
//          reduce_columns:      one work-item for sixteen columns of a slice.
//          reduce_column_items: one work-item for a column of a slice.
//          reduce_any:          one work-item for an output element, over any axes.
// Long sums are added in blocks, so that the rounding error grows with the square root of their length.
// Options: those of types.clh; MAXIMUM, else sums; FROM_SLICES: x is of type T, from a first pass; TO_SLICES: y is.

#include "types.clh"

#ifdef FROM_SLICES
#define X T
#define X_LOAD(p) (*(p))
#define X_LOAD_16(p) vload16(0, p)
#else
#define X STORED
#define X_LOAD(p) LOAD(p)
#define X_LOAD_16(p) LOAD_16(p)
#endif
#ifdef TO_SLICES
#define Y T
#define Y_STORE(v, p) (*(p) = (v))
#define Y_STORE_16(v, p) vstore16(v, 0, p)
#else
#define Y STORED
#define Y_STORE(v, p) STORE(v, p)
#define Y_STORE_16(v, p) STORE_16(v, p)
#endif

#ifdef MAXIMUM
#define START(v) (v)
#define JOIN(a, b) (((b) > (a) || (b) != (b)) ? (b) : (a))
#else
#define START(v) 0
#define JOIN(a, b) ((a) + (b))
#endif
#define PASTE(a, b) a##b
#define WIDE(t, n) PASTE(t, n)
#define LANES 16
#define BLOCK 64
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

#define GROUP 64

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void reduce_groups(__global const X* x, __global Y* y, const long reduced, const long slices, const long length, const T scale) {
  __local T shared[GROUP];
  const long series = get_group_id(0), s = series % slices, o = series / slices;
  const int me = get_local_id(0);
  __global const X* row = x + o * reduced;
  const long begin = s * length, end = min(begin + length, reduced);
  T total = START(X_LOAD(row + begin));
  for (long j = begin + me; j < end; j += GROUP) {
    const T next = X_LOAD(row + j);
    total = JOIN(total, next);
  }
  shared[me] = total;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int part = GROUP / 2; part > 0; part /= 2) {
    if (me < part) shared[me] = JOIN(shared[me], shared[me + part]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (me == 0) Y_STORE(shared[0] * scale, y + series);
}

static inline T join_column(__global const X* x, const long n, const long stride) {
  T total = START(X_LOAD(x));
  for (long begin = 0; begin < n; begin += BLOCK) {
    const long end = min(begin + BLOCK, n);
    T part = START(X_LOAD(x + begin * stride));
    for (long r = begin; r < end; ++r) {
      const T next = X_LOAD(x + r * stride);
      part = JOIN(part, next);
    }
    total = JOIN(total, part);
  }
  return total;
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
