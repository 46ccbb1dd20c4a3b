// Row gradients: sums of rows with equal indices, and optimizers' updates of the rows with gradients.
//   order    the positions of the indices in ascending order of index, equal ones in their order: blocks of RUN are ranked by counting, then runs are
//            merged, where each element finds its position in the other run by bisection. No atomics; equal order on all devices.
//   sum_rows at the first position of an index in that order: rows[j] = index, sums[j] = sum of its values in the order given;
//            at further positions: rows[j] = -1, sums[j] = 0
//   sgd      p -= rate g
//   adam     m += (1 - b1) (g - m);  v += (1 - b2) (g^2 - v);  p -= rate sqrt(c2) / c1 * m / (sqrt(v) + eps),  c = 1 - b^t from hyper
//            (torch.optim.SparseAdam, 1.13)
// Layout: indices, rows [count]; values, sums [count, width]; p, m, v [n, width]. An index out of range is skipped: gather has reported it.
// Mapping: sorting: one work-item for each index. Others: a block of rows and columns for each work-item, columns along the first dimension of the range, rows
// along the second.
// Options: INDEX, int or long.

#include "lib/index.clh"
#include "lib/loops.clh"

#define RUN 64

__kernel void rank_blocks(__global const INDEX* restrict indices, __global int* restrict order, const int count) {
  const int me = get_global_id(0);
  if (me >= count) return;
  const int first = me / RUN * RUN, last = min(first + RUN, count);
  const INDEX mine = indices[me];
  int before = 0;
  for (int k = first; k < last; ++k) before += indices[k] < mine || (indices[k] == mine && k < me);
  order[first + before] = me;
}

/// Two runs of `run` places each become one; the left one's are the earlier among equals.
__kernel void merge_runs(__global const INDEX* restrict indices, __global const int* restrict from, __global int* restrict to, const int count,
                         const int run) {
  const int me = get_global_id(0);
  if (me >= count) return;
  const int place = from[me], nth = me / run, is_right = nth & 1;
  const int other = is_right ? me - me % run - run : min(me - me % run + run, count);
  const INDEX mine = indices[place];
  int low = other, high = min(other + run, count);
  while (low < high) {
    const int middle = low + (high - low) / 2;
    const INDEX there = indices[from[middle]];
    if (there < mine || (is_right && there == mine)) low = middle + 1;
    else high = middle;
  }
  to[(nth - is_right) * run + me % run + low - other] = place;
}

/// What a work-item has of [count, width]: rows first..last-1, columns left..right-1. No rows where its columns lie beyond the last.
struct Block {
  long first, last, left, right;
};

static inline struct Block block_of(const long count, const long width, const long row_block, const long column_block) {
  struct Block b;
  b.first = get_global_id(1) * row_block;
  b.left = get_global_id(0) * column_block;
  b.right = min(b.left + column_block, width);
  b.last = b.left < max(width, 1L) ? min(b.first + row_block, count) : b.first;
  return b;
}

/// Adds the occurrences begin..end-1 of each row.
__kernel void sum_rows(__global const INDEX* restrict indices, __global const float* restrict values, __global const int* restrict order,
                       __global INDEX* restrict rows, __global float* restrict sums, const int count, const long width, const long row_block,
                       const long column_block, const int begin, const int end) {
  const struct Block b = block_of(count, width, row_block, column_block);
  for (long j = b.first; j < b.last; ++j) {
    const INDEX row = indices[order[j]];
    const int begins = j == 0 || indices[order[j - 1]] != row;
    __global float* to = sums + j * width;
    if (begin == 0) {
      if (b.left == 0) rows[j] = begins ? row : -1;
      for (long i = b.left; i < b.right; ++i) to[i] = begins ? values[order[j] * width + i] : 0;
    }
    for (long k = j + max(begin, 1); begins && k < min(j + end, (long)count) && indices[order[k]] == row; ++k) {
      __global const float* from = values + order[k] * width;
      for (long i = b.left; i < b.right; ++i) to[i] += from[i];
    }
  }
}

__kernel void sgd_rows_update(__global float* restrict p, __global const INDEX* restrict rows, __global const float* restrict sums,
                              __global const float* restrict hyper, const long n, const long count, const long width, const long row_block,
                              const long column_block, const int group) {
  const struct Block b = block_of(count, width, row_block, column_block);
  const float rate = hyper[2 * group];
  for (long j = b.first; j < b.last; ++j) {
    const long row = rows[j];
    if (!in_range(row, n)) continue;
    __global float* to = p + row * width;
    __global const float* g = sums + j * width;
    INDEPENDENT
    for (long i = b.left; i < b.right; ++i) to[i] -= rate * g[i];
  }
}

__kernel void adam_rows_update(__global float* restrict p, __global const INDEX* restrict rows, __global const float* restrict sums,
                               __global const float* restrict hyper, __global float* restrict m, __global float* restrict v, const long n,
                               const long count, const long width, const long row_block, const long column_block, const int group,
                               const float rest1, const float rest2, const float eps) {
  const struct Block b = block_of(count, width, row_block, column_block);
  __global const float* numbers = hyper + 4 * group;
  const float step = numbers[0] * sqrt(numbers[3]) / numbers[2];
  for (long j = b.first; j < b.last; ++j) {
    const long row = rows[j];
    if (!in_range(row, n)) continue;
    const long at = row * width;
    INDEPENDENT
    for (long i = b.left; i < b.right; ++i) {
      const float g = sums[j * width + i];
      const float mean = m[at + i] + rest1 * (g - m[at + i]);
      const float variance = v[at + i] + rest2 * (g * g - v[at + i]);
      m[at + i] = mean;
      v[at + i] = variance;
      p[at + i] -= step * mean / (sqrt(variance) + eps);
    }
  }
}
