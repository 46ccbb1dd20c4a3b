// Pooling over windows of r x s taps, and its gradients.
// Layout: x [n, h, w, c], y [n, p, q, c]; sh sw stride, ph pw padding, dh dw dilation. tap: row * s + column in the window.
// Mapping: one work-item for SPAN vectors of the result, of WIDTH channels of one pixel each; or, with FIXED channels and a small window, for one row
// of the result, as a loop that the compiler vectorises (for CPUs and few channels). Gradients gather: an input pixel reads all windows that cover it,
// so that no two items add to one element.
// Options: WIDTH, 16, 8 or 1; SPAN. Or WIDTH 1 and FIXED_C, FIXED_R, ... for channels and window, for images of any extents, and
// TILED_H, TILED_W: 1 if windows are adjacent and inside of the image along that axis.

#include "lib/loops.clh"
#include "lib/elements.clh"
#include "lib/ops/pooling.clh"

#ifdef FIXED_C
enum { c = FIXED_C, r = FIXED_R, s = FIXED_S, sh = FIXED_SH, sw = FIXED_SW, ph = FIXED_PH, pw = FIXED_PW, dh = FIXED_DH, dw = FIXED_DW };
#undef GEOMETRY
#define GEOMETRY \
  const int n, const int h, const int w, const int c_, const int p, const int q, const int r_, const int s_, \
  const int sh_, const int sw_, const int ph_, const int pw_, const int dh_, const int dw_
#else
#define TILED_H 0
#define TILED_W 0
#endif

/// For each vector of this work-item, in a result of `height` x `width` pixels: PLACE declares its number i, and its channel, column, row
/// and image.
#ifdef FIXED_C
#define EACH_VECTOR(height, width) \
  const long line = get_global_id(0), image = line / (height), first = line * (width) * c; \
  const int row = line % (height), columns = first < items ? (width) : 0; \
  for (int column = 0; column < columns; ++column) \
    INDEPENDENT \
    for (int channel = 0; channel < c; ++channel)
#define PLACE const long i = first + column * c + channel;
#define EACH_TAP UNROLLED
#else
#define PLACE
#define EACH_TAP for
#define EACH_VECTOR(height, width) \
  const int blocks = c / WIDTH; \
  long i = get_global_id(0) * SPAN; \
  const long end = min(i + SPAN, items); \
  int channel = i % blocks * WIDTH, column = i / blocks % (width), row = i / blocks / (width) % (height); \
  long image = i / blocks / (width) / (height); \
  for (; i < end; ++i, next_vector(&channel, &column, &row, &image, c, width, height))
#endif

#define OUTSIDE(tiled, i, extent) (!(tiled) && ((i) < 0 || (i) >= (extent)))

static inline void next_vector(int* channel, int* column, int* row, long* image, int c, int width, int height) {
  if ((*channel += WIDTH) < c) return;
  *channel = 0;
  if (++*column < width) return;
  *column = 0;
  if (++*row < height) return;
  *row = 0;
  ++*image;
}

__kernel void max_pool(__global const float* x, __global float* y, __global int* tap, GEOMETRY, const long items) {
  EACH_VECTOR(p, q) {
    PLACE
    real best = -INFINITY;
    whole at = -1;  // the first tap inside the image wins where all are -INFINITY
    EACH_TAP (int ri = 0; ri < r; ++ri) {
      const int hi = row * sh - ph + ri * dh;
      if (OUTSIDE(TILED_H, hi, h)) continue;
      EACH_TAP (int si = 0; si < s; ++si) {
        const int wi = column * sw - pw + si * dw;
        if (OUTSIDE(TILED_W, wi, w)) continue;
        const real v = LOAD(x + ((image * h + hi) * w + wi) * c + channel);
        const whole wins = (v > best) | (v != v) | (at < 0);
        best = select(best, v, wins);
        at = select(at, (whole)(ri * s + si), wins);
      }
    }
    STORE(best, y + i * WIDTH);
    STORE(at, tap + i * WIDTH);
  }
}

__kernel void max_pool_gradient(__global const float* dy, __global const int* tap, __global float* dx, GEOMETRY, const long items) {
  EACH_VECTOR(h, w) {
    PLACE
    real total = 0;
    EACH_TAP (int ri = 0; ri < r; ++ri) {
      const int from_row = row + ph - ri * dh;
      if (from_row % sh || OUTSIDE(TILED_H, from_row / sh, p)) continue;
      EACH_TAP (int si = 0; si < s; ++si) {
        const int from_column = column + pw - si * dw;
        if (from_column % sw || OUTSIDE(TILED_W, from_column / sw, q)) continue;
        const long from = ((image * p + from_row / sh) * q + from_column / sw) * c + channel;
        total += select((real)(0), LOAD(dy + from), LOAD(tap + from) == (whole)(ri * s + si));
      }
    }
    STORE(total, dx + i * WIDTH);
  }
}

