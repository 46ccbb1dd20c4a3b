// Depthwise convolution, one filter a channel, and its gradients, shaped for CPUs.
// Layout: x [n, h, w, c], weights [r, s, c], y [n, p, q, c]; sh sw stride, ph pw padding, dw dilation along a row.
// Mapping: one work-item a group. It takes `rows` rows of one image (of y, dx; of dy for the weights) and a share of the channels,
// WIDTH at a time: the source rows of these channels are laid side by side into `window`, with their padding, where they stay in
// the first cache for all taps and all rows that read them. Source row u lies at place u mod r.
// The input gradient is the same product with dy in place of x: spread by the stride, with the window turned around.
// Options: WIDTH, 16 or 8; it divides c. An epilogue, of y and dx.

#include "width.clh"
#include "convolution.clh"
#include "epilogue.clh"

#define WINDOW (12288 / WIDTH)  // places, of vectors: no load then straddles two cache lines
#define PIXELS 8                // of a row, summed at once
#define EACH_PIXEL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/// Row `row` of an image [height, width, c], from channel `channel`: column j goes to place j * spread + before of `to`, which has
/// `places` of them; the others become 0.
inline void lay(__global const float* image, long row, int width, int c, int channel, int spread, int before, int places, real* to) {
  if (before > 0 || spread > 1 || width * spread + before < places)
    for (int at = 0; at < places; ++at) to[at] = 0;
  const int first = before >= 0 ? 0 : (spread - 1 - before) / spread;
  __global const float* from = image + row * width * c + channel;
  for (int j = first; j < width && j * spread + before < places; ++j) to[j * spread + before] = LOAD(from + (long)j * c);
}

/// Rows [begin, end) of `image` of the product, for the channels [c0, c1).
/// Row o, column q of the result read source row o * step_y + ri - top, spread by spread_y, and place q * step_x + si * dw.
inline void product(__global const float* x, __global const float* weights, __global float* y, long image, int height, int width, int c,
                    int r, int s, int dw, int rows, int columns, int begin, int end, int step_y, int step_x, int spread_y, int spread_x,
                    int top, int left, int turned, int c0, int c1) {
  real window[WINDOW];
  int held[8];  // by slot of the window: the source row in it
  const int places = (columns - 1) * step_x + (s - 1) * dw + 1;
  for (int channel = c0; channel < c1; channel += WIDTH) {
    for (int slot = 0; slot < r; ++slot) held[slot] = -1;
    for (int o = begin; o < end; ++o) {
      for (int ri = 0; ri < r; ++ri) {
        const int u = o * step_y + ri - top;
        if (u < 0 || u % spread_y || u / spread_y >= height || held[u % r] == u) continue;
        held[u % r] = u;
        lay(x + image * height * width * c, u / spread_y, width, c, channel, spread_x, left, places, window + u % r * places);
      }
      __global float* to = y + ((image * rows + o) * columns) * c + channel;
      for (int q = 0; q < columns; q += PIXELS) {
#define BEGIN(i) real sum##i = 0; const int at##i = min(q + i, columns - 1) * step_x;
        EACH_PIXEL(BEGIN)
        for (int ri = 0; ri < r; ++ri) {
          const int u = o * step_y + ri - top;
          if (u < 0 || u % spread_y || u / spread_y >= height) continue;
          const real* from = window + u % r * places;
          __global const float* tap = weights + (long)(turned ? (r - 1 - ri) * s + s - 1 : ri * s) * c + channel;
          for (int si = 0; si < s; ++si) {
            const real weight = LOAD(tap);
#define ADD(i) sum##i = fma(from[at##i], weight, sum##i);
            EACH_PIXEL(ADD)
            from += dw;
            tap += turned ? -c : c;
          }
        }
#define PUT(i) if (q + i < columns) STORE(sum##i, to + (long)(q + i) * c);
        EACH_PIXEL(PUT)
      }
    }
  }
}

