// Sums over axes.
// Layout: dense row-major. sum_runs sees x as [outer, reduced, inner] and gives y [outer, inner]; sum_any walks any axes.
// Mapping: one work-item an output element. Long sums are added in blocks, so that the rounding error grows with the
// square root of their length rather than with the length.
// Options: T, the element type.

#define BLOCK 64

__kernel void sum_runs(__global const T* x, __global T* y, const long outer, const long reduced, const long inner) {
  const long i = get_global_id(0);
  if (i >= outer * inner) return;
  __global const T* from = x + (i / inner) * reduced * inner + i % inner;
  T total = 0;
  for (long begin = 0; begin < reduced; begin += BLOCK) {
    const long end = min(begin + BLOCK, reduced);
    T part = 0;
    for (long r = begin; r < end; ++r) part += from[r * inner];
    total += part;
  }
  y[i] = total;
}

#define AXES(p) const long p##d0, const long p##s0, const long p##d1, const long p##s1, const long p##d2, const long p##s2, \
                const long p##d3, const long p##s3, const long p##d4, const long p##s4, const long p##d5, const long p##s5, \
                const long p##d6, const long p##s6, const long p##d7, const long p##s7
#define STEP(p, k) offset += (rest % p##d##k) * p##s##k; rest /= p##d##k;
#define OFFSET(p) STEP(p, 0) STEP(p, 1) STEP(p, 2) STEP(p, 3) STEP(p, 4) STEP(p, 5) STEP(p, 6) STEP(p, 7)

__kernel void sum_any(__global const T* x, __global T* y, const long n, AXES(k), AXES(r)) {
  const long i = get_global_id(0);
  if (i >= n) return;
  const long count = rd0 * rd1 * rd2 * rd3 * rd4 * rd5 * rd6 * rd7;
  long offset = 0, rest = i;
  OFFSET(k)
  const long base = offset;
  T total = 0;
  for (long begin = 0; begin < count; begin += BLOCK) {
    const long end = min(begin + BLOCK, count);
    T part = 0;
    for (long j = begin; j < end; ++j) {
      offset = base;
      rest = j;
      OFFSET(r)
      part += x[offset];
    }
    total += part;
  }
  y[i] = total;
}
