// Depthwise convolution (one filter for each channel) and its gradients.
// Layout: x [n, h, w, c], weights [r, s, c], y [n, p, q, c]; sh sw stride, ph pw padding, dh dw dilation.
// Mapping: one work-item for WIDTH neighbouring channels of a pixel; for the weight gradient, of a tap and one of `parts` ranges of output rows [n p],
// whose sums parts.cl adds up.
// Options: WIDTH, 16, 8 or 1; divides c. An epilogue, for y and dx.

#include "width.clh"
#include "convolution.clh"
#include "epilogue.clh"

__kernel void depthwise_forward(__global const float* x, __global const float* weights, __global float* y, GEOMETRY EPILOGUE_PARAMETERS) {
  const long i = get_global_id(0);
  const int blocks = c / WIDTH;
  if (i >= (long)n * p * q * blocks) return;
  const int channel = i % blocks * WIDTH, qi = i / blocks % q, pi = i / blocks / q % p;
  const long image = i / blocks / q / p;
  real total = 0;
  for (int ri = 0; ri < r; ++ri) {
    const int hi = pi * sh + ri * dh - ph;
    if (hi < 0 || hi >= h) continue;
    for (int si = 0; si < s; ++si) {
      const int wi = qi * sw + si * dw - pw;
      if (wi < 0 || wi >= w) continue;
      total += LOAD(x + ((image * h + hi) * w + wi) * c + channel) * LOAD(weights + (long)(ri * s + si) * c + channel);
    }
  }
  STORE(total, y + i * WIDTH);
  FINISH(y, i * WIDTH, WIDTH, 1, channel, WIDTH)
}

__kernel void depthwise_input_gradient(__global const float* dy, __global const float* weights, __global float* dx, GEOMETRY
                                       EPILOGUE_PARAMETERS) {
  const long i = get_global_id(0);
  const int blocks = c / WIDTH;
  if (i >= (long)n * h * w * blocks) return;
  const int channel = i % blocks * WIDTH, wi = i / blocks % w, hi = i / blocks / w % h;
  const long image = i / blocks / w / h;
  real total = 0;
  for (int ri = 0; ri < r; ++ri) {
    const int row = hi + ph - ri * dh;
    if (row < 0 || row % sh || row / sh >= p) continue;
    for (int si = 0; si < s; ++si) {
      const int column = wi + pw - si * dw;
      if (column < 0 || column % sw || column / sw >= q) continue;
      total += LOAD(dy + ((image * p + row / sh) * q + column / sw) * c + channel) * LOAD(weights + (long)(ri * s + si) * c + channel);
    }
  }
  STORE(total, dx + i * WIDTH);
  FINISH(dx, i * WIDTH, WIDTH, 1, channel, WIDTH)
}

__kernel void depthwise_weight_gradient(__global const float* dy, __global const float* x, __global float* partial, GEOMETRY,
                                        const long parts) {
  const long i = get_global_id(0);
  const int blocks = c / WIDTH;
  if (i >= parts * r * s * blocks) return;
  const int channel = i % blocks * WIDTH, si = i / blocks % s, ri = i / blocks / s % r;
  const long part = i / blocks / s / r, rows = (long)n * p;
  const long row_begin = part * rows / parts, row_end = (part + 1) * rows / parts;
  real total = 0;
  for (long row = row_begin; row < row_end; ++row) {
    const int hi = row % p * sh + ri * dh - ph;
    if (hi < 0 || hi >= h) continue;
    real of_row = 0;
    for (int qi = 0; qi < q; ++qi) {
      const int wi = qi * sw + si * dw - pw;
      if (wi < 0 || wi >= w) continue;
      of_row += LOAD(dy + (row * q + qi) * c + channel) * LOAD(x + ((row / p * h + hi) * w + wi) * c + channel);
    }
    total += of_row;
  }
  STORE(total, partial + i * WIDTH);
}
