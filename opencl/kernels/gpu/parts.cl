// The sum of all parts of a matrix [rows, n], on GPUs: c[i] = parts[0, i] + parts[1, i] + ..., or += with `adds`.
// Mapping: a work-group of COLUMNS columns and ROWS rows, LANES work-items for each element: one adds up every LANES-th part, a tree in local memory the sums
// of these, so that no item waits for many loads in turn. Groups take further rows.
// Options: GROUP, COLUMNS and LANES, powers of 2; an epilogue.

#include "lib/epilogue.clh"
#define ROWS (GROUP / (COLUMNS * LANES))

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void add_parts(__global const float* restrict parts, __global float* restrict c, const long rows, const int n, const int count,
               const int adds EPILOGUE_PARAMETERS) {
  __local float sums[GROUP];
  const int me = get_local_id(0), lane = me / COLUMNS % LANES, column = get_group_id(0) * COLUMNS + me % COLUMNS;
  for (long first = get_group_id(1) * ROWS; first < rows; first += get_num_groups(1) * ROWS) {
    const long row = first + me / (COLUMNS * LANES), to = row * n + column;
    const bool is_inside = row < rows && column < n;
    float sum = 0;
    for (int part = lane; is_inside && part < count; part += LANES) sum += parts[part * rows * n + to];
    sums[me] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_lanes = LANES / 2; half_lanes > 0; half_lanes /= 2) {
      if (lane < half_lanes) sums[me] += sums[me + half_lanes * COLUMNS];
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (is_inside && lane == 0) c[to] = EPILOGUE(adds ? c[to] + sums[me] : sums[me], to, column);
  }
}
