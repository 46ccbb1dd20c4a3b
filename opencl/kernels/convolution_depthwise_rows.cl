// Depthwise convolution (one filter for each channel) and its gradients, for CPUs.
// Layout: x [n, h, w, c], weights [r, s, c], y [n, p, q, c]; sh sw stride, ph pw padding.
// Mapping: work-groups of one item. Each computes `rows` rows of one image (of y or dx; of dy for the weights) and a share of the channels.
// Rows are read in memory order, PIXELS pixels and WIDTH channels at a time. Of the rows under a window all but the last are in the caches of the core;
// the last is streamed.
// With i a pixel of such a block, s a tap of a row of the window and j a pixel of the source, both counted from the first of the block, all three
// directions satisfy one relation, which is known at compile time:
//   i * STEP + s * DILATION - SHIFT = j * SPREAD
// Forward: SPREAD is 1 and SHIFT is 0. Input gradient: STEP is 1; it is the same product with dy in place of x, spread by the stride, and the window
// reversed. So each value is loaded once and used in registers for all its products.
// Options: WIDTH, 16 or 8, divides c; PIXELS, a multiple of SPREAD; TAPS of a row of the window; STEP, SPREAD, SHIFT, DILATION;
// ASKS, for groups with all channels: prefetches the start of the next row; AROUND: stores bypass the caches; an epilogue, for y and dx.

#include "width.clh"
#include "convolution.clh"
#include "epilogue.clh"
#include "loops.clh"
#include "prefetch.clh"
#include "stores.clh"

#define MOST_ROWS 8  // of a window
#define REACH (((PIXELS - 1) * STEP + (TAPS - 1) * DILATION - SHIFT) / SPREAD + 1)  // source pixels that a block reads

/// What is read, [n, height, width, c], and how windows of `r` rows lie in it.
typedef struct {
  int height, width, c, r, step, spread, top, left;
} Source;

/// Rows of the source that row o of the product reads: where their first elements lie, and the rows of the window that meet them.
typedef struct {
  int count;
  long source[MOST_ROWS];
  int window[MOST_ROWS];
} Rows;

static inline Rows rows_read(Source of, long image, int o) {
  Rows rows;
  rows.count = 0;
  for (int ri = 0; ri < of.r; ++ri) {
    const int u = o * of.step + ri - of.top;
    if (u < 0 || u % of.spread || u / of.spread >= of.height) continue;
    rows.source[rows.count] = (image * of.height + u / of.spread) * of.width * of.c;
    rows.window[rows.count++] = ri;
  }
  return rows;
}

/// Where the lines lie that the row after row o of the product reads for the first time, if it is one of the same image; those of the
/// next image begin where these end.
static inline long next_lines(Source of, long image, int o) {
  return (image * of.height + (o * of.step + of.r - of.top + of.spread - 1) / of.spread) * of.width * of.c;
}

/// Asks for so many floats, and goes on to those behind them.
#ifdef ASKS
#define ASK_NEXT(next, floats) \
  ASK_SECOND(next, floats) \
  next += floats;
#else
#define ASK_NEXT(next, floats)
#endif

