// The sum of all parts of a product [rows, n] (group_tile.clh): c[i] = parts[0, i] + parts[1, i] + ..., or += with `adds`.
// Mapping: a work-item for a column, and for some rows.
// Options: an epilogue.

#include "lib/epilogue.clh"
#define BLOCK 64  // parts that are added up by themselves, to keep rounding errors small

__kernel void add_tile_parts(__global const float* restrict parts, __global float* restrict c, const long rows, const int n, const int count,
                             const int adds EPILOGUE_PARAMETERS) {
  const int column = get_global_id(0);
  if (column >= n) return;
  for (long row = get_global_id(1); row < rows; row += get_global_size(1)) {
    const long to = row * n + column;
    float sum = 0;
    for (int part = 0; part < count;) {
      const int end = min(part + BLOCK, count);
      float of_block = 0;
      for (; part < end; ++part) of_block += parts[part * rows * n + to];
      sum += of_block;
    }
    c[to] = EPILOGUE(adds ? c[to] + sum : sum, to, column);
  }
}
