// The moments of a batch from those of its parts [parts, C], of so many rows each; and the running statistics. One work-item a channel.

#include "lib/ops/moments.clh"

__kernel void batch_norm_merge_parts(__global const float* means, __global const float* squares, __global const long* rows,
                                     __global float* running_mean, __global float* running_var, __global long* batches,
                                     __global float* mean_out, __global float* var_out, const long parts, const long C, const float momentum) {
  const long c = get_global_id(0);
  if (c == 0) ++*batches;
  if (c >= C) return;
  const float origin = parts > 0 ? means[c] : 0;
  float mean = 0, m2 = 0, seen = 0;
  for (long p = 0; p < parts; ++p) merge(&mean, &m2, &seen, means[p * C + c] - origin, squares[p * C + c], rows[p]);
  mean += origin;
  mean_out[c] = mean;
  var_out[c] = m2 / seen;
  running_mean[c] += momentum * (mean - running_mean[c]);
  running_var[c] += momentum * (m2 / fmax(seen - 1, 1.0f) - running_var[c]);
}