/// Source pixel j of a block, 0 outside the image.
#define INSIDE(j) LOAD(from + (j) * (long)of.c)
#define AT_THE_EDGE(j) (column + (j) >= 0 && column + (j) < of.width ? LOAD(from + (j) * (long)of.c) : (real)0)
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
static inline void product_row(__global const float* x, Source of, __global const float* weights, __global float* to, long image, int o, int columns,
                        int turned, int c0, int c1) {
  const Rows rows = rows_read(of, image, o);
  const long c = of.c;
  __global const float* next = x + next_lines(of, image, o);
  for (int first = 0; first < columns; first += PIXELS) {
    const int column = (first * STEP - of.left + SHIFT) / SPREAD, count = min(PIXELS, columns - first);
    const int inside = column >= 0 && column + REACH <= of.width;
    for (int channel = c0; channel < c1; channel += WIDTH) {
      ASK_NEXT(next, PIXELS * STEP / SPREAD * WIDTH)
      real sum[PIXELS];
      UNROLLED (int i = 0; i < PIXELS; ++i) sum[i] = 0;
      for (int k = 0; k < rows.count; ++k) {
        __global const float* from = x + rows.source[k] + column * c + channel;
        __global const float* tap = weights + (turned ? (of.r - rows.window[k]) * TAPS - 1 : rows.window[k] * TAPS) * c + channel;
        const long tap_step = turned ? -c : c;
        real weight[TAPS];
        UNROLLED (int s = 0; s < TAPS; ++s) weight[s] = LOAD(tap + s * tap_step);
#define MEET(i, s, value) sum[i] = fma(value, weight[s], sum[i]);
        if (inside) { EACH_MEETING(INSIDE) } else { EACH_MEETING(AT_THE_EDGE) }
#undef MEET
      }
      __global float* out = to + first * c + channel;
      UNROLLED (int i = 0; i < PIXELS; ++i)
        if (i < count) STORE_RESULT(sum[i], out + i * c);
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
  const Source of = {h, w, c, r, sh, 1, ph, pw};
  for (int o = begin; o < end; ++o) {
    const long at = (image * p + o) * q * c;
    product_row(x, of, weights, y + at, image, o, q, 0, c0, c1);
    FINISH(y, at + c0, c, q, c0, c1 - c0)
  }
}

/// Adds what row o of dy, whose first element is dy[0], adds to the gradient [r, TAPS, c].
static inline void weight_gradient_row(__global const float* dy, __global const float* x, Source of, __global float* sums, long image, int o, int columns,
                                int c0, int c1) {
  const Rows rows = rows_read(of, image, o);
  const long c = of.c;
  __global const float *next = x + next_lines(of, image, o), *next_slope = dy + columns * c;
  for (int first = 0; first < columns; first += PIXELS) {
    const int column = first * STEP - of.left, count = min(PIXELS, columns - first);
    const int inside = column >= 0 && column + REACH <= of.width;
    for (int channel = c0; channel < c1; channel += WIDTH) {
      ASK_NEXT(next, PIXELS * STEP * WIDTH)
      ASK_NEXT(next_slope, PIXELS * WIDTH)
      __global const float* slope = dy + first * c + channel;
      real d[PIXELS];
      UNROLLED (int i = 0; i < PIXELS; ++i) d[i] = i < count ? LOAD(slope + i * c) : (real)0;
      for (int k = 0; k < rows.count; ++k) {
        __global const float* from = x + rows.source[k] + column * c + channel;
        __global float* to = sums + rows.window[k] * TAPS * c + channel;
        real part[TAPS];
        UNROLLED (int s = 0; s < TAPS; ++s) part[s] = 0;
#define MEET(i, s, value) part[s] = fma(value, d[i], part[s]);
        if (inside) { EACH_MEETING(INSIDE) } else { EACH_MEETING(AT_THE_EDGE) }
#undef MEET
        UNROLLED (int s = 0; s < TAPS; ++s) STORE(LOAD(to + s * c) + part[s], to + s * c);
      }
    }
  }
}

/// partial[part] = the gradient [r, TAPS, c] from rows [part * rows, part * rows + rows) of all n * p rows of dy; += with `adds`.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_rows_weight_gradient(__global const float* dy, __global const float* x, __global float* partial, GEOMETRY, const int rows,
                                    const int channels, const int adds) {
  const long begin = get_group_id(1) * (long)rows, end = min(begin + rows, (long)n * p);
  const int c0 = get_group_id(0) * channels, c1 = min(c0 + channels, c);
  const Source of = {h, w, c, r, sh, 1, ph, pw};
  __global float* sums = partial + get_group_id(1) * (long)r * TAPS * c;
  for (int tap = 0; tap < r * TAPS && !adds; ++tap)
    for (int channel = c0; channel < c1; channel += WIDTH) STORE((real)0, sums + (long)tap * c + channel);
  for (long row = begin; row < end; ++row)
    weight_gradient_row(dy + row * q * c, x, of, sums, row / p, row % p, q, c0, c1);
}
#endif

#if STEP == 1
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_rows_input_gradient(__global const float* dy, __global const float* weights, __global float* dx, GEOMETRY, const int rows,
                                   const int channels EPILOGUE_PARAMETERS) {
  SHARE(h)
  const Source of = {p, q, c, r, 1, sh, r - 1 - ph, (TAPS - 1) * DILATION - pw};
  for (int o = begin; o < end; ++o) {
    const long at = (image * h + o) * w * c;
    product_row(dy, of, weights, dx + at, image, o, w, 1, c0, c1);
    FINISH(dx, at + c0, c, w, c0, c1 - c0)
  }
}
#endif
