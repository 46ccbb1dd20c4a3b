// Depthwise convolution (one filter for each channel) and its gradients.
// Layout: x [n, h, w, c], weights [r, s, c], y [n, p, q, c]; sh sw stride, ph pw padding, dh dw dilation.
// Mapping: lib/pixels.clh, of the result. For the weight gradient: channels, taps, and `parts` ranges of output rows [n p], whose sums parts.cl adds up.
// Options: WIDTH, 16, 8 or 1; divides c. An epilogue, for y and dx.

#include "lib/elements.clh"
#include "lib/ops/convolution.clh"
#include "lib/epilogue.clh"
#include "lib/pixels.clh"

__kernel void depthwise_forward(__global const float* x, __global const float* weights, __global float* y, GEOMETRY EPILOGUE_PARAMETERS) {
  EACH_PIXEL(n, p, q) {
    __global const float* from = IMAGE(x, h, w);
    real total = 0;
    for (int ri = 0; ri < r; ++ri) {
      const int hi = row * sh + ri * dh - ph;
      if (hi < 0 || hi >= h) continue;
      for (int si = 0; si < s; ++si) {
        const int wi = column * sw + si * dw - pw;
        if (wi < 0 || wi >= w) continue;
        total += LOAD(from + (hi * w + wi) * c) * LOAD(weights + (ri * s + si) * c + channel);
      }
    }
    const long to = PIXEL(p, q);
    STORE(total, y + to);
    FINISH(y, to, WIDTH, 1, channel, WIDTH)
  }
}

__kernel void depthwise_input_gradient(__global const float* dy, __global const float* weights, __global float* dx, GEOMETRY
                                       EPILOGUE_PARAMETERS) {
  EACH_PIXEL(n, h, w) {
    __global const float* from = IMAGE(dy, p, q);
    real total = 0;
    for (int ri = 0; ri < r; ++ri) {
      const int from_row = row + ph - ri * dh, pi = sh == 1 ? from_row : from_row / sh;
      if (from_row < 0 || pi * sh != from_row || pi >= p) continue;
      for (int si = 0; si < s; ++si) {
        const int from_column = column + pw - si * dw, qi = sw == 1 ? from_column : from_column / sw;
        if (from_column < 0 || qi * sw != from_column || qi >= q) continue;
        total += LOAD(from + (pi * q + qi) * c) * LOAD(weights + (ri * s + si) * c + channel);
      }
    }
    const long to = PIXEL(h, w);
    STORE(total, dx + to);
    FINISH(dx, to, WIDTH, 1, channel, WIDTH)
  }
}

__kernel void depthwise_weight_gradient(__global const float* dy, __global const float* x, __global float* partial, GEOMETRY,
                                        const int parts) {
  const int channel = get_global_id(0) * WIDTH, tap = get_global_id(1), part = get_global_id(2);
  if (channel >= c) return;
  const int ri = tap / s, si = tap - ri * s;
  const int row_begin = part_begin(part, parts, n * p), row_end = part_begin(part + 1, parts, n * p);
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
