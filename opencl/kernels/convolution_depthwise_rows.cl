// Depthwise convolution, one filter a channel, and its gradients, shaped for CPUs.
// Layout: x [n, h, w, c], weights [r, s, c], y [n, p, q, c]; sh sw stride, ph pw padding.
// Mapping: one work-item a group. It takes `rows` rows of one image (of y, dx; of dy for the weights) and a share of the channels.
// Rows are read in the order in which they lie, PIXELS pixels at a time and WIDTH channels of these: of the rows that a window reads
// all but the last are in the core's caches, and that one is a stream.
// With i a pixel of such a block, s a tap of a row of the window and j a pixel of the source, both counted from where the block's
// first ones lie, the three directions are one relation, known when the kernel is compiled:
//   i * STEP + s * DILATION - SHIFT = j * SPREAD
// Of a forward product SPREAD and SHIFT are 1 and 0. Of the input gradient, which is the same product with dy in place of x, spread by the
// stride, and the window turned around, STEP is 1. So every value is loaded once and meets all that it belongs to in registers.
// Options: WIDTH, 16 or 8, it divides c; PIXELS, a multiple of SPREAD; TAPS, of a row of the window; STEP, SPREAD, SHIFT, DILATION;
// AROUND: the result goes around the caches; an epilogue, of y and dx.

#include "width.clh"
#include "convolution.clh"
#include "epilogue.clh"
#include "loops.clh"
#include "prefetch.clh"
#include "stores.clh"

#define MOST_ROWS 8  // of a window
#define REACH (((PIXELS - 1) * STEP + (TAPS - 1) * DILATION - SHIFT) / SPREAD + 1)  // source pixels that a block reads

/// Rows of the source that row o of the product reads: where their first elements lie, and the rows of the window that meet them.
typedef struct {
  int count;
  long source[MOST_ROWS];
  int window[MOST_ROWS];
} Rows;

inline Rows rows_read(long image, int height, int width, int c, int r, int o, int step, int spread, int top) {
  Rows rows;
  rows.count = 0;
  for (int ri = 0; ri < r; ++ri) {
    const int u = o * step + ri - top;
    if (u < 0 || u % spread || u / spread >= height) continue;
    rows.source[rows.count] = (image * height + u / spread) * width * c;
    rows.window[rows.count++] = ri;
  }
  return rows;
}

/// Asks for what the next block reads for the first time, of the row whose first element is row[0].
#define ASK_AHEAD(row, from, count) \
  for (int j = 0; j < (count); ++j) PREFETCH(row + min((from) + j, width - 1) * (long)c + channel);

/// Source pixel j of a block, 0 outside the image.
#define INSIDE(j) LOAD(from + (j) * (long)c)
#define AT_THE_EDGE(j) (column + (j) >= 0 && column + (j) < width ? LOAD(from + (j) * (long)c) : (real)0)
/// Every pair of a source pixel and a tap that belongs to a pixel of the block, as MEET(at, j, s, value).
#define EACH_MEETING(READ) \
  UNROLLED (int j = 0; j < REACH; ++j) { \
    const real value = READ(j); \
    UNROLLED (int s = 0; s < TAPS; ++s) { \
      const int reach = j * SPREAD - s * DILATION + SHIFT, at = reach / STEP; \
      if (reach >= 0 && reach % STEP == 0 && at < PIXELS) MEET(at, s, value) \
    } \
  }

/// Row o of `image` of the product, for the channels [c0, c1), to `to`.
/// @param turned  the window is read backwards
inline void product_row(__global const float* x, __global const float* weights, __global float* to, long image, int height, int width, int c,
                        int r, int columns, int o, int step, int spread, int top, int left, int turned, int c0, int c1) {
  const Rows rows = rows_read(image, height, width, c, r, o, step, spread, top);
  for (int first = 0; first < columns; first += PIXELS) {
    const int column = (first * STEP - left + SHIFT) / SPREAD, count = min(PIXELS, columns - first);
    const int inside = column >= 0 && column + REACH <= width;
    for (int channel = c0; channel < c1; channel += WIDTH) {
      for (int k = max(0, rows.count - step); k < rows.count; ++k) { ASK_AHEAD(x + rows.source[k], column + REACH, PIXELS * STEP / SPREAD) }
      real sum[PIXELS];
      UNROLLED (int i = 0; i < PIXELS; ++i) sum[i] = 0;
      for (int k = 0; k < rows.count; ++k) {
        __global const float* from = x + rows.source[k] + column * (long)c + channel;
        __global const float* tap = weights + (turned ? (r - rows.window[k]) * TAPS - 1 : rows.window[k] * TAPS) * (long)c + channel;
        const long tap_step = turned ? -c : c;
        real weight[TAPS];
        UNROLLED (int s = 0; s < TAPS; ++s) weight[s] = LOAD(tap + s * tap_step);
#define MEET(i, s, value) sum[i] = fma(value, weight[s], sum[i]);
        if (inside) { EACH_MEETING(INSIDE) } else { EACH_MEETING(AT_THE_EDGE) }
#undef MEET
      }
      __global float* out = to + first * (long)c + channel;
      UNROLLED (int i = 0; i < PIXELS; ++i)
        if (i < count) STORE_RESULT(sum[i], out + i * (long)c);
    }
  }
}

