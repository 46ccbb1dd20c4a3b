// Cross-entropy on CPUs: each work-item does `chunk` rows. Legend and options: cross_entropy.clh.

#include "lib/ops/cross_entropy.clh"

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
