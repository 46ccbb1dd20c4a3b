// Convolution of one group with a 3x3 window and stride 1 by Winograd's algorithm F(4x4, 3x3), and its input gradient (lib/ops/winograd.clh); for GPUs.
// The sums over channels are 36 matrix products, a batch that gemm.cl computes; here is what comes before and after them.
// The input gradient is the convolution of dy with the window reversed and its channels exchanged: its products read u transposed.
// Tiles are counted by image, row of tiles, column of tiles, and computed a chunk at a time, `tiles` of them from tile `first` on.
//   u [point, c, k]     the transformed weights
//   v [point, tile, c]  the transformed patches of a chunk; of dy: k channels
//   m [point, tile, k]  their products; for dx: c channels
// Images come and go by rows: a buffer begins with row `x_row` or `y_row` of all images' rows, one image after the other.
// Mapping: a work-item has WIDTH neighbouring channels of a tile, or as many weights. Neighbours lie side by side in memory, so a wave loads and stores whole
// lines. A launch makes the outputs of a chunk, the patches of the next one and the weights, or some of these: none needs another, and each has whole groups.
// Options: WIDTH, 2 where all channel counts are even, else 1: the 36 values of two channels fit in registers, those of four do not; GROUP;
// SUB_GROUP, as in loops.clh. An epilogue.

#include "lib/elements.clh"
#include "lib/epilogue.clh"
#include "lib/loops.clh"
#include "lib/ops/winograd.clh"

#define AT(p) (*(__global real*)(p))
#define CONST_AT(p) (*(__global const real*)(p))
#if WIDTH == 2
#define FINISHED(v, i, c) (real)(EPILOGUE(v.x, i, c), EPILOGUE(v.y, (i) + 1, (c) + 1))
#else
#define FINISHED(v, i, c) EPILOGUE(v, i, c)
#endif

/// A tile's image, and its first row and column in the output.
#define PLACE(tile) \
  const int line = (tile) / tile_columns, image = line / tile_rows, top = (line - image * tile_rows) * 4, left = ((tile) - line * tile_columns) * 4;

/// v of an item, from x [n, height, width, c]; the output's element 0 reads the input from -top_padding, -left_padding on. What lies outside of the image is
/// 0, but its nearest pixel is read: loads under a condition would wait for each other.
static inline void put_patch(int item, __global const float* x, __global float* v, int height, int width, int c, int x_row, int top_padding,
                             int left_padding, int tile_rows, int tile_columns, int first, int tiles) {
  const int vectors = c / WIDTH, tile = item / vectors, channel = (item - tile * vectors) * WIDTH;
  if (tile >= tiles) return;
  PLACE(first + tile)
  const int first_row = top - top_padding, first_column = left - left_padding;
  real patch[POINTS];
  UNROLLED (int i = 0; i < 6; ++i) {
    const int row = clamp(first_row + i, 0, height - 1), from = (image * height - x_row + row) * width;
    UNROLLED (int j = 0; j < 6; ++j) {
      const int column = clamp(first_column + j, 0, width - 1);
      const real value = CONST_AT(x + (from + column) * c + channel);
      patch[i * 6 + j] = row == first_row + i && column == first_column + j ? value : (real)0;
    }
  }
  BOTH(spread_patch, patch, 6, 6)
  __global float* to = v + item * WIDTH;
  UNROLLED (int point = 0; point < POINTS; ++point) AT(to + point * (tiles * c)) = patch[point];
}

/// u of an item, from weights of `size` elements a tap; reversed: the last tap is the first.
static inline void put_window(int item, __global const float* weights, __global float* u, int size, int reversed) {
  const int at = item * WIDTH, step = reversed ? -size : size;
  if (at >= size) return;
  __global const float* from = weights + (reversed ? 8 * size : 0) + at;
  real window[POINTS];
  UNROLLED (int t = 0; t < 9; ++t) window[t / 3 * 6 + t % 3] = CONST_AT(from + t * step);
  BOTH(spread_window, window, 3, 6)
  UNROLLED (int point = 0; point < POINTS; ++point) AT(u + point * size + at) = window[point];
}

/// Items of whole groups.
static inline int in_groups(int items) { return (items + GROUP - 1) / GROUP * GROUP; }

/// @param m, y  products of `tiles` tiles from `first` on, whose outputs are made; y [n, out_height, out_width, k]
/// @param x, v  what put_patch takes, of `next_tiles` from `next` on
/// @param weights, u  what put_window takes
__kernel FEW_IN_LOCKSTEP __attribute__((reqd_work_group_size(GROUP, 1, 1))) void winograd_transforms(
    __global const float* restrict m, __global float* restrict y, __global const float* restrict x, __global float* restrict v,
    __global const float* restrict weights, __global float* restrict u, const int height, const int width, const int c, const int top_padding,
    const int left_padding, const int out_height, const int out_width, const int k, const int tile_rows, const int tile_columns, const int y_row,
    const int first, const int tiles, const int x_row, const int next, const int next_tiles, const int reversed EPILOGUE_PARAMETERS) {
  const int id = get_global_id(0), of_outputs = in_groups(tiles * (k / WIDTH)), of_patches = in_groups(next_tiles * (c / WIDTH));
  if (id >= of_outputs + of_patches) {
    put_window(id - of_outputs - of_patches, weights, u, c * k, reversed);
  } else if (id >= of_outputs) {
    put_patch(id - of_outputs, x, v, height, width, c, x_row, top_padding, left_padding, tile_rows, tile_columns, next, next_tiles);
  } else {
    const int vectors = k / WIDTH, tile = id / vectors, channel = (id - tile * vectors) * WIDTH;
    if (tile >= tiles) return;
    PLACE(first + tile)
    real values[POINTS];
    UNROLLED (int point = 0; point < POINTS; ++point) values[point] = CONST_AT(m + point * (tiles * k) + id * WIDTH);
    BOTH(gather_tile, values, 6, 4)
    const int place = ((image * out_height - y_row + top) * out_width + left) * k + channel;
    UNROLLED (int i = 0; i < 4; ++i)
      UNROLLED (int j = 0; j < 4; ++j) {
        const int to = place + (i * out_width + j) * k;
        if (top + i < out_height && left + j < out_width) AT(y + to) = FINISHED(values[i * 6 + j], to, channel);
      }
  }
}
