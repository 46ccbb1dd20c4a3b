// Convolution of one group with a 3x3 window and stride 1, by Winograd's algorithm F(4x4, 3x3), and its gradients (lib/ops/winograd.clh); for CPUs.
// The input gradient is the convolution of dy with the window reversed and its channels exchanged.
// Tiles are counted by image, row of tiles, column of tiles; a launch computes `tiles` of them from tile `first` on.
//   v [point, tile, c]          the transformed patches
//   d [point, panel, tile, NR]  the transformed tiles of dy
//   m [point, c, panel, NR]     the gradient of the weights, as a sum over tiles
// The 36 slabs, one for each point, are written at the same time, so each begins in a different cache set (SLAB).
// A panel has NR output channels, padded with zeros. All channel counts are multiples of WIDTH.
// Mapping: work-groups of one item.
// Options: WIDTH, 16 or 8; for products: TILES and CHANNELS, multiples of MR and WIDTH, that a group computes at a time; MR, NR; an
// epilogue, for y and dx.

#include "lib/elements.clh"
#include "lib/epilogue.clh"
#include "lib/loops.clh"
#include "lib/ops/winograd.clh"
#include "lib/prefetch.clh"
#include "lib/register_tile.clh"
#include "lib/transpose_block.clh"

#define SLAB(floats) (((long)(floats) + 1023) / 1024 * 1024 + 16)  // from a point's floats to the next one's; as convolution/winograd.cpp's
// The same of a group's own u and products.
#define U_SLAB (CHANNELS * NR + 16)
#define PRODUCTS_SLAB (TILES * NR + 16)
#define SUMMED 32  // channels that registers sum before they are added to the products: 64 would have a fifth more rounding error, 512 three times it

/// A tile's image, and its first row and column in the output.
#define PLACE(tile) \
  const long image = (tile) / (tile_rows * tile_columns); \
  const int top = (tile) / tile_columns % tile_rows * 4, left = (tile) % tile_columns * 4;

/// v of one tile, from x [n, height, width, c]; the output's element 0 reads the input from -top_padding, -left_padding on.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void winograd_patches(__global const float* x, __global float* v, const int height, const int width, const int c, const int top_padding,
                      const int left_padding, const int tile_rows, const int tile_columns, const long first, const int tiles) {
  const long tile = first + get_group_id(0);
  PLACE(tile)
  __global const float* from = x + image * height * width * c;
  __global float* to = v + get_group_id(0) * (long)c;
  for (int channel = 0; channel < c; channel += WIDTH) {
    real patch[POINTS];
    UNROLLED (int i = 0; i < 6; ++i)
      UNROLLED (int j = 0; j < 6; ++j) {
        const int row = top + i - top_padding, column = left + j - left_padding;
        const int inside = row >= 0 && row < height && column >= 0 && column < width;
        patch[i * 6 + j] = inside ? LOAD(from + ((long)row * width + column) * c + channel) : (real)0;
      }
    BOTH(spread_patch, patch, 6, 6)
    UNROLLED (int point = 0; point < POINTS; ++point) STORE(patch[point], to + point * SLAB((long)tiles * c) + channel);
  }
}

/// d of one tile, from dy [n, p, q, k].
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void winograd_tiles(__global const float* dy, __global float* d, const int p, const int q, const int k, const int panels,
                    const int tile_rows, const int tile_columns, const long first, const int tiles) {
  const long tile = first + get_group_id(0);
  PLACE(tile)
  __global const float* from = dy + ((image * p + top) * q + left) * k;
  for (int filter = 0; filter < panels * NR; filter += WIDTH) {
    real values[POINTS];
    UNROLLED (int i = 0; i < 4; ++i)
      UNROLLED (int j = 0; j < 4; ++j) {
        const int inside = top + i < p && left + j < q && filter < k;
        values[i * 6 + j] = inside ? LOAD(from + ((long)i * q + j) * k + filter) : (real)0;
      }
    BOTH(spread_tile, values, 4, 6)
    __global float* to = d + ((long)(filter / NR) * tiles + get_group_id(0)) * NR + filter % NR;
    UNROLLED (int point = 0; point < POINTS; ++point) STORE(values[point], to + point * SLAB((long)panels * tiles * NR));
  }
}

