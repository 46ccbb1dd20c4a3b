// Preparation of recurrent layers. Legend: recurrent.clh.
// recurrent_order: checks lengths and sorts the sequences from longest to shortest. One work-item for each sequence.
// recurrent_pack, recurrent_pack_turned: pack the weight [H, G H] into panels for the kernels, padded with zeros. One work-item for each panel.
//   packed:  panel u is [H][G][WIDTH]: of each gate the columns from u WIDTH on, so that a tile has all gates of a hidden unit
//   turned:  panel u is [G PADDED][COLUMNS]: the rows of the weight from u COLUMNS on, as columns
// Options: those of recurrent.clh.
#include "index.clh"
#include "recurrent.clh"

#if WIDTH == 1
static inline long in_range_or_0(long length, long steps) { return in_range(length, steps + 1) ? length : 0; }

__kernel void recurrent_order(__global const long* given, __global long* lengths, __global long* order, __global int* error, const long sequences,
                              const long steps) {
  const long n = get_global_id(0);
  if (n >= sequences) return;
  if (!in_range(given[n], steps + 1)) report_as(LENGTH_OUT_OF_RANGE, given[n], steps + 1, error);
  const long mine = in_range_or_0(given[n], steps);
  long longer = 0;
  for (long m = 0; m < sequences; ++m) {
    const long other = in_range_or_0(given[m], steps);
    longer += other > mine || (other == mine && m < n);
  }
  lengths[n] = mine;
  order[longer] = n;
}
#else
#include "transpose_block.clh"

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void recurrent_pack(__global const float* weight, __global float* panels, const long hidden, const long gates, const long padded) {
  const long unit = get_group_id(0) * WIDTH;
  __global float* to = panels + get_group_id(0) * hidden * COLUMNS;
  for (long k = 0; k < hidden; ++k, to += COLUMNS)
    for (long g = 0; g < gates; ++g) STORE(load_first(weight + (k * gates + g) * hidden + unit, (int)(hidden - unit)), to + g * WIDTH);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void recurrent_pack_turned(__global const float* weight, __global float* panels, const long hidden, const long gates, const long padded) {
  __global float* panel = panels + get_group_id(0) * gates * padded * COLUMNS;
  for (int v = 0; v < VECTORS; ++v) {
    const long first = get_group_id(0) * COLUMNS + v * WIDTH;
    for (long g = 0; g < gates; ++g)
      for (long j = 0; j < padded; j += WIDTH) {
        real block[WIDTH];
        UNROLLED (int r = 0; r < WIDTH; ++r)
          block[r] = first + r < hidden ? load_first(weight + ((first + r) * gates + g) * hidden + j, (int)(hidden - j)) : (real)0;
        transpose_block(block);
        UNROLLED (int r = 0; r < WIDTH; ++r) STORE(block[r], panel + (g * padded + j + r) * COLUMNS + v * WIDTH);
      }
  }
}
#endif
