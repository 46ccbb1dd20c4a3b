// Cross-entropy on GPUs: a group of 64 items for each row. Legend and options: cross_entropy.clh.

#include "lib/ops/cross_entropy.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void cross_entropy_group(__global const float* x, __global const LABEL* labels, __global float* losses, __global int* error,
                         const long n, const float keep, const float rest) {
  __local float shared[GROUP];
  const long r = get_group_id(0);
  const int me = get_local_id(0);
  __global const float* row = x + r * n;
  float top = -INFINITY, total = 0;
  for (long j = me; j < n; j += GROUP) top = fmax(top, row[j]);
  top = group_max(shared, top);
  for (long j = me; j < n; j += GROUP) total += exponential(row[j] - top);
  total = group_sum(shared, total);
  const float mass = group_sum(shared, lane_mass(labels, r, n, keep, rest, me));
  const float dot = group_sum(shared, lane_targets(labels, row, r, n, top, keep, rest, me));
  if (me > 0) return;
  losses[r] = usable(labels, r, n) ? mass * log(total) - dot : 0.0f;
  check_label(labels, r, n, error);
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void cross_entropy_backward_group(__global const float* d, __global const float* x, __global const LABEL* labels,
                                  __global float* dx, const long rows, const long n, const float keep, const float rest,
                                  const float divisor) {
  __local float shared[GROUP];
  const long r = get_group_id(0);
  const int me = get_local_id(0);
  __global const float* from = x + r * n;
  __global float* to = dx + r * n;
  const float step = usable(labels, r, n) ? d[0] / divisor : 0.0f;
  float top = -INFINITY, total = 0;
  for (long j = me; j < n; j += GROUP) top = fmax(top, from[j]);
  top = group_max(shared, top);
  for (long j = me; j < n; j += GROUP) total += exponential(from[j] - top);
  total = group_sum(shared, total);
  const float scale = group_sum(shared, lane_mass(labels, r, n, keep, rest, me)) / total;
  for (long j = me; j < n; j += GROUP)
    to[j] = (exponential(from[j] - top) * scale - (keep * share(labels, r, n, j) + rest)) * step;
}
