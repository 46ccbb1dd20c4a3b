// The weight of a recurrent layer [H, G H] in panels, for the kernels of sequences, padded with zeros. Items: one a panel.
// recurrent_pack:         panel u has [H][G][WIDTH], of each gate the columns u WIDTH and on, so that a tile has all gates of a hidden number
// recurrent_pack_turned:  panel u has [G PADDED][COLUMNS], the rows u COLUMNS and on of the weight as columns
// Legend: recurrent.clh. Options: those of recurrent_rows.clh.
#include "lib/ops/recurrent.clh"
#include "lib/ops/recurrent_rows.clh"
#include "lib/transpose_block.clh"

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
