// Weight gradient of a convolution, for CPUs: for each group of the convolution dw [depth, k] = patches^T dy, depth = r s c, summed over all pixels;
// c and k are the channels and filters of a group.
// Layout: x [n, h, w, groups c], dy [n, p, q, groups k], dw [depth, groups k]; sh sw stride, ph pw padding, dh dw dilation.
// A work-group sums up to DEPTH rows and FILTERS columns of dw over its part of the pixels, up to BLOCK pixels at a time: it packs their patches and
// rows of dy into tiles [BLOCK][MR] and panels [BLOCK][NR], which stay in the caches of its core. Each pair is one register tile.
// partial [part, depth, groups k]: contributions of the parts of the pixels; dw itself if there is one part.
// Mapping: work-groups of one item.
// Options: MR (4 or 8), NR (16 or 32), BLOCK, DEPTH, FILTERS.

#include "convolution.clh"
#include "prefetch.clh"
#include "register_tile.clh"

// One line of cache beyond a tile and a panel: the places of one pixel would otherwise meet in one set of the cache.
#define TILE (BLOCK * MR + 16)
#define PANEL (BLOCK * NR + 16)

// What the packing of whole columns and panels will read is asked for: a piece of each pixel is no stream that memory delivers ahead.
#define PIXELS_AHEAD 2

#define JOIN(a, b) a##b
#define CALL(a, b) JOIN(a, b)

typedef CALL(float, MR) column;  // of a tile

/// Elements [0, length) of one pixel's patch from tap (ri, si), channel `channel` on; 0 in the padding.
/// Where a column never spans two taps, column i goes to to + i * step; else `step` is MR.
/// @param ahead  from what a pixel reads to what a later one will, which is asked for
/// @param image  the pixel's  @param top, left  where its window begins  @param pixel  elements from one pixel to the next
static inline void take_patch(__global const float* image, float* to, int step, int length, int top, int left, int h, int w, int c, int pixel, int s,
                       int dh, int dw, int ri, int si, int channel, int ahead) {
  const int whole = dw == 1 && c == pixel && left >= 0 && left + s <= w;  // a row of the window is one run
  for (int at = 0; at < length;) {
    const int row = top + ri * dh, place = left + si * dw;
    const int run = min(length - at, (whole ? s - si : 1) * c - channel);
    const int inside = row >= 0 && row < h && place >= 0 && place < w;
    __global const float* from = image + ((long)row * w + place) * pixel + channel;
    int j = 0;
    if (step != MR)
      for (; j < run; j += MR) {
        if (j % 16 == 0) PREFETCH(from + j + ahead);
        store_vector(inside ? CALL(vload, MR)(0, from + j) : (column)0, to + (at + j) / MR * step);
      }
    else if (inside)
      for (; j + 8 <= run; j += 8) store_vector(vload8(0, from + j), to + at + j);
    for (; j < run; ++j) to[at + j] = inside ? from[j] : 0;
    at += run;
    channel = 0;
    if (whole || ++si == s) {
      si = 0;
      ++ri;
    }
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void tiles_weight_gradient(__global const float* dy, __global const float* x, __global float* partial, GEOMETRY, const int depth_share,
                           const int filter_share, const long pixel_share,
                           const int block, const int adds) {
  float tiles[DEPTH / MR * TILE] ALIGNED, panels[FILTERS / NR * PANEL] ALIGNED, patch[DEPTH] ALIGNED;
  const int groups = get_num_groups(2), channels = c / groups, filters = k / groups;
  x += get_group_id(2) * channels;
  dy += get_group_id(2) * filters;
  const int depth = r * s * channels, ranges = (depth + depth_share - 1) / depth_share;
  const int d0 = get_group_id(0) % ranges * depth_share, d_count = min(depth_share, depth - d0);
  const int k0 = get_group_id(0) / ranges * filter_share, k_count = min(filter_share, filters - k0);
  const long first = get_group_id(1) * pixel_share, last = min(first + pixel_share, (long)n * p * q);
  const int ri = d0 / channels / s, si = d0 / channels % s, channel = d0 % channels;
  const int columns = channels % MR == 0;  // of a tile: never of two taps
  const long row_from = 1;
  __global float* sums = partial + (get_group_id(1) * (long)depth + d0) * k + get_group_id(2) * filters + k0;
  for (int j = d_count; j < DEPTH; ++j) patch[j] = 0;
  long image = first / q / p;
  int pi = first / q % p, qi = first % q;
  for (long begin = first; begin < last; begin += block) {
    const int pixels = min((long)block, last - begin);
    for (int m = 0; m < pixels; ++m) {
      float* to = columns ? tiles + m * MR : patch;
      take_patch(x + image * h * w * c, to, columns ? TILE : MR, d_count, pi * sh - ph, qi * sw - pw, h, w, channels, c, s, dh, dw, ri, si, channel,
                 PIXELS_AHEAD * sw * c);
      for (int d = 0; d < d_count && !columns; d += MR) store_vector(CALL(vload, MR)(0, patch + d), tiles + d / MR * TILE + m * MR);
      __global const float* from = dy + (begin + m) * k + k0;
      for (int f = 0; f < k_count; f += NR) {
        float* to = panels + f / NR * PANEL + m * NR;
        if (k_count - f >= NR)
          for (int j = 0; j < NR; j += 16) {
            PREFETCH(from + f + j + PIXELS_AHEAD * k);
            store_vector(vload16(0, from + f + j), to + j);
          }
        else
          for (int j = 0; j < NR; ++j) to[j] = j < k_count - f ? from[f + j] : 0;
      }
      if (++qi < q) continue;
      qi = 0;
      if (++pi < p) continue;
      pi = 0;
      ++image;
    }
    for (int f = 0; f < k_count; f += NR)
      for (int d = 0; d < d_count; d += MR) {
        const int count = min(MR, d_count - d), lanes = min(NR, k_count - f);
        const float *from = tiles + d / MR * TILE, *panel = panels + f / NR * PANEL;
        ROWS(OFFSET)
        ROWS(DECLARE)
        RUN(pixels, MR, NR)
        __global float* to = sums + (long)d * k + f;
#define STORE_ROW(i) if (i < count) { ASK_FOR_LINES(to + (long)(MR + i) * k, NR) store_lanes(to + (long)i * k, 0, lanes, adds || begin > first, VECTORS(i)); }
        ROWS(STORE_ROW)
      }
  }
}
