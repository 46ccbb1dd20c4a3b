// im2col and col2im, for convolution as a matrix product: patches of x are the rows of a matrix [pixels, r s c].
//   im2col: columns[j, (ri, si, ci)] = x under output pixel begin + j at tap (ri, si), 0 in the padding
//   col2im: dx[n,h,w,c] (+)= sum over taps of the rows begin .. begin + rows - 1 that cover (h, w)
// Layout: x [n, h, w, c]; output pixels are counted over [n, p, q]; sh sw stride, ph pw padding, dh dw dilation.
// Mapping: one work-item for WIDTH neighbouring channels. col2im gathers, so that no two items add to one element; a pixel of an image that began in
// an earlier block of rows adds to the result of that block.
// Options: WIDTH, 16, 4 or 1; divides c.

#include "width.clh"
#include "convolution.clh"

__kernel void im2col(__global const float* x, __global float* columns, GEOMETRY, const long begin, const long rows) {
  const long i = get_global_id(0);
  const int blocks = c / WIDTH, taps = r * s;
  if (i >= rows * taps * blocks) return;
  const int channel = i % blocks * WIDTH, tap = i / blocks % taps;
  const long pixel = begin + i / blocks / taps;
  const int hi = pixel / q % p * sh + tap / s * dh - ph, wi = pixel % q * sw + tap % s * dw - pw;
  real v = 0;
  if (hi >= 0 && hi < h && wi >= 0 && wi < w) v = LOAD(x + ((pixel / q / p * h + hi) * w + wi) * c + channel);
  STORE(v, columns + i * WIDTH);
}

__kernel void col2im(__global const float* columns, __global float* dx, GEOMETRY, const long begin, const long rows, const long first_image,
                     const long images) {
  const long i = get_global_id(0);
  const int blocks = c / WIDTH;
  if (i >= images * h * w * blocks) return;
  const int channel = i % blocks * WIDTH, wi = i / blocks % w, hi = i / blocks / w % h;
  const long image = first_image + i / blocks / w / h;
  __global float* to = dx + ((image * h + hi) * w + wi) * c + channel;
  real total = 0;
  if (image * p * q < begin) total = LOAD(to);
  for (int ri = 0; ri < r; ++ri) {
    const int row = hi + ph - ri * dh;
    if (row < 0 || row % sh || row / sh >= p) continue;
    for (int si = 0; si < s; ++si) {
      const int column = wi + pw - si * dw;
      if (column < 0 || column % sw || column / sw >= q) continue;
      const long j = (image * p + row / sh) * q + column / sw - begin;
      if (j >= 0 && j < rows) total += LOAD(columns + ((j * r + ri) * s + si) * c + channel);
    }
  }
  STORE(total, to);
}