static inline void keep(float* to, int add, VECTOR_PARAMETERS) {
#define KEEP_VECTOR(at, v) store_vector(add ? v + vload16(0, to + at) : v, to + at);
  EACH_VECTOR(KEEP_VECTOR)
}

/// u of WIDTH output channels and one inner channel, whose taps lie NR apart.
static inline void put_window(const real* taps, float* u) {
  real window[POINTS];
  UNROLLED (int t = 0; t < 9; ++t) window[t / 3 * 6 + t % 3] = taps[t * NR];
  BOTH(spread_window, window, 3, 6)
  UNROLLED (int point = 0; point < POINTS; ++point) STORE(window[point], u + point * U_SLAB);
}

/// The weights [3, 3, inner, outer] of inner channels [begin, end) and NR outer ones from `filter` on, as u [point, channel, NR].
/// Transposed: weights [3, 3, outer, inner], turned around.
static inline void spread_weights(__global const float* weights, float* u, int inner, int outer, int filter, int begin, int end, int transposed) {
  enum { AHEAD = 4 };  // channels; rows lie too far apart for memory to follow by itself
  real taps[9 * NR];
  for (int first = begin; first < end; first += WIDTH) {
    for (int t = 0; t < 9 && transposed; ++t)
      for (int lane = 0; lane < NR; lane += WIDTH) {
        real* block = taps + t * NR + lane;  // row j: WIDTH inner channels of output channel j, and the other way round after it
        UNROLLED (int j = 0; j < WIDTH; ++j) {
          __global const float* from = weights + ((long)(8 - t) * outer + filter + lane + j) * inner + first;
          PREFETCH(from + WIDTH);
          block[j] = filter + lane < outer ? LOAD(from) : (real)0;
        }
        transpose_block(block);
      }
    for (int i = 0; i < WIDTH; ++i, u += NR)
      for (int lane = 0; lane < NR; lane += WIDTH) {
        for (int t = 0; t < 9 && !transposed; ++t) {
          __global const float* from = weights + ((long)t * inner + first + i) * outer + filter + lane;
          PREFETCH(from + (long)AHEAD * outer);
          taps[t * NR + lane + i] = filter + lane < outer ? LOAD(from) : (real)0;
        }
        put_window(taps + lane + i, u + lane);
      }
  }
}

