// GEMM: C = alpha op(A) op(B) + beta C, C [m, n] row-major, shaped for CPUs.
// Layout: A is packed into panels of MR rows, [m / MR][k][MR]; B into panels of NR columns, [n / NR][k][NR]; both padded
// with zeros, so that the inner loop has no edges.
// Mapping: one work-item a group. A group takes one panel of B and `blocks` panels of A; the product of a pair of
// panels is an MR x NR tile of accumulators, held in vector registers while k runs through K_BLOCK.
// Options: MR (6 or 12), NR (16 or 32), K_BLOCK.

#define ROWS_6(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define ROWS_12(X) ROWS_6(X) X(6) X(7) X(8) X(9) X(10) X(11)
#define JOIN(a, b) a##b
#define CALL(a, b) JOIN(a, b)
#define ROWS(X) CALL(ROWS_, MR)(X)

// A row of NR floats: one or two vectors of 16.
#if NR == 32
#define DECLARE(r) float16 lo##r = 0, hi##r = 0;
#define LOAD_B const float16 blo = vload16(0, b), bhi = vload16(1, b);
#define UPDATE(r) { const float16 x = (float16)(a[r]); lo##r = fma(x, blo, lo##r); hi##r = fma(x, bhi, hi##r); }
#define STORE(r) if (row + r < m) store_row(c + (row + r) * n + column, n - column, first, alpha, beta, lo##r, hi##r);
#define STORE_PARAMETERS float16 lo, float16 hi
#define STORE_VECTORS(put) put(0, lo) put(16, hi)
#else
#define DECLARE(r) float16 lo##r = 0;
#define LOAD_B const float16 blo = vload16(0, b);
#define UPDATE(r) lo##r = fma((float16)(a[r]), blo, lo##r);
#define STORE(r) if (row + r < m) store_row(c + (row + r) * n + column, n - column, first, alpha, beta, lo##r);
#define STORE_PARAMETERS float16 lo
#define STORE_VECTORS(put) put(0, lo)
#endif

/// Adds to what earlier blocks of k left, or scales what was there before the first.
inline float16 blend(float16 sum, float16 old, int first, float alpha, float beta) {
  return first ? (beta == 0 ? alpha * sum : alpha * sum + beta * old) : alpha * sum + old;
}

inline void store_part(__global float* to, long left, int first, float alpha, float beta, float16 sum) {
  if (left >= 16) {
    const float16 old = first && beta == 0 ? (float16)(0) : vload16(0, to);
    vstore16(blend(sum, old, first, alpha, beta), 0, to);
  } else {
    float values[16];
    vstore16(alpha * sum, 0, values);
    for (int j = 0; j < left; ++j) {
      const float old = first ? (beta == 0 ? 0 : beta * to[j]) : to[j];
      to[j] = values[j] + old;
    }
  }
}

inline void store_row(__global float* to, long left, int first, float alpha, float beta, STORE_PARAMETERS) {
#define PUT(at, v) if (left > at) store_part(to + at, left - at, first, alpha, beta, v);
  STORE_VECTORS(PUT)
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm(__global const float* packed_a, __global const float* packed_b, __global float* c_all, const long m, const long n,
          const long k, const long blocks, const long batch_a, const long batch_b, const long batch_c, const float alpha,
          const float beta) {
  const long column = get_group_id(0) * NR, batch = get_group_id(2);
  const long first_block = get_group_id(1) * blocks, panels = (m + MR - 1) / MR;
  const long last_block = min(first_block + blocks, panels);
  __global float* c = c_all + batch * batch_c;
  long k0 = 0;
  do {  // once also for k = 0: C = beta C
    const long length = min((long)K_BLOCK, k - k0);
    const int first = k0 == 0;
    for (long block = first_block; block < last_block; ++block) {
      const long row = block * MR;
      __global const float* a = packed_a + batch * batch_a + row * k + k0 * MR;
      __global const float* b = packed_b + batch * batch_b + column * k + k0 * NR;
      ROWS(DECLARE)
      for (long i = 0; i < length; ++i) {
        LOAD_B
        ROWS(UPDATE)
        a += MR;
        b += NR;
      }
      ROWS(STORE)
    }
    k0 += K_BLOCK;
  } while (k0 < k);
}

/// Panels from a matrix whose rows along the packed extent are contiguous (outer = 1).
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pack_rows(__global const float* from, __global float* to, const long extent, const long k, const long width,
               const long outer, const long inner, const long stride) {
  const long begin = get_group_id(0) * width, batch = get_group_id(2), panels = (extent + width - 1) / width;
  const long k0 = get_group_id(1) * K_BLOCK, k1 = min(k0 + K_BLOCK, k);
  const long used = min(width, extent - begin);
  __global const float* source = from + batch * stride + begin;
  __global float* panel = to + batch * panels * width * k + begin * k;
  for (long i = k0; i < k1; ++i) {
    for (long j = 0; j < used; ++j) panel[i * width + j] = source[i * inner + j];
    for (long j = used; j < width; ++j) panel[i * width + j] = 0;
  }
}

/// Panels from a matrix that is contiguous along k (inner = 1).
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pack_transposed(__global const float* from, __global float* to, const long extent, const long k, const long width,
                     const long outer, const long inner, const long stride) {
  const long begin = get_group_id(0) * width, batch = get_group_id(2), panels = (extent + width - 1) / width;
  const long k0 = get_group_id(1) * K_BLOCK, k1 = min(k0 + K_BLOCK, k);
  const long used = min(width, extent - begin);
  __global const float* source = from + batch * stride + begin * outer;
  __global float* panel = to + batch * panels * width * k + begin * k;
  for (long j = 0; j < used; ++j)
    for (long i = k0; i < k1; ++i) panel[i * width + j] = source[j * outer + i * inner];
  for (long j = used; j < width; ++j)
    for (long i = k0; i < k1; ++i) panel[i * width + j] = 0;
}
