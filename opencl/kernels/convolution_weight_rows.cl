// Weight gradient of a convolution with few channels and one group, for CPUs: dw [depth, k] = patches^T dy, depth = r s c.
// Layout: x [n, h, w, c], dy [n, p, q, k]; sh sw stride, ph pw padding, dh dw dilation.
// For each row of dy the r rows of x under it are copied with their padding; they stay in the L1 cache. An element of the patches then has the same
// distance from its pixel for all pixels of the row, so a register tile reads it in place.
// partial [part, depth, k]: contribution of each share of the rows of dy.
// Mapping: work-groups of one item. Each takes a share of all n p rows.
// Options: MR (4 or 8), NR (16 or 32), WINDOW: number of floats of the copied rows; FEW_FILTERS, if k < NR: each row of dy is copied too,
// padded with zeros to NR filters.

#include "convolution.clh"
#include "register_tile.clh"

/// Row `row` of an image [h, w, c] after `before` pixels of padding, to `places` pixels; zeros elsewhere, and for a row outside.
static inline void lay_row(__global const float* image, int row, int h, int w, int c, int before, int places, float* to) {
  const int inside = row >= 0 && row < h, begin = min(before, places) * c, end = inside ? begin + min(w, max(places - before, 0)) * c : begin;
  __global const float* from = image + (long)row * w * c;
  for (int j = 0; j < begin; ++j) to[j] = 0;
  for (int j = begin; j < end; ++j) to[j] = from[j - begin];
  for (int j = end; j < places * c; ++j) to[j] = 0;
}

#ifdef FEW_FILTERS
#define PANEL const float*
#define PANEL_STEP NR
#else
#define PANEL __global const float*
#define PANEL_STEP k
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void rows_weight_gradient(__global const float* dy, __global const float* x, __global float* partial, GEOMETRY, const int rows) {
  float window[WINDOW] ALIGNED;
#ifdef FEW_FILTERS
  float filters[WINDOW] ALIGNED;
  for (int j = 0; j < q * NR; ++j) filters[j] = 0;
#endif
  const int depth = r * s * c, places = (q - 1) * sw + (s - 1) * dw + 1, step = sw * c;
  const long begin = get_group_id(0) * (long)rows, end = min(begin + rows, (long)n * p);
  __global float* sums = partial + get_group_id(0) * (long)depth * k;
  for (long row = begin; row < end; ++row) {
    for (int ri = 0; ri < r; ++ri)
      lay_row(x + row / p * h * w * c, row % p * sh + ri * dh - ph, h, w, c, pw, places, window + ri * places * c);
#ifdef FEW_FILTERS
    for (int j = 0; j < q; ++j)
      for (int f = 0; f < k; ++f) filters[j * NR + f] = dy[(row * q + j) * k + f];
#endif
    for (int d = 0; d < depth; d += MR) {
      const int count = min(MR, depth - d);
#define PLACE(i) const int depth##i = d + min(i, count - 1), offset##i = (depth##i / c / s * places + depth##i / c % s * dw) * c + depth##i % c;
      ROWS(PLACE)
      for (int f = 0; f < k; f += NR) {
#ifdef FEW_FILTERS
        const int column = 0, begin_lane = 0, end_lane = k;
        PANEL panel = filters;
#else
        const int column = min(f, k - NR), begin_lane = NR - min(NR, k - f), end_lane = NR;  // a last panel that would hang over is moved back
        PANEL panel = dy + row * q * k + column;
#endif
        const float* from = window;
        ROWS(DECLARE)
        RUN(q, step, PANEL_STEP)
        __global float* to = sums + (long)d * k + column;
#define STORE_ROW(i) if (i < count) store_lanes(to + (long)i * k, begin_lane, end_lane, row > begin, VECTORS(i));
        ROWS(STORE_ROW)
      }
    }
  }
}
