// Depthwise convolution, one filter a channel, and its gradients, shaped for CPUs.
// Layout: x [n, h, w, c], weights [r, s, c], y [n, p, q, c]; sh sw stride, ph pw padding, dw dilation along a row.
// Mapping: one work-item a group. It takes `rows` rows of one image (of y, dx; of dy for the weights) and a share of the channels.
// Rows are read in the order in which they lie, PIXELS pixels at a time and WIDTH channels of these: of the rows that a window reads
// all but the last are in the core's caches, and that one is a stream.
// The input gradient is the same product with dy in place of x: spread by the stride, with the window turned around. Its columns fall
// into phases that read the same taps.
// Options: WIDTH, 16 or 8; it divides c; AHEAD: the row that is a stream is asked for ahead; an epilogue, of y and dx.

#include "width.clh"
#include "convolution.clh"
#include "epilogue.clh"
#include "prefetch.clh"

#define PIXELS 8  // of a row, worked on at once
#define EACH_PIXEL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define TAPS 64

/// The taps that meet the source rows of one row.
typedef struct {
  int count, least, most;          // of `column`
  int column[TAPS];                // that pixel 0 reads; it may lie in the padding
  long source[TAPS], weight[TAPS]; // where pixel 0 reads, from the source's beginning; the tap's place in the weights
} Taps;

/// Of row o: column q reads the source rows (o * step_y + ri - top) / spread_y at the columns (q * step_x + si * dw - left) / spread_x,
/// where these are whole; pixel i is column phase + i * spread_x.
inline void find_taps(Taps* taps, long image, int height, int width, int c, int r, int s, int dw, int o, int step_y, int spread_y, int spread_x,
                      int top, int left, int turned, int phase) {
  int count = 0;
  taps->least = width;
  taps->most = -width;
  for (int ri = 0; ri < r; ++ri) {
    const int u = o * step_y + ri - top;
    if (u < 0 || u % spread_y || u / spread_y >= height) continue;
    for (int si = 0; si < s; ++si) {
      const int v = phase + si * dw - left;
      if (v % spread_x) continue;
      const int column = v / spread_x;
      taps->column[count] = column;
      taps->source[count] = ((image * height + u / spread_y) * width + column) * c;
      taps->weight[count] = (long)(turned ? r * s - 1 - ri * s - si : ri * s + si) * c;
      taps->least = min(taps->least, column);
      taps->most = max(taps->most, column);
      ++count;
    }
  }
  taps->count = count;
}

/// Pixels [begin, end) read no padding; those before and after are few.
#define INSIDE(pixels) \
  const int room = width - 1 - taps.most; \
  const int begin = clamp((step_x - 1 - taps.least) / step_x, 0, pixels), end = room < 0 ? begin : clamp(room / step_x + 1, begin, pixels);
/// Runs `body` with each of the others as i, and the taps that it meets as met[0 .. count).
#define AT_THE_EDGES(pixels, body) \
  for (int j = 0; j < pixels - (end - begin); ++j) { \
    const int i = j < begin ? j : end + j - begin; \
    int met[TAPS], count = 0; \
    for (int k = 0; k < taps.count; ++k) \
      if (taps.column[k] + i * step_x >= 0 && taps.column[k] + i * step_x < width) met[count++] = k; \
    for (int channel = c0; channel < c1; channel += WIDTH) { body } \
  }
/// The part of the newest source row that the next pixels read.
#ifdef AHEAD
#define ASK_AHEAD(x) \
  for (int i = 0; i < PIXELS * step_x; ++i) PREFETCH(x + newest + ((long)(first + PIXELS) * step_x + taps.most + i) * c + channel);
#else
#define ASK_AHEAD(x)
#endif
#define NEWEST const long newest = taps.count ? taps.source[taps.count - 1] - (long)taps.column[taps.count - 1] * c : 0;

/// Row o of `image` of the product, for the channels [c0, c1), to `to`: columns phase, phase + spread_x, ...
inline void product_row(__global const float* x, __global const float* weights, __global float* to, long image, int height, int width, int c,
                        int r, int s, int dw, int columns, int o, int step_y, int step_x, int spread_y, int spread_x, int top, int left,
                        int turned, int phase, int c0, int c1) {
  Taps taps;
  find_taps(&taps, image, height, width, c, r, s, dw, o, step_y, spread_y, spread_x, top, left, turned, phase);
  const int pixels = (columns - phase + spread_x - 1) / spread_x;
  const long pixel = (long)step_x * c, out_pixel = (long)spread_x * c;
  to += phase * (long)c;
  INSIDE(pixels)
  AT_THE_EDGES(pixels, {
    real sum = 0;
    for (int k = 0; k < count; ++k) sum = fma(LOAD(x + taps.source[met[k]] + i * pixel + channel), LOAD(weights + taps.weight[met[k]] + channel), sum);
    STORE(sum, to + i * out_pixel + channel);
  })
  NEWEST
  for (int first = begin; first < end; first += PIXELS) {
    // The last pixel over and over where fewer are left.
#define PLACE(i) const int at##i = min(i, end - 1 - first);
    EACH_PIXEL(PLACE)
    for (int channel = c0; channel < c1; channel += WIDTH) {
      ASK_AHEAD(x)
#define BEGIN(i) real sum##i = 0;
      EACH_PIXEL(BEGIN)
      for (int k = 0; k < taps.count; ++k) {
        const real weight = LOAD(weights + taps.weight[k] + channel);
        __global const float* from = x + first * pixel + taps.source[k] + channel;
#define ADD(i) sum##i = fma(LOAD(from + at##i * pixel), weight, sum##i);
        EACH_PIXEL(ADD)
      }
#define PUT(i) STORE(sum##i, to + (first + at##i) * out_pixel + channel);
      EACH_PIXEL(PUT)
    }
  }
}

