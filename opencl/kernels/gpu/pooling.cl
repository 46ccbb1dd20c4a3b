// Pooling over windows of r x s taps, and its gradients, where work-items run side by side.
// Layout: x [n, h, w, c], y [n, p, q, c]; sh sw stride, ph pw padding, dh dw dilation. tap: row * s + column in the window.
// Mapping: lib/pixels.clh, of the result. Gradients gather from the windows that cover a pixel, so that no two items add to one element.
// Options: WIDTH, 4 or 1; divides c.

#include "lib/elements.clh"
#include "lib/ops/pooling.clh"
#include "lib/pixels.clh"

static inline int is_inside(int i, int extent) { return (uint)i < (uint)extent; }

__kernel void max_pool(__global const float* x, __global float* y, __global int* tap, GEOMETRY, const int images) {
  EACH_PIXEL(images, p, q) {
    __global const float* from = IMAGE(x, h, w);
    real best = -INFINITY;
    whole at = -1;  // the first tap inside the image wins where all are -INFINITY
    for (int ri = 0; ri < r; ++ri) {
      const int hi = row * sh - ph + ri * dh;
      if (!is_inside(hi, h)) continue;
      for (int si = 0; si < s; ++si) {
        const int wi = column * sw - pw + si * dw;
        if (!is_inside(wi, w)) continue;
        const real v = LOAD(from + (hi * w + wi) * c);
        const whole wins = (v > best) | (v != v) | (at < 0);
        best = select(best, v, wins);
        at = select(at, (whole)(ri * s + si), wins);
      }
    }
    const long to = PIXEL(p, q);
    STORE(best, y + to);
    STORE(at, tap + to);
  }
}

__kernel void max_pool_pick(__global const float* x, __global const int* tap, __global float* y, GEOMETRY, const int images) {
  EACH_PIXEL(images, p, q) {
    __global const float* from = IMAGE(x, h, w);
    const long to = PIXEL(p, q);
    const whole at = LOAD(tap + to);
    real picked = 0;
    for (int ri = 0; ri < r; ++ri) {
      const int hi = row * sh - ph + ri * dh;
      if (!is_inside(hi, h)) continue;
      for (int si = 0; si < s; ++si) {
        const int wi = column * sw - pw + si * dw;
        if (is_inside(wi, w)) picked = select(picked, LOAD(from + (hi * w + wi) * c), at == (whole)(ri * s + si));
      }
    }
    STORE(picked, y + to);
  }
}

/// Begins a loop over the windows that may cover element i of an image's axis, from the last one on, and declares for each the tap at or before i. Windows
/// are `stride` apart, their taps `dilation`.
#define EACH_WINDOW(window, tap, i, taps, windows, stride, padding, dilation) \
  for (int window = min(((i) + (padding)) / (stride), (windows) - 1), tap; \
       window >= 0 && (tap = quotient((i) + (padding) - window * (stride), dilation)) < (taps); --window)
/// Whether that tap is at i.
#define COVERS(window, tap, i, stride, padding, dilation) ((tap) * (dilation) == (i) + (padding) - (window) * (stride))

static inline int quotient(int a, int b) { return b == 1 ? a : a / b; }

__kernel void max_pool_gradient(__global const float* dy, __global const int* tap, __global float* dx, GEOMETRY, const int images) {
  EACH_PIXEL(images, h, w) {
    __global const float* from = IMAGE(dy, p, q);
    __global const int* from_tap = IMAGE(tap, p, q);
    real total = 0;
    EACH_WINDOW(pi, ri, row, r, p, sh, ph, dh) {
      if (!COVERS(pi, ri, row, sh, ph, dh)) continue;
      EACH_WINDOW(qi, si, column, s, q, sw, pw, dw) {
        if (!COVERS(qi, si, column, sw, pw, dw)) continue;
        const int place = (pi * q + qi) * c;
        total += select((real)(0), LOAD(from + place), LOAD(from_tap + place) == (whole)(ri * s + si));
      }
    }
    STORE(total, dx + PIXEL(h, w));
  }
}

__kernel void avg_pool(__global const float* x, __global float* y, GEOMETRY, const int count_padding, const int images) {
  EACH_PIXEL(images, p, q) {
    __global const float* from = IMAGE(x, h, w);
    const int h0 = row * sh - ph, w0 = column * sw - pw;
    real total = 0;
    for (int hi = max(h0, 0); hi < min(h0 + r, h); ++hi)
      for (int wi = max(w0, 0); wi < min(w0 + s, w); ++wi) total += LOAD(from + (hi * w + wi) * c);
    const int count = count_along(h0, r, h, ph, count_padding) * count_along(w0, s, w, pw, count_padding);
    STORE(total / (float)count, y + PIXEL(p, q));
  }
}

__kernel void avg_pool_gradient(__global const float* dy, __global float* dx, GEOMETRY, const int count_padding, const int images) {
  EACH_PIXEL(images, h, w) {
    __global const float* from = IMAGE(dy, p, q);
    real total = 0;
    EACH_WINDOW(pi, ri, row, r, p, sh, ph, 1) {
      const int rows = count_along(pi * sh - ph, r, h, ph, count_padding);
      EACH_WINDOW(qi, si, column, s, q, sw, pw, 1) {
        const int count = rows * count_along(qi * sw - pw, s, w, pw, count_padding);
        total += LOAD(from + (pi * q + qi) * c) / (float)count;
      }
    }
    STORE(total, dx + PIXEL(h, w));
  }
}

/// Window j of `to` that split `extent` evenly: [begin, end). Their product is less than 2^31.
static inline int even_begin(int j, int extent, int to) { return (uint)(j * extent) / (uint)to; }
static inline int even_end(int j, int extent, int to) { return ((uint)((j + 1) * extent) + to - 1) / (uint)to; }

__kernel void adaptive_pool(__global const float* x, __global float* y, const int h, const int w, const int c, const int p, const int q,
                            const int images) {
  EACH_PIXEL(images, p, q) {
    __global const float* from = IMAGE(x, h, w);
    const int h0 = even_begin(row, h, p), h1 = even_end(row, h, p), w0 = even_begin(column, w, q), w1 = even_end(column, w, q);
    real total = 0;
    for (int hi = h0; hi < h1; ++hi) {
      real of_row = 0;
      for (int wi = w0; wi < w1; ++wi) of_row += LOAD(from + (hi * w + wi) * c);
      total += of_row;
    }
    STORE(total / (float)((h1 - h0) * (w1 - w0)), y + PIXEL(p, q));
  }
}

/// Seen from the image, the windows over a pixel are an even split the other way round.
__kernel void adaptive_pool_gradient(__global const float* dy, __global float* dx, const int h, const int w, const int c, const int p,
                                     const int q, const int images) {
  EACH_PIXEL(images, h, w) {
    __global const float* from = IMAGE(dy, p, q);
    real total = 0;
    for (int pi = even_begin(row, p, h); pi < even_end(row, p, h); ++pi) {
      const int rows = even_end(pi, h, p) - even_begin(pi, h, p);
      for (int qi = even_begin(column, q, w); qi < even_end(column, q, w); ++qi) {
        const int count = rows * (even_end(qi, w, q) - even_begin(qi, w, q));
        total += LOAD(from + (pi * q + qi) * c) / (float)count;
      }
    }
    STORE(total, dx + PIXEL(h, w));
  }
}
