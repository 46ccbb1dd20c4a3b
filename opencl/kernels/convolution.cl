// Convolution and its gradients by their definitions.
//   y[n,p,q,k] = sum_{r,s,c} x[n, p*sh + r*dh - ph, q*sw + s*dw - pw, c] w[r,s,c,k]
// Layout: x [n, h, w, c], weights [r, s, c / groups, k], y [n, p, q, k]; sh sw stride, ph pw padding, dh dw dilation.
// Mapping: one work-item for each result element, innermost axis first; for dweights one for each element of each part, which sums over a share of
// the rows of all images. Long sums are added in blocks (tap, row, image) to keep rounding errors small.
// Options: an epilogue, for y and dx.

#include "convolution.clh"
#include "epilogue.clh"

__kernel void conv_forward(__global const float* x, __global const float* weights, __global float* y, GEOMETRY, const int groups
                           EPILOGUE_PARAMETERS) {
  const long i = get_global_id(0);
  if (i >= (long)n * p * q * k) return;
  const int filter = i % k, qi = i / k % q, pi = i / k / q % p;
  const long image = i / k / q / p;
  const int cg = c / groups;
  const int first = filter / (k / groups) * cg;
  float total = 0;
  for (int ri = 0; ri < r; ++ri)
    for (int si = 0; si < s; ++si) {
      const int hi = pi * sh + ri * dh - ph, wi = qi * sw + si * dw - pw;
      if (hi < 0 || hi >= h || wi < 0 || wi >= w) continue;
      __global const float* from = x + ((image * h + hi) * w + wi) * c + first;
      __global const float* by = weights + (long)(ri * s + si) * cg * k + filter;
      float part = 0;
      for (int ci = 0; ci < cg; ++ci) part += from[ci] * by[(long)ci * k];
      total += part;
    }
  y[i] = EPILOGUE(total, i, filter);
}

__kernel void conv_input_gradient(__global const float* dy, __global const float* weights, __global float* dx, GEOMETRY, const int groups
                                  EPILOGUE_PARAMETERS) {
  const long i = get_global_id(0);
  if (i >= (long)n * h * w * c) return;
  const int channel = i % c, wi = i / c % w, hi = i / c / w % h;
  const long image = i / c / w / h;
  const int cg = c / groups, kg = k / groups;
  const int first = channel / cg * kg;
  float total = 0;
  for (int ri = 0; ri < r; ++ri)
    for (int si = 0; si < s; ++si) {
      const int hp = hi + ph - ri * dh, wq = wi + pw - si * dw;
      if (hp < 0 || hp % sh || hp / sh >= p || wq < 0 || wq % sw || wq / sw >= q) continue;
      __global const float* from = dy + ((image * p + hp / sh) * q + wq / sw) * k + first;
      __global const float* by = weights + ((long)(ri * s + si) * cg + channel % cg) * k + first;
      float part = 0;
      for (int ki = 0; ki < kg; ++ki) part += from[ki] * by[ki];
      total += part;
    }
  dx[i] = EPILOGUE(total, i, channel);
}

__kernel void conv_weight_gradient(__global const float* dy, __global const float* x, __global float* dweights, GEOMETRY, const int groups,
                                   const long parts, const int adds) {
  const int cg = c / groups;
  const long elements = (long)r * s * cg * k, i = get_global_id(0) % elements, part = get_global_id(0) / elements;
  if (part >= parts) return;
  const int filter = i % k, tap = i / k / cg;
  const int channel = filter / (k / groups) * cg + i / k % cg;
  const int ri = tap / s, si = tap % s;
  const long last = (part + 1) * n * p / parts;
  float total = 0;
  for (long row = part * n * p / parts; row < last;) {
    const long image = row / p, end = min((image + 1) * p, last);
    float of_image = 0;
    for (; row < end; ++row) {
      const int pi = row - image * p;
      const int hi = pi * sh + ri * dh - ph;
      if (hi < 0 || hi >= h) continue;
      float of_row = 0;
      for (int qi = 0; qi < q; ++qi) {
        const int wi = qi * sw + si * dw - pw;
        if (wi < 0 || wi >= w) continue;
        of_row += x[((image * h + hi) * w + wi) * c + channel] * dy[((image * p + pi) * q + qi) * k + filter];
      }
      of_image += of_row;
    }
    total += of_image;
  }
  __global float* to = dweights + get_global_id(0);
  *to = adds ? *to + total : total;
}
