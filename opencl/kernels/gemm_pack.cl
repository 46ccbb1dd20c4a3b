// Packs B of a GEMM into panels of NR columns, [n / NR][k][NR], padded with zeros. kernels/gemm.cl reads them.
// Mapping: one work-item a group; one for each panel, block of K_BLOCK rows and matrix of the batch.
// Options: NR (16 or 32), K_BLOCK.

#define EIGHT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define SIXTEEN(X) EIGHT(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

/// From B stored as [k, n].
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pack_rows(__global const float* restrict from, __global float* restrict to, const long n, const long k, const long stride) {
  const long panel = get_group_id(0), panels = get_num_groups(0), batch = get_group_id(2);
  const long k0 = get_group_id(1) * K_BLOCK, k1 = min(k0 + K_BLOCK, k);
  const long used = min((long)NR, n - panel * NR);
  __global const float* source = from + batch * stride + panel * NR;
  __global float* target = to + (batch * panels + panel) * NR * k;
  if (used == NR) {
    for (long i = k0; i < k1; ++i)
      for (int j = 0; j < NR; j += 16) vstore16(vload16(0, source + i * n + j), 0, target + i * NR + j);
    return;
  }
  for (long i = k0; i < k1; ++i) {
    for (long j = 0; j < used; ++j) target[i * NR + j] = source[i * n + j];
    for (long j = used; j < NR; ++j) target[i * NR + j] = 0;
  }
}

/// From B stored as [n, k].
/// Squares of 16 x 16 are transposed in registers: four rounds that each interleave row i with row i + 8.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pack_transposed(__global const float* restrict from, __global float* restrict to, const long n, const long k,
                     const long stride) {
  const long panel = get_group_id(0), panels = get_num_groups(0), batch = get_group_id(2);
  const long k0 = get_group_id(1) * K_BLOCK, k1 = min(k0 + K_BLOCK, k);
  __global const float* source = from + batch * stride + panel * NR * k;
  __global float* target = to + (batch * panels + panel) * NR * k;
  for (long j = 0; j < NR; j += 16) {
    const long used = clamp(n - panel * NR - j, 0L, 16L);
    long i = k0;
    for (; used == 16 && i + 16 <= k1; i += 16) {
      float16 x[16], y[16];
#define LOAD(r) x[r] = vload16(0, source + (j + r) * k + i);
#define INTERLEAVE(x, y, r) \
  y[2 * r] = (float16)(x[r].s0, x[r + 8].s0, x[r].s1, x[r + 8].s1, x[r].s2, x[r + 8].s2, x[r].s3, x[r + 8].s3, \
                       x[r].s4, x[r + 8].s4, x[r].s5, x[r + 8].s5, x[r].s6, x[r + 8].s6, x[r].s7, x[r + 8].s7); \
  y[2 * r + 1] = (float16)(x[r].s8, x[r + 8].s8, x[r].s9, x[r + 8].s9, x[r].sa, x[r + 8].sa, x[r].sb, x[r + 8].sb, \
                           x[r].sc, x[r + 8].sc, x[r].sd, x[r + 8].sd, x[r].se, x[r + 8].se, x[r].sf, x[r + 8].sf);
#define ROUND_XY(r) INTERLEAVE(x, y, r)
#define ROUND_YX(r) INTERLEAVE(y, x, r)
#define PUT(r) vstore16(x[r], 0, target + (i + r) * NR + j);
      SIXTEEN(LOAD)
      EIGHT(ROUND_XY) EIGHT(ROUND_YX) EIGHT(ROUND_XY) EIGHT(ROUND_YX)
      SIXTEEN(PUT)
    }
    for (; i < k1; ++i) {
      for (long r = 0; r < used; ++r) target[i * NR + j + r] = source[(j + r) * k + i];
      for (long r = used; r < 16; ++r) target[i * NR + j + r] = 0;
    }
  }
}
