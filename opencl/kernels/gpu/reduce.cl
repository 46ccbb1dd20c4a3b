// Reductions on GPUs. Legend and options: reduce.clh.
// reduce_groups:  inner = 1; a group of 64 work-items a slice of a row, through local memory. Rows along the first dimension, slices along the second.
// reduce_tiles:   a group of COLUMNS columns x LANES rows a slice, through local memory.

#include "lib/ops/reduce.clh"
#define GROUP 64
#define COLUMNS 32
#define LANES 8

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void reduce_groups(__global const X* x, __global Y* y, const long reduced, const long slices, const long length, const T scale) {
  __local T shared[GROUP];
  const long o = get_group_id(0), s = get_group_id(1);
  const int me = get_local_id(0);
  __global const X* row = x + o * reduced;
  const long begin = s * length, end = min(begin + length, reduced);
  T total = START(X_LOAD(row + begin));
  for (long j = begin + me; j < end; j += GROUP) {
    const T next = X_LOAD(row + j);
    total = JOIN(total, next);
  }
  shared[me] = total;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int part = GROUP / 2; part > 0; part /= 2) {
    if (me < part) shared[me] = JOIN(shared[me], shared[me + part]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (me == 0) Y_STORE(shared[0] * scale, y + o * slices + s);
}

__kernel __attribute__((reqd_work_group_size(COLUMNS, LANES, 1)))
void reduce_tiles(__global const X* x, __global Y* y, const long outer, const long reduced, const long inner, const long slices, const long length,
                  const T scale) {
  __local T shared[LANES][COLUMNS];
  const int column = get_local_id(0), lane = get_local_id(1);
  const long c = get_global_id(0), s = get_group_id(1), begin = s * length, n = min(length, reduced - begin);
  for (long o = get_group_id(2); o < outer; o += get_num_groups(2)) {
    if (c < inner && lane < n) shared[lane][column] = join_column(x + (o * reduced + begin + lane) * inner + c, (n - lane + LANES - 1) / LANES, inner * LANES);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int part = LANES / 2; part > 0; part /= 2) {
      if (c < inner && lane < part && lane + part < n) shared[lane][column] = JOIN(shared[lane][column], shared[lane + part][column]);
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (c < inner && lane == 0) Y_STORE(shared[0][column] * scale, y + (o * slices + s) * inner + c);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
