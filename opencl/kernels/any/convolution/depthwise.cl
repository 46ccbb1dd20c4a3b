// Depthwise convolution (one filter for each channel) and its gradients.
// Layout: x [n, h, w, c], weights [r, s, c], y [n, p, q, c]; sh sw stride, ph pw padding, dh dw dilation.
// Mapping: one work-item for WIDTH neighbouring channels of a pixel, along the first dimension those of a row of the result, which lie in that order, along the
// others its rows and images. For the weight gradient: channels, taps, and `parts` ranges of output rows [n p], whose sums parts.cl adds up.
// An image has less than 2^31 elements, so that places in it are ints; 64-bit arithmetic takes GPUs several instructions, and a division dozens.
// Options: WIDTH, 16, 8 or 1; divides c. An epilogue, for y and dx.

#include "lib/elements.clh"
#include "lib/ops/convolution.clh"
#include "lib/epilogue.clh"

/// Where drivers take fewer groups along a dimension than there are, an item has several.
#define EACH(i, dimension, count) for (int i = get_global_id(dimension); i < (count); i += get_global_size(dimension))

__kernel void depthwise_forward(__global const float* x, __global const float* weights, __global float* y, GEOMETRY EPILOGUE_PARAMETERS) {
  const int blocks = c / WIDTH, item = get_global_id(0);
  if (item >= q * blocks) return;
  const int qi = item / blocks, channel = (item - qi * blocks) * WIDTH;
  EACH(image, 2, n) {
    __global const float* from = x + (long)image * h * w * c + channel;
    EACH(pi, 1, p) {
      real total = 0;
      for (int ri = 0; ri < r; ++ri) {
        const int hi = pi * sh + ri * dh - ph;
        if (hi < 0 || hi >= h) continue;
        for (int si = 0; si < s; ++si) {
          const int wi = qi * sw + si * dw - pw;
          if (wi < 0 || wi >= w) continue;
          total += LOAD(from + (hi * w + wi) * c) * LOAD(weights + (ri * s + si) * c + channel);
        }
      }
      const long to = ((long)image * p + pi) * q * c + item * WIDTH;
      STORE(total, y + to);
      FINISH(y, to, WIDTH, 1, channel, WIDTH)
    }
  }
}

__kernel void depthwise_input_gradient(__global const float* dy, __global const float* weights, __global float* dx, GEOMETRY
                                       EPILOGUE_PARAMETERS) {
  const int blocks = c / WIDTH, item = get_global_id(0);
  if (item >= w * blocks) return;
  const int wi = item / blocks, channel = (item - wi * blocks) * WIDTH;
  EACH(image, 2, n) {
    __global const float* from = dy + (long)image * p * q * c + channel;
    EACH(hi, 1, h) {
      real total = 0;
      for (int ri = 0; ri < r; ++ri) {
        const int row = hi + ph - ri * dh, pi = sh == 1 ? row : row / sh;
        if (row < 0 || pi * sh != row || pi >= p) continue;
        for (int si = 0; si < s; ++si) {
          const int column = wi + pw - si * dw, qi = sw == 1 ? column : column / sw;
          if (column < 0 || qi * sw != column || qi >= q) continue;
          total += LOAD(from + (pi * q + qi) * c) * LOAD(weights + (ri * s + si) * c + channel);
        }
      }
      const long to = ((long)image * h + hi) * w * c + item * WIDTH;
      STORE(total, dx + to);
      FINISH(dx, to, WIDTH, 1, channel, WIDTH)
    }
  }
}

__kernel void depthwise_weight_gradient(__global const float* dy, __global const float* x, __global float* partial, GEOMETRY,
                                        const long parts) {
  const int channel = get_global_id(0) * WIDTH, tap = get_global_id(1), part = get_global_id(2);
  if (channel >= c) return;
  const int ri = tap / s, si = tap - ri * s;
  const long rows = (long)n * p;
  const int row_begin = part * rows / parts, row_end = (part + 1) * rows / parts;
  int image = row_begin / p, pi = row_begin - image * p;
  real total = 0;
  for (int row = row_begin; row < row_end; ++row) {
    const int hi = pi * sh + ri * dh - ph;
    if (hi >= 0 && hi < h) {
      __global const float* from = x + ((long)image * h + hi) * w * c + channel;
      __global const float* by = dy + (long)row * q * c + channel;
      real of_row = 0;
      for (int qi = 0; qi < q; ++qi) {
        const int wi = qi * sw + si * dw - pw;
        if (wi < 0 || wi >= w) continue;
        of_row += LOAD(by + qi * c) * LOAD(from + wi * c);
      }
      total += of_row;
    }
    if (++pi == p) {
      pi = 0;
      ++image;
    }
  }
  STORE(total, partial + ((long)part * r * s + tap) * c + channel);
}