/// Which rows and channels a group works on: rows [begin, end) of `image`, channels [c0, c1).
#define SHARE(all_rows) \
  const int ranges = (all_rows + rows - 1) / rows; \
  const long image = get_group_id(1) / ranges; \
  const int begin = get_group_id(1) % ranges * rows, end = min(begin + rows, all_rows); \
  const int c0 = get_group_id(0) * channels, c1 = min(c0 + channels, c);

/// The epilogue waits for all channels of a row: what it reads is then a stream.
#define FINISH_ROWS(to, all_rows, columns) \
  FINISH(to, ((image * all_rows + begin) * columns) * c + c0, c, (end - begin) * columns, c0, c1 - c0)

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_rows_forward(__global const float* x, __global const float* weights, __global float* y, GEOMETRY, const int rows,
                            const int channels EPILOGUE_PARAMETERS) {
  SHARE(p)
  if (sh == 1 && sw == 1) product(x, weights, y, image, h, w, c, r, s, dw, p, q, begin, end, 1, 1, 1, 1, ph, pw, 0, c0, c1);
  else product(x, weights, y, image, h, w, c, r, s, dw, p, q, begin, end, sh, sw, 1, 1, ph, pw, 0, c0, c1);
  FINISH_ROWS(y, p, q)
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_rows_input_gradient(__global const float* dy, __global const float* weights, __global float* dx, GEOMETRY, const int rows,
                                   const int channels EPILOGUE_PARAMETERS) {
  SHARE(h)
  product(dy, weights, dx, image, p, q, c, r, s, dw, h, w, begin, end, 1, 1, sh, sw, r - 1 - ph, (s - 1) * dw - pw, 1, c0, c1);
  FINISH_ROWS(dx, h, w)
}

/// partial[part] = the gradient [r, s, c] from rows [part * rows, part * rows + rows) of all n * p rows of dy.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_rows_weight_gradient(__global const float* dy, __global const float* x, __global float* partial, GEOMETRY, const int rows,
                                    const int channels) {
  real window[WINDOW], line[WINDOW];
  int held[8];
  const int places = (q - 1) * sw + (s - 1) * dw + 1;
  const long first = get_group_id(1) * (long)rows, last = min(first + rows, (long)n * p);
  const int c0 = get_group_id(0) * channels, c1 = min(c0 + channels, c);
  __global float* sums = partial + get_group_id(1) * (long)r * s * c;
  for (int channel = c0; channel < c1; channel += WIDTH) {
    for (int tap = 0; tap < r * s; ++tap) STORE((real)0, sums + (long)tap * c + channel);
    for (long row = first; row < last; ++row) {
      const long image = row / p;
      const int o = row % p;
      if (o == 0 || row == first)
        for (int slot = 0; slot < r; ++slot) held[slot] = -1;
      lay(dy + image * p * q * c, o, q, c, channel, 1, 0, q, line);
      for (int ri = 0; ri < r; ++ri) {
        const int u = o * sh + ri - ph;
        if (u < 0 || u >= h) continue;
        if (held[u % r] != u) lay(x + image * h * w * c, u, w, c, channel, 1, pw, places, window + u % r * places);
        held[u % r] = u;
        for (int si = 0; si < s; ++si) {
          const real *a = line, *b = window + u % r * places + si * dw;
          real sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
          int j = 0;
          for (; j + 4 <= q; j += 4) {
            sum0 = fma(a[0], b[0], sum0);
            sum1 = fma(a[1], b[sw], sum1);
            sum2 = fma(a[2], b[2 * sw], sum2);
            sum3 = fma(a[3], b[3 * sw], sum3);
            a += 4;
            b += 4 * sw;
          }
          for (; j < q; ++j, ++a, b += sw) sum0 = fma(*a, *b, sum0);
          __global float* to = sums + (long)(ri * s + si) * c + channel;
          STORE(LOAD(to) + ((sum0 + sum1) + (sum2 + sum3)), to);
        }
      }
    }
  }
}
