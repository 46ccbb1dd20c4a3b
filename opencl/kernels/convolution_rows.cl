// Convolution with few filters and one group, for CPUs. Vector lanes are pixels of a row, since filters would leave most lanes empty.
// Layout: x [n, h, w, c], weights [r, s, c, k], y [n, p, q, k]; sh sw stride, ph pw padding, dh dw dilation.
// The rows of x under a band of output rows are copied once with their padding, as [row][channel][place % sw][place / sw], and stay in the L1 cache:
// values that one tap of neighbouring pixels reads are contiguous.
// Tile: FILTERS x BLOCKS vectors of sums in registers; each tap adds a weight times BLOCKS vectors of pixels.
// Mapping: work-groups of one item. Each computes a band of `band` output rows of one image.
// Options: WIDTH (16 or 8), FILTERS (at most k), BLOCKS; WINDOW: number of floats of the copied rows; an epilogue.

#include "convolution.clh"
#include "width.clh"
#include "epilogue.clh"
#include "loops.clh"

enum { PIXELS = WIDTH * BLOCKS };  // of a tile

/// Row `row` of an image [h, w, c], as `lines` = c sw lines of `length` places each; zeros for what lies outside of the image.
static inline void lay_out(__global const float* image, int row, int h, int w, int c, int sw, int before, int length, float* to) {
  for (int j = 0; j < c * sw * length; ++j) to[j] = 0;
  if (row < 0 || row >= h) return;
  __global const float* from = image + (long)row * w * c;
  for (int channel = 0; channel < c; ++channel)
    for (int phase = 0; phase < sw; ++phase) {
      const int first = before > phase ? (before - phase + sw - 1) / sw : 0;  // place first * sw + phase is the image's first of this phase
      const int skipped = first * sw + phase - before, count = min((w - skipped + sw - 1) / sw, length - first);
      float* line = to + (channel * sw + phase) * length + first;
      for (int j = 0; j < count; ++j) line[j] = from[(skipped + j * sw) * c + channel];
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void rows_forward(__global const float* x, __global const float* weights, __global float* y, GEOMETRY, const int band,
                  const int length EPILOGUE_PARAMETERS) {
  float window[WINDOW] ALIGNED;
  const int bands = (p + band - 1) / band, line_of_row = c * sw * length;
  const long image = get_group_id(0) / bands;
  const int begin = get_group_id(0) % bands * band, end = min(begin + band, p);
  for (int row = 0; row < (end - begin - 1) * sh + (r - 1) * dh + 1; ++row)
    lay_out(x + image * h * w * c, begin * sh - ph + row, h, w, c, sw, pw, length, window + row * line_of_row);
  for (int row = begin; row < end; ++row)
    for (int column = 0; column < q; column += PIXELS)
      for (int f = 0; f < k; f += FILTERS) {
        const int filter = min(f, k - FILTERS);
        real sums[FILTERS][BLOCKS];
        UNROLLED (int i = 0; i < FILTERS; ++i)
          UNROLLED (int b = 0; b < BLOCKS; ++b) sums[i][b] = 0;
        __global const float* weight = weights + filter;
        for (int ri = 0; ri < r; ++ri)
          for (int si = 0; si < s; ++si) {
            const float* from = window + ((row - begin) * sh + ri * dh) * line_of_row + si * dw % sw * length + si * dw / sw + column;
            for (int channel = 0; channel < c; ++channel, weight += k, from += sw * length) {
              real pixels[BLOCKS];
              UNROLLED (int b = 0; b < BLOCKS; ++b) pixels[b] = LOAD(from + b * WIDTH);
              UNROLLED (int i = 0; i < FILTERS; ++i)
                UNROLLED (int b = 0; b < BLOCKS; ++b) sums[i][b] = fma((real)weight[i], pixels[b], sums[i][b]);
            }
          }
        float values[FILTERS * PIXELS] ALIGNED;
        UNROLLED (int i = 0; i < FILTERS; ++i)
          UNROLLED (int b = 0; b < BLOCKS; ++b) STORE(sums[i][b], values + i * PIXELS + b * WIDTH);
        const int count = min((int)PIXELS, q - column);
        const long first = ((image * p + row) * q + column) * k + filter;
        for (int j = 0; j < count; ++j)
          UNROLLED (int i = 0; i < FILTERS; ++i) {
            const long at = first + j * k + i;
            y[at] = EPILOGUE(values[i * PIXELS + j], at, filter + i);
          }
      }
}
