// Direct convolution, without a matrix of patches, for CPUs.
// Layout: x [n, h, w, c], weights [r, s, c / groups, k], y [n, p, q, k]; sh sw stride, ph pw padding, dh dw dilation.
// Forward and input gradient: weights are packed into panels of NR output channels, [group][panel][r, s, inner][NR], padded with zeros. A tile has
// MR output pixels x NR channels of accumulators in vector registers. Its pixels lie at one place of MR images, or side by side in one image; in both
// cases the same taps of the window lie inside of the image for all of them. So the inner loop has no border, and taps in the padding cost nothing.
// Mapping: work-groups of one item; get_global_id(1) counts the groups of the convolution.
// Options: MR (6 or 8), NR (16 or 32); AROUND: stores of y or dx bypass the caches; an epilogue, for results that are stored by pixels.

#define WIDTH 16
#include "width.clh"
#include "convolution.clh"
#include "epilogue.clh"
#include "loops.clh"
#include "prefetch.clh"
#include "register_tile.clh"
#include "transpose_block.clh"

/// Taps [first, last) of a window that begins at `begin` lie inside an image of `extent`.
static inline int first_tap(int begin, int dilation) { return begin >= 0 ? 0 : (dilation - 1 - begin) / dilation; }
static inline int last_tap(int begin, int taps, int dilation, int extent) {
  return begin >= extent ? 0 : min(taps, (extent - begin + dilation - 1) / dilation);
}

/// panels[g][b][t][i][j] = weights[tap, i, g k + b NR + j], for the taps of a part of the window; [tap, b NR + j, g k + i] where `transposed`.
/// A group packs `chunk` inner channels of one tap: it reads along the rows of the weights, which memory delivers ahead.
/// @param width  of the whole window  @param first  its tap where the part begins  @param c, k  channels and filters of a group
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pack_panels(__global const float* weights, __global float* panels, const int r, const int s, const int width, const int first,
                 const int c, const int k, const int transposed, const int chunk) {
  const int t = get_group_id(0), inner = transposed ? k : c, outer = transposed ? c : k, row_step = k * get_num_groups(2);
  const int begin = get_group_id(1) * chunk, end = min(begin + chunk, inner);
  const long panel_step = (long)r * s * inner * NR;
  __global const float* from = weights + (long)(first + t / s * width + t % s) * c * row_step + get_group_id(2) * k;
  __global float* to = panels + get_group_id(2) * ((outer + NR - 1) / NR) * panel_step + (long)t * inner * NR;
  if (transposed) {
    for (int o = 0; o < outer + NR - 1 - (outer - 1) % NR; o += WIDTH)
      for (int i = begin; i < end; i += WIDTH) {
        __global float* column = to + o / NR * panel_step + (long)i * NR + o % NR;
        if (o + WIDTH <= outer && i + WIDTH <= end) {
          real rows[WIDTH];
          UNROLLED (int j = 0; j < WIDTH; ++j) rows[j] = LOAD(from + (long)(o + j) * row_step + i);
          transpose_block(rows);
          UNROLLED (int j = 0; j < WIDTH; ++j) STORE(rows[j], column + j * NR);
          continue;
        }
        for (int j = 0; j < min(WIDTH, end - i); ++j)
          for (int lane = 0; lane < WIDTH; ++lane) column[j * NR + lane] = o + lane < outer ? from[(long)(o + lane) * row_step + i + j] : 0;
      }
    return;
  }
  for (int i = begin; i < end; ++i)
    for (int o = 0; o < outer; o += NR) {
      __global const float* row = from + (long)i * row_step + o;
      __global float* panel = to + o / NR * panel_step + (long)i * NR;
      if (o + NR <= outer)
        for (int j = 0; j < NR; j += WIDTH) STORE(LOAD(row + j), panel + j);
      else
        for (int j = 0; j < NR; ++j) panel[j] = o + j < outer ? row[j] : 0;
    }
}

/// Which panel and which unit (a row of pixels, of one image or of MR) a group works on; the one that changes slowest is
/// the one whose data should stay in cache.
#define GROUP \
  const long group = get_group_id(0); \
  const int block = panels_first ? group % blocks : group / units; \
  const long unit = panels_first ? group / blocks : group % units; \
  const int groups = get_num_groups(1), part = get_group_id(1), channels = c / groups, filters = k / groups;