/// Which rows and channels a group works on: rows [begin, end) of `image`, channels [c0, c1).
#define SHARE(all_rows) \
  const int ranges = (all_rows + rows - 1) / rows; \
  const long image = get_group_id(1) / ranges; \
  const int begin = get_group_id(1) % ranges * rows, end = min(begin + rows, all_rows); \
  const int c0 = get_group_id(0) * channels, c1 = min(c0 + channels, c);

#if SPREAD == 1
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_rows_forward(__global const float* x, __global const float* weights, __global float* y, GEOMETRY, const int rows,
                            const int channels EPILOGUE_PARAMETERS) {
  SHARE(p)
  for (int o = begin; o < end; ++o) {
    const long at = (image * p + o) * q * c;
    product_row(x, weights, y + at, image, h, w, c, r, q, o, sh, 1, ph, pw, 0, c0, c1);
    FINISH(y, at + c0, c, q, c0, c1 - c0)
  }
}

/// Adds what row o of dy, whose first element is dy[0], adds to the gradient [r, TAPS, c].
inline void weight_gradient_row(__global const float* dy, __global const float* x, __global float* sums, long image, int height, int width, int c,
                                int r, int columns, int o, int step, int top, int left, int c0, int c1) {
  const Rows rows = rows_read(image, height, width, c, r, o, step, 1, top);
  for (int first = 0; first < columns; first += PIXELS) {
    const int column = first * STEP - left, count = min(PIXELS, columns - first);
    const int inside = column >= 0 && column + REACH <= width;
    for (int channel = c0; channel < c1; channel += WIDTH) {
      for (int k = max(0, rows.count - step); k < rows.count; ++k) { ASK_AHEAD(x + rows.source[k], column + REACH, PIXELS * STEP) }
      __global const float* slope = dy + first * (long)c + channel;
      for (int i = 0; i < PIXELS; ++i) PREFETCH(slope + (PIXELS + i) * (long)c);
      real d[PIXELS];
      UNROLLED (int i = 0; i < PIXELS; ++i) d[i] = i < count ? LOAD(slope + i * (long)c) : (real)0;
      for (int k = 0; k < rows.count; ++k) {
        __global const float* from = x + rows.source[k] + column * (long)c + channel;
        __global float* to = sums + rows.window[k] * TAPS * (long)c + channel;
        real part[TAPS];
        UNROLLED (int s = 0; s < TAPS; ++s) part[s] = 0;
#define MEET(i, s, value) part[s] = fma(value, d[i], part[s]);
        if (inside) { EACH_MEETING(INSIDE) } else { EACH_MEETING(AT_THE_EDGE) }
#undef MEET
        UNROLLED (int s = 0; s < TAPS; ++s) STORE(LOAD(to + s * (long)c) + part[s], to + s * (long)c);
      }
    }
  }
}

/// partial[part] = the gradient [r, TAPS, c] from rows [part * rows, part * rows + rows) of all n * p rows of dy.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_rows_weight_gradient(__global const float* dy, __global const float* x, __global float* partial, GEOMETRY, const int rows,
                                    const int channels) {
  const long begin = get_group_id(1) * (long)rows, end = min(begin + rows, (long)n * p);
  const int c0 = get_group_id(0) * channels, c1 = min(c0 + channels, c);
  __global float* sums = partial + get_group_id(1) * (long)r * TAPS * c;
  for (int tap = 0; tap < r * TAPS; ++tap)
    for (int channel = c0; channel < c1; channel += WIDTH) STORE((real)0, sums + (long)tap * c + channel);
  for (long row = begin; row < end; ++row)
    weight_gradient_row(dy + row * q * c, x, sums, row / p, h, w, c, r, q, row % p, sh, ph, pw, c0, c1);
}
#endif

#if STEP == 1
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_rows_input_gradient(__global const float* dy, __global const float* weights, __global float* dx, GEOMETRY, const int rows,
                                   const int channels EPILOGUE_PARAMETERS) {
  SHARE(h)
  for (int o = begin; o < end; ++o) {
    const long at = (image * h + o) * w * c;
    product_row(dy, weights, dx + at, image, p, q, c, r, w, o, 1, sh, r - 1 - ph, (TAPS - 1) * DILATION - pw, 1, c0, c1);
    FINISH(dx, at + c0, c, w, c0, c1 - c0)
  }
}
#endif
