// Weight gradient of a convolution of one group on GPUs, as a product whose left operand is read from the image as it is needed (implicit GEMM):
//   dweights [(ri, si, ci), k] = patches of x [pixels, (ri, si, ci)]^T dy [pixels, k]
// Layout: x [n, h, w, c], weights [r, s, c, k], y [n, p, q, k]; sh sw stride, ph pw padding, dh dw dilation. All have less than 2^31 elements.
// Mapping: tiles along the first dimension of the range (group_tile.clh), along the second parts of the pixels, whose sums parts.cl adds up.
// Options: those of group_tile.clh.

#include "lib/tiles/group_tile.clh"
#include "lib/ops/convolution.clh"

#define OPERAND a
#define EXTENT ROWS
#define OPERAND_WIDTH VECTOR
#define ALONG_TERMS 0
#include "lib/tiles/tile_operand.clh"

#define OPERAND b
#define EXTENT COLUMNS
#define OPERAND_WIDTH VECTOR
#define ALONG_TERMS 0
#include "lib/tiles/tile_operand.clh"

/// The pixel of y at which an item reads next: the element of x where its image begins, and row and column.
typedef struct {
  int image, row, column;
} Pixel;

__kernel TILE_GROUP void conv_weight_tile(__global const float* restrict dy, __global const float* restrict x, __global float* restrict dweights, GEOMETRY,
                                          const int part_pixels, const int adds) {
  LOCAL_TILES
  const int rows = r * s * c, tile_rows = (rows + ROWS - 1) / ROWS, tile_columns = (k + COLUMNS - 1) / COLUMNS;
  const int2 tile = tile_of_group(get_group_id(0), tile_rows, tile_columns);
  const int first_row = tile.x * ROWS, first_column = tile.y * COLUMNS, part = get_group_id(1), first = part * part_pixels;
  __global const float* b = dy + first * (long)k;
  dweights += (long)part * rows * k;

  int b_offsets[b_carries];
  b_begin(b_offsets, first_column, k, part_pixels);
  int2 taps[a_carries];   // row and column of the item's tap, from the window's place without padding
  int channels[a_carries];
  Pixel pixels[a_carries];
  UNROLLED (int i = 0; i < a_carries; ++i) {
    int at, term;
    a_place(i, &at, &term);
    const int row = min(first_row + at, rows - VECTOR), tap = row / c, ri = tap / s;
    taps[i] = (int2)(ri * dh - ph, (tap - ri * s) * dw - pw);
    channels[i] = row - tap * c;
    const int pixel = first + term, line = pixel / q, image = line / p;
    pixels[i].image = image * h * w * c;
    pixels[i].row = line - image * p;
    pixels[i].column = pixel - line * q;
  }

  CARRIED(a)
  CARRIED(b)
  NO_SUMS(sums)
  int left = min(part_pixels, n * p * q - first);
  const int steps = (left + DEPTH - 1) / DEPTH;
#define FETCH() { \
    UNROLLED (int i = 0; i < a_carries; ++i) { \
      int at, term; \
      a_place(i, &at, &term); \
      const int hi = pixels[i].row * sh + taps[i].x, wi = pixels[i].column * sw + taps[i].y; \
      const bool is_there = (uint)hi < (uint)h && (uint)wi < (uint)w; \
      a_carry(a_carried, i, x + pixels[i].image + (hi * w + wi) * c + channels[i], is_there && term < left); \
      for (pixels[i].column += DEPTH; pixels[i].column >= q; pixels[i].column -= q) \
        if (++pixels[i].row == p) { \
          pixels[i].row = 0; \
          pixels[i].image += h * w * c; \
        } \
    } \
    b_fetch(b_carried, b, b_offsets, left); \
    b += DEPTH * (long)k; \
    left -= DEPTH; \
  }
  ADD_STEPS(sums, steps)

  EACH_ROW_OF_RESULTS(i, row, first_row, rows) {
    const long to = row * (long)k;
    STORE_ROW(sums[i], dweights, to, to, first_column, k, adds)
  }
}