/// Stores a tile's pixel, and asks for the place of the same one of the next tile, `next` elements further on: memory does not
/// follow so many rows by itself.
#ifdef AROUND
#define ASK(at)
#else
#define ASK(at) ASK_FOR_LINES(at, NR)
#endif
#define STORE_PIXEL(i) if (i < count) { ASK(to + i * row_to + next) store_lanes(to + i * row_to, 0, lanes, 0, VECTORS(i)); }

/// The epilogue waits for all tiles of a row of pixels: what it reads is then a stream, which memory delivers ahead.
/// @param image_step, first  elements of an image, and those before the row in it
#define FINISH_IMAGES(to, image, images, image_step, first, pixels, step) \
  for (int i = 0; i < (images); ++i) { \
    FINISH(to, (image + i) * (image_step) + (first) + column_to, step, pixels, column_to, lanes) \
  }

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void tiles_forward(__global const float* x, __global const float* panels, __global float* y, GEOMETRY, const long blocks,
                   const long units, const int panels_first, const int along_images EPILOGUE_PARAMETERS) {
  GROUP
  const int pi = unit % p, lanes = min(NR, filters - block * NR), column_to = part * filters + block * NR;
  const long image = unit / p * (along_images ? MR : 1);
  const long row_from = along_images ? (long)h * w * c : sw * c, row_to = along_images ? (long)p * q * k : k;
  const int top = pi * sh - ph, r0 = first_tap(top, dh), r1 = last_tap(top, r, dh, h);
  for (int qi = 0, count = 0; qi < q; qi += along_images ? 1 : count) {
    const int left = qi * sw - pw, s0 = first_tap(left, dw), s1 = last_tap(left, s, dw, w);
    count = along_images ? min((long)MR, n - image) : 1;
    if (!along_images)
      while (count < MR && qi + count < q && first_tap(left + count * sw, dw) == s0 && last_tap(left + count * sw, s, dw, w) == s1) ++count;
    const int taps = dw == 1 && groups == 1 ? s1 - s0 : 1;  // neighbours in memory, x and panel alike: one run
    ROWS(OFFSET)
    ROWS(DECLARE)
    for (int ri = r0; ri < r1; ++ri)
      for (int si = s0; si < s1; si += taps) {
        __global const float* from = x + ((image * h + top + ri * dh) * w + left + si * dw) * c + part * channels;
        __global const float* panel = panels + (((part * blocks + block) * r + ri) * s + si) * channels * NR;
        RUN(taps * channels, 1, NR)
      }
    __global float* to = y + ((image * p + pi) * q + qi) * k + column_to;
    const long next = (along_images ? 1 : count) * (long)k;
    ROWS(STORE_PIXEL)
  }
  FINISH_IMAGES(y, image, along_images ? min((long)MR, n - image) : 1, (long)p * q * k, (long)pi * q * k, q, k)
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void tiles_input_gradient(__global const float* dy, __global const float* panels, __global float* dx, GEOMETRY, const long blocks,
                          const long units, const int panels_first EPILOGUE_PARAMETERS) {
  GROUP
  const int hi = unit % h, lanes = min(NR, channels - block * NR), column_to = part * channels + block * NR;
  const long image = unit / h * MR, row_from = (long)p * q * k, row_to = (long)h * w * c;
  const int count = min((long)MR, n - image);
  ROWS(OFFSET)
  for (int wi = 0; wi < w; ++wi) {
    ROWS(DECLARE)
    for (int ri = 0; ri < r; ++ri) {
      const int row = hi + ph - ri * dh;
      if (row < 0 || row % sh || row / sh >= p) continue;
      for (int si = 0; si < s; ++si) {
        const int column = wi + pw - si * dw;
        if (column < 0 || column % sw || column / sw >= q) continue;
        __global const float* from = dy + ((image * p + row / sh) * q + column / sw) * k + part * filters;
        __global const float* panel = panels + (((part * blocks + block) * r + ri) * s + si) * filters * NR;
        RUN(filters, 1, NR)
      }
    }
    __global float* to = dx + ((image * h + hi) * w + wi) * c + column_to;
    const long next = c;
    ROWS(STORE_PIXEL)
  }
  FINISH_IMAGES(dx, image, count, (long)h * w * c, (long)hi * w * c, w, c)
}