__kernel void max_pool_pick(__global const float* x, __global const int* tap, __global float* y, GEOMETRY, const long items) {
  EACH_VECTOR(p, q) {
    PLACE
    const whole at = LOAD(tap + i * WIDTH);
    real picked = 0;
    EACH_TAP (int ri = 0; ri < r; ++ri) {
      const int hi = row * sh - ph + ri * dh;
      if (OUTSIDE(TILED_H, hi, h)) continue;
      EACH_TAP (int si = 0; si < s; ++si) {
        const int wi = column * sw - pw + si * dw;
        if (OUTSIDE(TILED_W, wi, w)) continue;
        picked = select(picked, LOAD(x + ((image * h + hi) * w + wi) * c + channel), at == (whole)(ri * s + si));
      }
    }
    STORE(picked, y + i * WIDTH);
  }
}

__kernel void avg_pool(__global const float* x, __global float* y, GEOMETRY, const int count_padding, const long items) {
  EACH_VECTOR(p, q) {
    PLACE
    const int h0 = row * sh - ph, w0 = column * sw - pw;
    real total = 0;
    for (int hi = max(h0, 0); hi < min(h0 + r, h); ++hi)
      for (int wi = max(w0, 0); wi < min(w0 + s, w); ++wi) total += LOAD(x + ((image * h + hi) * w + wi) * c + channel);
    const int count = count_along(h0, r, h, ph, count_padding) * count_along(w0, s, w, pw, count_padding);
    STORE(total / (float)count, y + i * WIDTH);
  }
}

__kernel void avg_pool_gradient(__global const float* dy, __global float* dx, GEOMETRY, const int count_padding, const long items) {
  EACH_VECTOR(h, w) {
    PLACE
    real total = 0;
    EACH_TAP (int ri = 0; ri < r; ++ri) {
      const int from_row = row + ph - ri;
      if (from_row % sh || OUTSIDE(TILED_H, from_row / sh, p)) continue;
      const int rows = count_along(from_row - ph, r, h, ph, count_padding);
      EACH_TAP (int si = 0; si < s; ++si) {
        const int from_column = column + pw - si;
        if (from_column % sw || OUTSIDE(TILED_W, from_column / sw, q)) continue;
        const int count = rows * count_along(from_column - pw, s, w, pw, count_padding);
        total += LOAD(dy + ((image * p + from_row / sh) * q + from_column / sw) * c + channel) / (float)count;
      }
    }
    STORE(total, dx + i * WIDTH);
  }
}

/// Window j of `to` that split `extent` evenly: [begin, end).
static inline int even_begin(int j, int extent, int to) { return extent == 1 || to == 1 ? 0 : (long)j * extent / to; }
static inline int even_end(int j, int extent, int to) { return extent == 1 || to == 1 ? extent : ((long)(j + 1) * extent + to - 1) / to; }

__kernel void adaptive_pool(__global const float* x, __global float* y, const int h, const int w, const int c, const int p, const int q,
                            const long items) {
  EACH_VECTOR(p, q) {
    PLACE
    const int h0 = even_begin(row, h, p), h1 = even_end(row, h, p), w0 = even_begin(column, w, q), w1 = even_end(column, w, q);
    real total = 0;
    for (int hi = h0; hi < h1; ++hi) {
      real of_row = 0;
      for (int wi = w0; wi < w1; ++wi) of_row += LOAD(x + ((image * h + hi) * w + wi) * c + channel);
      total += of_row;
    }
    STORE(total / (float)((h1 - h0) * (w1 - w0)), y + i * WIDTH);
  }
}

/// Seen from the image, the windows over a pixel are an even split the other way round.
__kernel void adaptive_pool_gradient(__global const float* dy, __global float* dx, const int h, const int w, const int c, const int p,
                                     const int q, const long items) {
  EACH_VECTOR(h, w) {
    PLACE
    real total = 0;
    for (int pi = even_begin(row, p, h); pi < even_end(row, p, h); ++pi) {
      const int rows = even_end(pi, h, p) - even_begin(pi, h, p);
      for (int qi = even_begin(column, q, w); qi < even_end(column, q, w); ++qi) {
        const int count = rows * (even_end(qi, w, q) - even_begin(qi, w, q));
        total += LOAD(dy + ((image * p + pi) * q + qi) * c + channel) / (float)count;
      }
    }
    STORE(total, dx + i * WIDTH);
  }
}
