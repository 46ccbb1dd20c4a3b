// im2col and col2im, for convolution as a matrix product: patches of x are the rows of a matrix [pixels, r s c].
//   im2col: columns[j, (ri, si, ci)] = x under output pixel begin + j at tap (ri, si), 0 in the padding
//   col2im: dx[n,h,w,c] (+)= sum over taps of the rows begin .. begin + rows - 1 that cover (h, w)
// Layout: x [n, h, w, c]; output pixels are counted over [n, p, q]; sh sw stride, ph pw padding, dh dw dilation.
// Mapping: im2col: one work-item for WIDTH neighbouring elements of the matrix. col2im: lib/pixels.clh, of the images that the rows cover. It gathers, so
// that no two items add to one element; a pixel of an image that began in an earlier block of rows adds to the result of that block.
// The block of im2col and an image of col2im have less than 2^31 elements.
// Options: WIDTH, 16, 4 or 1; divides c.

#include "lib/elements.clh"
#include "lib/ops/convolution.clh"
#include "lib/pixels.clh"

/// @param image, row, column  of the first output pixel
__kernel void im2col(__global const float* x, __global float* columns, GEOMETRY, const int image, const int row, const int column, const int rows) {
  const uint i = get_global_id(0), blocks = c / WIDTH, place = i / blocks, pixel = place / (uint)(r * s);
  if (pixel >= (uint)rows) return;
  const int channel = (i - place * blocks) * WIDTH, tap = place - pixel * (r * s), ri = tap / s, si = tap - ri * s;
  const uint places = column + pixel, line = places / (uint)q, lines = row + line, images = lines / (uint)p;
  const int hi = (int)(lines - images * p) * sh + ri * dh - ph, wi = (int)(places - line * q) * sw + si * dw - pw;
  real v = 0;
  if (hi >= 0 && hi < h && wi >= 0 && wi < w) v = LOAD(x + (((long)(image + images) * h + hi) * w + wi) * c + channel);
  STORE(v, columns + i * WIDTH);
}

__kernel void col2im(__global const float* columns, __global float* dx, GEOMETRY, const long begin, const long rows, const int first_image,
                     const int images) {
  dx += (long)first_image * h * w * c;
  EACH_PIXEL(images, h, w) {
    const long pixels = (long)(first_image + image) * p * q;  // before this image
    __global float* to = dx + PIXEL(h, w);
    real total = 0;
    if (pixels < begin) total = LOAD(to);
    for (int ri = 0; ri < r; ++ri) {
      const int from_row = row + ph - ri * dh, pi = sh == 1 ? from_row : from_row / sh;
      if (from_row < 0 || pi * sh != from_row || pi >= p) continue;
      for (int si = 0; si < s; ++si) {
        const int from_column = column + pw - si * dw, qi = sw == 1 ? from_column : from_column / sw;
        if (from_column < 0 || qi * sw != from_column || qi >= q) continue;
        const long j = pixels + pi * q + qi - begin;
        if (j >= 0 && j < rows) total += LOAD(columns + ((j * r + ri) * s + si) * c + channel);
      }
    }
    STORE(total, to);
  }
}
