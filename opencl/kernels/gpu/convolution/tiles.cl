// Convolution of one group and its input gradient on GPUs, as a product whose left operand is read from the image as it is needed (implicit GEMM):
//   y  [pixels, k] = patches of x [pixels, (ri, si, ci)] weights [(ri, si, ci), k]
//   dx [pixels, c] = patches of dy [pixels, (ri, si, ki)] weights [(ri, si, ki), c]
// Layout: x [n, h, w, c], weights [r, s, c, k], y [n, p, q, k]; sh sw stride, ph pw padding, dh dw dilation. All have less than 2^31 elements.
// Mapping: tiles along the first dimension of the range (group_tile.clh), along the second parts of the terms, whose sums parts.cl adds up. For dx with
// a stride: along the third phases, pixels sh and sw apart, whose windows have the same taps. Those of a phase are sh and sw apart too, and a phase is a
// dense convolution of few taps. Either stride or dilation is 1 along each axis then.
// A tap's channels are DEPTH terms at a time; what is missing at its last is 0.
// Options: those of group_tile.clh; FORWARD: 1 for y, 0 for dx. An epilogue.

#define TERMS_AT_ONCE 1  // the places of windows take the registers
#include "lib/tiles/group_tile.clh"
#include "lib/ops/convolution.clh"

#define OPERAND a
#define EXTENT ROWS
#define OPERAND_WIDTH VECTOR
#define ALONG_TERMS 1
#include "lib/tiles/tile_operand.clh"

#define OPERAND b
#define EXTENT COLUMNS
#define OPERAND_WIDTH VECTOR
#define ALONG_TERMS !FORWARD
#include "lib/tiles/tile_operand.clh"

/// A window's way over an image along one axis: where it begins for pixel i of the results, and how far its taps are from each other there and in the
/// weights.
typedef struct {
  int stride, origin, step, taps, first_tap, tap_step;
} Way;

/// @param phase  of dx, whose pixels are phase + i stride
static inline Way way_of(int phase, int taps, int stride, int padding, int dilation) {
  Way way;
  way.taps = taps;
  way.first_tap = 0;
  way.tap_step = 1;
#if FORWARD
  way.stride = stride;
  way.origin = -padding;
  way.step = dilation;
#else
  way.stride = 1;
  way.step = -dilation;
  way.origin = phase + padding;
  if (stride > 1) {
    way.first_tap = (phase + padding) % stride;
    way.tap_step = stride;
    way.taps = max(0, (taps - way.first_tap + stride - 1) / stride);
    way.origin = (phase + padding - way.first_tap) / stride;
  }
#endif
  return way;
}

/// Reads DEPTH channels under one tap, of which `left` are left; 0 beyond them and outside of the image.
/// @param places  row and column of each window's first tap
/// @param tap     row and column of this one, from there
static IN_LINE void fetch_patches(CARRIED_BY(a_vector) carried, __global const float* from, const int offsets[a_carries], const int2 places[a_carries],
                                 int2 tap, int height, int width, int left) {
  UNROLLED (int i = 0; i < a_carries; ++i) {
    int at, term;
    a_place(i, &at, &term);
    const bool is_there = (uint)(places[i].x + tap.x) < (uint)height && (uint)(places[i].y + tap.y) < (uint)width;
    a_carry(carried, i, from + offsets[i], is_there && term < left);
  }
}

__kernel TILE_GROUP void conv_tile(__global const float* restrict source, __global const float* restrict weights, __global float* restrict out, GEOMETRY
                                   EPILOGUE_PARAMETERS) {
  LOCAL_TILES
#if FORWARD
  const int height = h, width = w, channels = c, results = k, row_phase = 0, column_phase = 0, down = p, right = q;
#else
  const int height = p, width = q, channels = k, results = c, phase = get_group_id(2), row_phase = phase / sw, column_phase = phase - row_phase * sw;
  const int down = (h - row_phase + sh - 1) / sh, right = (w - column_phase + sw - 1) / sw;
#endif
  const Way rows = way_of(row_phase, r, sh, ph, dh), columns = way_of(column_phase, s, sw, pw, dw);
  const int pixels = n * down * right, tile_rows = (pixels + ROWS - 1) / ROWS, tile_columns = (results + COLUMNS - 1) / COLUMNS;
  // Phases differ by a row or a column. A group without a tile goes on with nothing: PoCL 3.1 overwrites memory where a kernel returns before its barriers.
  const int id = get_group_id(0), is_tile = id < tile_rows * tile_columns;
  const int2 tile = tile_of_group(is_tile ? id : 0, max(tile_rows, 1), tile_columns);
  const int first_row = tile.x * ROWS, first_column = tile.y * COLUMNS;

  int a_offsets[a_carries], b_offsets[b_carries];
  int2 places[a_carries];
  UNROLLED (int i = 0; i < a_carries; ++i) {
    int at, term;
    a_place(i, &at, &term);
    const int pixel = min(first_row + at, pixels - 1), line = pixel / max(right, 1), image = line / max(down, 1);
    places[i] = (int2)((line - image * down) * rows.stride + rows.origin, (pixel - line * right) * columns.stride + columns.origin);
    a_offsets[i] = ((image * height + places[i].x) * width + places[i].y) * channels + term;
  }
  b_begin(b_offsets, first_column, results, channels);

  // What is next: a tap, and channels under it.
  const int chunks = (channels + DEPTH - 1) / DEPTH, steps = is_tile * rows.taps * columns.taps * chunks;
  const int part = get_group_id(1), parts = get_num_groups(1), first = part_begin(part, parts, steps), last = part_begin(part + 1, parts, steps);
  int channel = first % chunks * DEPTH, ri = first / chunks / max(columns.taps, 1), si = first / chunks - ri * columns.taps;
  out += (long)part * n * (FORWARD ? p * q : h * w) * results;

  CARRIED(a)
  CARRIED(b)
  NO_SUMS(sums)
#define FETCH() { \
    const int2 tap = (int2)(ri * rows.step, si * columns.step); \
    const int in_weights = ((rows.first_tap + ri * rows.tap_step) * s + columns.first_tap + si * columns.tap_step) * c * k; \
    fetch_patches(a_carried, source + (tap.x * width + tap.y) * channels + channel, a_offsets, places, tap, height, width, channels - channel); \
    b_fetch(b_carried, weights + in_weights + channel * (FORWARD ? k : 1), b_offsets, channels - channel); \
    channel += DEPTH; \
    if (channel >= channels) { \
      channel = 0; \
      if (++si == columns.taps) { \
        si = 0; \
        ++ri; \
      } \
    } \
  }
  ADD_STEPS(sums, last - first)

  EACH_ROW_OF_RESULTS(i, row, first_row, is_tile * pixels) {
#if FORWARD
    const long to = row * (long)k;
#else
    const int line = row / right, image = line / down, hi = row_phase + (line - image * down) * sh, wi = column_phase + (row - line * right) * sw;
    const long to = ((image * h + hi) * w + wi) * (long)c;
#endif
    STORE_ROW(sums[i], out, to, to, first_column, results, 0)
  }
}
