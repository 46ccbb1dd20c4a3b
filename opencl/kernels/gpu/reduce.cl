// Reductions on GPUs. Legend and options: reduce.clh.
// reduce_groups:  inner = 1; a group of 64 work-items a slice of a row, through local memory.

#include "lib/ops/reduce.clh"
#define GROUP 64

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void reduce_groups(__global const X* x, __global Y* y, const long reduced, const long slices, const long length, const T scale) {
  __local T shared[GROUP];
  const long series = get_group_id(0), s = series % slices, o = series / slices;
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
  if (me == 0) Y_STORE(shared[0] * scale, y + series);
}