/// Which rows and channels a group works on: rows [begin, end) of `image`, channels [c0, c1).
#define SHARE(all_rows) \
  const int ranges = (all_rows + rows - 1) / rows; \
  const long image = get_group_id(1) / ranges; \
  const int begin = get_group_id(1) % ranges * rows, end = min(begin + rows, all_rows); \
  const int c0 = get_group_id(0) * channels, c1 = min(c0 + channels, c);

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_rows_forward(__global const float* x, __global const float* weights, __global float* y, GEOMETRY, const int rows,
                            const int channels EPILOGUE_PARAMETERS) {
  SHARE(p)
  for (int o = begin; o < end; ++o) {
    const long at = (image * p + o) * q * c;
    product_row(x, weights, y + at, image, h, w, c, r, s, dw, q, o, sh, sw, 1, 1, ph, pw, 0, 0, c0, c1);
    FINISH(y, at + c0, c, q, c0, c1 - c0)
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_rows_input_gradient(__global const float* dy, __global const float* weights, __global float* dx, GEOMETRY, const int rows,
                                   const int channels EPILOGUE_PARAMETERS) {
  SHARE(h)
  for (int o = begin; o < end; ++o) {
    const long at = (image * h + o) * w * c;
    for (int phase = 0; phase < min(sw, w); ++phase)
      product_row(dy, weights, dx + at, image, p, q, c, r, s, dw, w, o, 1, 1, sh, sw, r - 1 - ph, (s - 1) * dw - pw, 1, phase, c0, c1);
    FINISH(dx, at + c0, c, w, c0, c1 - c0)
  }
}

/// Adds what row o of dy, whose first element is dy[0], adds to the gradient [r, s, c].
inline void weight_gradient_row(__global const float* dy, __global const float* x, __global float* sums, long image, int height, int width, int c,
                                int r, int s, int dw, int pixels, int o, int step_y, int step_x, int top, int left, int c0, int c1) {
  Taps taps;
  find_taps(&taps, image, height, width, c, r, s, dw, o, step_y, 1, 1, top, left, 0, 0);
  const long pixel = (long)step_x * c;
  INSIDE(pixels)
  AT_THE_EDGES(pixels, {
    const real d = LOAD(dy + (long)i * c + channel);
    for (int k = 0; k < count; ++k) {
      __global float* sum = sums + taps.weight[met[k]] + channel;
      STORE(fma(LOAD(x + taps.source[met[k]] + i * pixel + channel), d, LOAD(sum)), sum);
    }
  })
  NEWEST
  for (int first = begin; first < end; first += PIXELS) {
    const int used = min(PIXELS, end - first);
    EACH_PIXEL(PLACE)
    for (int channel = c0; channel < c1; channel += WIDTH) {
      ASK_AHEAD(x)
#ifdef AHEAD
      for (int i = 0; i < PIXELS; ++i) PREFETCH(dy + (long)(first + PIXELS + i) * c + channel);
#endif
#define TAKE(i) const real d##i = i < used ? LOAD(dy + (long)(first + at##i) * c + channel) : (real)0;
      EACH_PIXEL(TAKE)
      for (int k = 0; k < taps.count; ++k) {
        __global const float* from = x + first * pixel + taps.source[k] + channel;
#define TIMES(i) LOAD(from + at##i * pixel)
        const real even = fma(TIMES(0), d0, fma(TIMES(2), d2, fma(TIMES(4), d4, TIMES(6) * d6)));
        const real odd = fma(TIMES(1), d1, fma(TIMES(3), d3, fma(TIMES(5), d5, TIMES(7) * d7)));
        __global float* sum = sums + taps.weight[k] + channel;
        STORE(LOAD(sum) + (even + odd), sum);
      }
    }
  }
}

/// partial[part] = the gradient [r, s, c] from rows [part * rows, part * rows + rows) of all n * p rows of dy.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_rows_weight_gradient(__global const float* dy, __global const float* x, __global float* partial, GEOMETRY, const int rows,
                                    const int channels) {
  const long begin = get_group_id(1) * (long)rows, end = min(begin + rows, (long)n * p);
  const int c0 = get_group_id(0) * channels, c1 = min(c0 + channels, c);
  __global float* sums = partial + get_group_id(1) * (long)r * s * c;
  for (int tap = 0; tap < r * s; ++tap)
    for (int channel = c0; channel < c1; channel += WIDTH) STORE((real)0, sums + (long)tap * c + channel);
  for (long row = begin; row < end; ++row)
    weight_gradient_row(dy + row * q * c, x, sums, row / p, h, w, c, r, s, dw, q, row % p, sh, sw, ph, pw, c0, c1);
}
