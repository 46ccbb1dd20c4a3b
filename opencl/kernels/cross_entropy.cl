// Cross-entropy of softmax(x) against targets t, over rows: a mean (N is the number of rows) or a sum (N is 1); argument `divisor`.
//   loss = 1/N sum_r sum_j t[r, j] (log sum_k exponential(x[r, k] - top_r) - (x[r, j] - top_r)),   top_r = max x[r, :]
//   dx[r, j] = (p[r, j] sum_k t[r, k] - t[r, j]) d / N,   p = softmax(x)
// Targets: t[r, j] = keep * label + rest with keep = 1 - smoothing and rest = smoothing / C. A label is a class for each row, or with SOFT a row of
// probabilities. A class out of range gives loss and gradient 0 for the row and sets the error word; with LABELLED_ONLY a negative class does not.
// Layout: x [rows, n]. Mapping: _rows: each work-item computes `chunk` rows; _group: a work-group of 64 items for each row.
// Options: LABEL, the type of labels; SOFT, if they are probabilities; LABELLED_ONLY, 1 to leave out rows with negative classes, else 0; GROUP, 1 for
// the total if a device has no work-groups of 64.

#ifndef GROUP
#define GROUP 64
#endif
#include "group.clh"
#include "index.clh"
#include "rows.clh"

#ifdef SOFT
static inline bool usable(__global const LABEL* labels, long r, long n) { return true; }
static inline void check_label(__global const LABEL* labels, long r, long n, __global int* error) {}
static inline float share(__global const LABEL* labels, long r, long n, long j) { return labels[r * n + j]; }
/// sum_j t[r, j], by one work-item and as a lane's part of it.
static inline float row_mass(__global const LABEL* labels, long r, long n, float keep, float rest) { return keep * row_sum(labels + r * n, n, 0) + rest * n; }
static inline float lane_mass(__global const LABEL* labels, long r, long n, float keep, float rest, long lane) {
  float total = 0;
  for (long j = lane; j < n; j += GROUP) total += keep * labels[r * n + j] + rest;
  return total;
}
/// sum_j labels[r, j] (x[j] - top)
static inline float row_labels(__global const LABEL* labels, __global const float* x, long r, long n, float top) { return row_dot(labels + r * n, x, n, top); }
static inline float lane_labels(__global const LABEL* labels, __global const float* x, long r, long n, float top, long lane) {
  float total = 0;
  for (long j = lane; j < n; j += GROUP) total += labels[r * n + j] * (x[j] - top);
  return total;
}
#else
static inline bool usable(__global const LABEL* labels, long r, long n) { return in_range(labels[r], n); }
static inline void check_label(__global const LABEL* labels, long r, long n, __global int* error) {
  if (!usable(labels, r, n) && !(LABELLED_ONLY && labels[r] < 0)) report(labels[r], n, error);
}
static inline float share(__global const LABEL* labels, long r, long n, long j) { return labels[r] == j ? 1.0f : 0.0f; }
static inline float row_mass(__global const LABEL* labels, long r, long n, float keep, float rest) { return 1.0f; }
static inline float lane_mass(__global const LABEL* labels, long r, long n, float keep, float rest, long lane) { return lane == 0 ? 1.0f : 0.0f; }
static inline float row_labels(__global const LABEL* labels, __global const float* x, long r, long n, float top) {
  return usable(labels, r, n) ? x[labels[r]] - top : 0.0f;
}
static inline float lane_labels(__global const LABEL* labels, __global const float* x, long r, long n, float top, long lane) {
  return lane == 0 ? row_labels(labels, x, r, n, top) : 0.0f;
}
#endif

/// sum_j t[r, j] (x[j] - top)
static inline float row_targets(__global const LABEL* labels, __global const float* x, long r, long n, float top, float keep, float rest) {
  const float smooth = rest > 0 ? rest * row_sum(x, n, top) : 0.0f;
  return keep * row_labels(labels, x, r, n, top) + smooth;
}
static inline float lane_targets(__global const LABEL* labels, __global const float* x, long r, long n, float top, float keep, float rest, long lane) {
  float total = 0;
  if (rest > 0)
    for (long j = lane; j < n; j += GROUP) total += x[j] - top;
  return keep * lane_labels(labels, x, r, n, top, lane) + rest * total;
}

__kernel void cross_entropy_rows(__global const float* x, __global const LABEL* labels, __global float* losses, __global int* error,
                                 const long rows, const long n, const float keep, const float rest, const long chunk) {
  const long first = get_global_id(0) * chunk, last = min(first + chunk, rows);
  for (long r = first; r < last; ++r) {
    __global const float* row = x + r * n;
    const float top = row_max(row, n);
    const float loss = row_mass(labels, r, n, keep, rest) * log(row_exp_sum(row, n, top)) -
                       row_targets(labels, row, r, n, top, keep, rest);
    losses[r] = usable(labels, r, n) ? loss : 0.0f;
    check_label(labels, r, n, error);
  }
}

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

/// One group: the sum of the rows' losses over `divisor`, each item adding every 64th in blocks.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void cross_entropy_total(__global const float* losses, __global float* y, const long rows, const float divisor) {
  __local float shared[GROUP];
  float total = 0;
  for (long begin = get_local_id(0); begin < rows; begin += ROW_BLOCK * GROUP) {
    const long end = min(begin + ROW_BLOCK * GROUP, rows);
    float part = 0;
    for (long r = begin; r < end; r += GROUP) part += losses[r];
    total += part;
  }
  total = group_sum(shared, total);
  if (get_local_id(0) == 0) y[0] = total / divisor;
}

__kernel void cross_entropy_backward_rows(__global const float* d, __global const float* x, __global const LABEL* labels,
                                          __global float* dx, const long rows, const long n, const float keep, const float rest,
                                          const float divisor, const long chunk) {
  const long first = get_global_id(0) * chunk, last = min(first + chunk, rows);
  for (long r = first; r < last; ++r) {
    __global const float* from = x + r * n;
    __global float* to = dx + r * n;
    const float step = usable(labels, r, n) ? d[0] / divisor : 0.0f;
    const float total = row_exponentials(from, to, n, row_max(from, n));
    const float scale = row_mass(labels, r, n, keep, rest) / total;
    for (long j = 0; j < n; ++j) to[j] = (to[j] * scale - (keep * share(labels, r, n, j) + rest)) * step;
  }
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
