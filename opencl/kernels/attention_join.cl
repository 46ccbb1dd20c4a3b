// Joins results of attention over parts of the keys: y = sum_p y_p exp(top_p - top) / sum_p sum_p exp(top_p - top), where top is the largest top_p.
// Layout: part_y [parts, rows, width], part_tops and part_sums [parts, rows]; y [rows, width], top and log_sum [rows].
// Mapping: one work-item for each row, which is a query and head. Options: those of types.clh.

#define T float
#include "exponential.clh"
#include "types.clh"

__kernel void attention_join(__global const float* restrict part_y, __global const float* restrict part_tops, __global const float* restrict part_sums,
                             __global STORED* restrict y, __global float* restrict tops, __global float* restrict log_sums, const long rows,
                             const long width, const long parts) {
  const long row = get_global_id(0);
  float top = part_tops[row], total = 0;
  for (long p = 1; p < parts; ++p) top = fmax(top, part_tops[p * rows + row]);
  for (long p = 0; p < parts; ++p) total += part_sums[p * rows + row] * decay(part_tops[p * rows + row] - top);
  tops[row] = total == 0 ? 0 : top;
  log_sums[row] = total == 0 ? 0 : log(total);
  const float factor = total == 0 ? 0 : 1 / total;
  for (long j = 0; j < width; ++j) {
    float sum = 0;
    for (long p = 0; p < parts; ++p) sum += part_y[(p * rows + row) * width + j] * decay(part_tops[p * rows + row] - top);
    STORE(sum * factor, y + row * width + j);
  }
}
