// Depthwise convolution (one filter for each channel) and its gradients on GPUs, by a window in registers: what it slides over is read once a row of it.
// Layout: x [n, h, w, c], weights [r, s, c], y [n, p, q, c]; ph pw padding.
// Mapping: for y and dx a work-item has RUN neighbouring pixels of a row; along the first dimension of the range lie channels, then runs, along the others
// rows and images. For the weight gradient: channels, and `parts` ranges of output rows [n p], whose sums parts.cl adds up.
// Options: WINDOW_ROWS, WINDOW_COLUMNS; ROW_STRIDE, COLUMN_STRIDE; RUN; FORWARD: 1, or 0 for dx where the strides are 1, which is dy under the window turned
// around; SUB_GROUP, as in loops.clh. An epilogue, for y and dx.

#include "lib/epilogue.clh"
#include "lib/loops.clh"
#include "lib/ops/convolution.clh"

#define TAPS (WINDOW_ROWS * WINDOW_COLUMNS)
#define COVERED ((RUN - 1) * COLUMN_STRIDE + WINDOW_COLUMNS)  // columns that the windows of a run lie over
#if FORWARD
#define IN_HEIGHT h
#define IN_WIDTH w
#define OUT_HEIGHT p
#define OUT_WIDTH q
#define TOP ph
#define LEFT pw
#define TAP(i) (i)
#else
#define IN_HEIGHT p
#define IN_WIDTH q
#define OUT_HEIGHT h
#define OUT_WIDTH w
#define TOP (WINDOW_ROWS - 1 - ph)
#define LEFT (WINDOW_COLUMNS - 1 - pw)
#define TAP(i) (TAPS - 1 - (i))
#endif

__kernel FEW_IN_LOCKSTEP void depthwise_window(__global const float* restrict in, __global const float* restrict weights, __global float* restrict out,
                                               GEOMETRY EPILOGUE_PARAMETERS) {
  const int item = get_global_id(0), run = item / c, channel = item - run * c, first = run * RUN;
  if (first >= OUT_WIDTH) return;
  float taps[TAPS];
  UNROLLED (int i = 0; i < TAPS; ++i) taps[i] = weights[TAP(i) * c + channel];
  for (int image = get_global_id(2); image < n; image += get_global_size(2))
    for (int row = get_global_id(1); row < OUT_HEIGHT; row += get_global_size(1)) {
      float sums[RUN];
      UNROLLED (int i = 0; i < RUN; ++i) sums[i] = 0;
      UNROLLED (int ri = 0; ri < WINDOW_ROWS; ++ri) {
        const int from_row = row * ROW_STRIDE + ri - TOP;
        if (from_row < 0 || from_row >= IN_HEIGHT) continue;
        __global const float* from = in + ((long)image * IN_HEIGHT + from_row) * IN_WIDTH * c + channel;
        UNROLLED (int k = 0; k < COVERED; ++k) {
          const int column = first * COLUMN_STRIDE + k - LEFT;
          const float value = column >= 0 && column < IN_WIDTH ? from[column * c] : 0.0f;
          UNROLLED (int i = 0; i < RUN; ++i) {
            const int si = k - i * COLUMN_STRIDE;
            if (si >= 0 && si < WINDOW_COLUMNS) sums[i] = fma(value, taps[ri * WINDOW_COLUMNS + si], sums[i]);
          }
        }
      }
      const long to_row = ((long)image * OUT_HEIGHT + row) * OUT_WIDTH;
      UNROLLED (int i = 0; i < RUN; ++i) {
        const long to = (to_row + first + i) * c + channel;
        if (first + i < OUT_WIDTH) out[to] = EPILOGUE(sums[i], to, channel);
      }
    }
}

#define NEW_COLUMNS (COLUMN_STRIDE < WINDOW_COLUMNS ? COLUMN_STRIDE : WINDOW_COLUMNS)  // that the window meets at each step

/// The gradient of all taps of a channel, over a range of rows.
__kernel FEW_IN_LOCKSTEP void depthwise_window_weight_gradient(__global const float* restrict dy, __global const float* restrict x,
                                                               __global float* restrict partial, GEOMETRY, const int parts) {
  const int channel = get_global_id(0), part = get_global_id(1);
  if (channel >= c) return;
  const int row_begin = part_begin(part, parts, n * p), row_end = part_begin(part + 1, parts, n * p);
  int image = row_begin / p, pi = row_begin - image * p;
  float sums[TAPS], of_row[TAPS], window[TAPS];  // rows are added up by themselves, to keep rounding errors small
  UNROLLED (int i = 0; i < TAPS; ++i) sums[i] = 0;
  for (int row = row_begin; row < row_end; ++row) {
    __global const float* by = dy + (long)row * q * c + channel;
    __global const float* from = x + (long)image * h * w * c + channel;
    const int first_row = pi * ROW_STRIDE - ph;
    // The columns at the left of what the first step reads.
    UNROLLED (int i = 0; i < TAPS; ++i) {
      const int row_of_x = first_row + i / WINDOW_COLUMNS, column = i % WINDOW_COLUMNS - COLUMN_STRIDE - pw;
      const bool is_inside = row_of_x >= 0 && row_of_x < h && column >= 0 && column < w;
      window[i] = is_inside ? from[(row_of_x * w + column) * c] : 0.0f;
      of_row[i] = 0;
    }
    for (int qi = 0; qi < q; ++qi) {
      const float slope = by[qi * c];
      UNROLLED (int ri = 0; ri < WINDOW_ROWS; ++ri) {
        const int row_of_x = first_row + ri;
        UNROLLED (int si = 0; si < WINDOW_COLUMNS; ++si) {
          const int i = ri * WINDOW_COLUMNS + si, column = qi * COLUMN_STRIDE + si - pw;
          if (si < WINDOW_COLUMNS - NEW_COLUMNS)
            window[i] = window[i + NEW_COLUMNS];
          else
            window[i] = row_of_x >= 0 && row_of_x < h && column >= 0 && column < w ? from[(row_of_x * w + column) * c] : 0.0f;
          of_row[i] = fma(slope, window[i], of_row[i]);
        }
      }
    }
    UNROLLED (int i = 0; i < TAPS; ++i) sums[i] += of_row[i];
    if (++pi == p) {
      pi = 0;
      ++image;
    }
  }
  UNROLLED (int i = 0; i < TAPS; ++i) partial[((long)part * TAPS + i) * c + channel] = sums[i];
}