/// y [n, height, width, c] of a panel's channels at `share` tiles: for each point the product of v and u. The group transforms the
/// weights itself, a run of CHANNELS at a time, which is all that its second cache has to hold of them; they are used for TILES tiles, and
/// if one run is all, for the whole share.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void winograd_product(__global const float* v, __global const float* weights, __global float* y, const int height, const int width, const int c,
                      const int inner, const int tile_rows, const int tile_columns, const long first, const int tiles, const int share,
                      const int transposed EPILOGUE_PARAMETERS) {
  float u[POINTS * U_SLAB] ALIGNED, products[POINTS * PRODUCTS_SLAB] ALIGNED;
  const int filter = get_group_id(1) * NR, lanes = min(NR, c - filter);
  const int group_begin = get_group_id(0) * share, group_end = min(group_begin + share, tiles);
  const long row_from = inner, slab = SLAB((long)tiles * inner);
  for (int begin = group_begin; begin < group_end; begin += TILES) {
    const int own = min(TILES, group_end - begin);
    for (int channel = 0; channel < inner; channel += CHANNELS) {
      const int end = min(channel + CHANNELS, inner);
      if (begin == group_begin || inner > CHANNELS) spread_weights(weights, u, inner, c, filter, channel, end, transposed);
      for (int point = 0; point < POINTS; ++point)
        for (int t = 0; t < own; t += MR) {
          const int count = min(MR, own - t);
          __global const float* from = v + point * slab + (long)(begin + t) * inner + channel;
          __global const float* next = t + MR < own ? from + MR * row_from : from + slab - t * row_from;
          for (int i = 0; i < MR; ++i) ASK_FOR_LINES(next + i * row_from, CHANNELS)
          const float* panel = u + point * U_SLAB;
          ROWS(OFFSET)
          for (int summed = channel; summed < end; summed += SUMMED) {
            ROWS(DECLARE)
            RUN(min(SUMMED, end - summed), 1, NR)
#define KEEP_ROW(i) if (i < count) keep(products + point * PRODUCTS_SLAB + (t + i) * NR, summed > 0, VECTORS(i));
            ROWS(KEEP_ROW)
          }
        }
    }
    for (int t = 0; t < own; ++t) {
      PLACE(first + begin + t)
      const int rows = min(4, height - top), columns = min(4, width - left);
      const long at = ((image * height + top) * width + left) * c + filter;
      for (int lane = 0; lane < lanes; lane += WIDTH) {
        real values[POINTS];
        UNROLLED (int point = 0; point < POINTS; ++point) values[point] = LOAD(products + point * PRODUCTS_SLAB + t * NR + lane);
        BOTH(gather_tile, values, 6, 4)
        for (int i = 0; i < rows; ++i)
          for (int j = 0; j < columns; ++j) STORE(values[i * 6 + j], y + at + ((long)i * width + j) * c + lane);
      }
      for (int i = 0; i < rows; ++i) {
        FINISH(y, at + (long)i * width * c, c, columns, filter, lanes)
      }
    }
  }
}

/// m of one point and one panel: the sum over tiles of v^T d, a block of tiles at a time; to what is there unless `first` is 0.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void winograd_sums(__global const float* v, __global const float* d, __global float* m, const int c, const int panels, const long first,
                   const int tiles, const int block) {
  const int panel_index = get_group_id(0), point = get_group_id(1);
  const long row_from = 1;
  for (int begin = 0; begin < tiles; begin += block)
    for (int channel = 0; channel < c; channel += MR) {
      const int count = min(MR, c - channel);
      __global const float* from = v + point * SLAB((long)tiles * c) + (long)begin * c + channel;
      __global const float* panel = d + point * SLAB((long)panels * tiles * NR) + ((long)panel_index * tiles + begin) * NR;
      __global float* to = m + point * SLAB((long)c * panels * NR) + ((long)channel * panels + panel_index) * NR;
      ROWS(OFFSET)
      ROWS(DECLARE)
      for (int j = 0; j < min(block, tiles - begin); ++j) {
        PREFETCH(from + MR);  // what the next channels read: too many rows for memory to follow by itself
        OUTER_PRODUCT(c, NR)
      }
#define ADD_ROW(i) if (i < count) store_lanes(to + (long)i * panels * NR, 0, NR, first > 0 || begin > 0, VECTORS(i));
      ROWS(ADD_ROW)
    }
}

/// dw [3, 3, c, k] of one input channel, from m; added to what lies there with `adds`.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void winograd_windows(__global const float* m, __global float* dw, const int c, const int k, const int panels, const int adds) {
  const int channel = get_group_id(0);
  for (int filter = 0; filter < k; filter += WIDTH) {
    real values[POINTS];
    UNROLLED (int point = 0; point < POINTS; ++point) values[point] = LOAD(m + point * SLAB((long)c * panels * NR) + (long)channel * panels * NR + filter);
    BOTH(gather_window, values, 6, 3)
    UNROLLED (int t = 0; t < 9; ++t) {
      __global float* to = dw + ((long)t * c + channel) * k + filter;
      STORE(adds ? LOAD(to) + values[t / 3 * 6 + t % 3] : values[t / 3 * 6 + t % 3], to);
    }
  }
}
