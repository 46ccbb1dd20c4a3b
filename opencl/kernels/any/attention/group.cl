// Attention and its gradients for devices whose lanes are work-items. Formulas: attention.clh and attention_tiles_backward.cl.
// Mapping: work-groups of 64 items for ROWS queries (for the gradients of keys and values: ROWS keys) along the first dimension of the range, heads along
// the second, samples along the third. PARTS items share a query: item p holds elements p, p + PARTS, ... of its vectors in registers. The items add up dot
// products with COLUMNS keys (or queries) at a time in local memory.
// Options: HEAD and VALUE, the largest number of elements of a query and of a value in one item; those of stored.clh; LANES = 1.

#include "lib/vectors.clh"
#include "lib/ops/attention.clh"
#include "lib/math/exponential.clh"
#include "lib/elements.clh"
#include "lib/loops.clh"

#define GROUP 64
#define PARTS 4
#define ROWS 16
#define COLUMNS 16

#define TENSORS                                                                                                              \
  __global const STORED *query, __global const STORED *key, __global const STORED *value, __global const float *bias, __global const long *state
#define WIDTHS const long head_width, const long value_width
/// Where a launch begins: drivers take fewer groups along the second and the third dimension than there may be samples and heads.
#define FIRST const long first_sample, const long first_head

/// An item's numbers of a vector of `width`, times `factor`.
static inline void load_numbers(__global const STORED* from, long width, float factor, int count, float* to) {
  for (int x = 0; x < count; ++x) {
    const long j = x * PARTS + get_local_id(0) % PARTS;
    to[x] = j < width ? WIDENED(from[j]) * factor : 0.0f;
  }
}

static inline void store_numbers(const float* from, float factor, int count, long width, __global STORED* to) {
  for (int x = 0; x < count; ++x) {
    const long j = x * PARTS + get_local_id(0) % PARTS;
    if (j < width) to[j] = NARROWED(from[x] * factor);
  }
}

/// An item's part of a dot product with a vector of `width`.
static inline float part_of_dot(const float* mine, __global const STORED* with, long width, int count) {
  float sum = 0;
  for (int x = 0; x < count; ++x) {
    const long j = x * PARTS + get_local_id(0) % PARTS;
    if (j < width) sum = fma(mine[x], WIDENED(with[j]), sum);
  }
  return sum;
}

/// sum += weight times a vector of `width`
static inline void add_numbers(float weight, __global const STORED* of, long width, int count, float* sum) {
  for (int x = 0; x < count; ++x) {
    const long j = x * PARTS + get_local_id(0) % PARTS;
    if (j < width) sum[x] = fma(weight, WIDENED(of[j]), sum[x]);
  }
}

/// The sum of the parts that the items of a row left.
static IN_LINE float joined(__local const float* parts) {
  const int row = get_local_id(0) / PARTS;
  return (parts[row * PARTS] + parts[row * PARTS + 1]) + (parts[row * PARTS + 2] + parts[row * PARTS + 3]);
}

static inline float factor_of(const uint* key, long query, long number, const float2 dropout) {
  uint bits[4] = {(uint)(number / 64 * 16 + number % 16), (uint)query, key[2], key[3]};
  philox(bits, key[0], key[1]);
  return factors(bits[number / 16 % 4], dropout.x, dropout.y);
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void attention_group(TENSORS, __global STORED* y, __global float* tops, __global float* log_sums, WIDTHS, FIRST, PROBLEM) {
  __local float parts[COLUMNS][GROUP], drawn[ROWS][COLUMNS];
  const int me = get_local_id(0), row = me / PARTS, mine = me % PARTS;
  const long first = get_group_id(0) * ROWS, head = first_head + get_group_id(1), sample = first_sample + get_group_id(2);
  const long i = min(first + row, queries - 1), at = (sample * queries + i) * heads + head, first_key = sample * keys * heads + head;
  const long seen = seen_by(i, queries, keys, causal), end = seen_by(min(first + ROWS, queries) - 1, queries, keys, causal);
  float q[HEAD], sum[VALUE], top = LOWEST, total = 0;
  uint own[4];
  if (threshold > 0) head_key(state, (uint)stream, place_of(state, sample, keyed), head, own);
  load_numbers(query + at * head_width, head_width, scale, HEAD, q);
  for (int x = 0; x < VALUE; ++x) sum[x] = 0;
  bias += sample * bias_sample + head * bias_head + i * bias_query;

  for (long begin = 0; begin < end; begin += COLUMNS) {
    for (int c = 0; c < COLUMNS; ++c)
      parts[c][me] = begin + c < end ? part_of_dot(q, key + (first_key + (begin + c) * heads) * head_width, head_width, HEAD) : 0.0f;
    for (int c = mine; c < COLUMNS && threshold > 0; c += PARTS) drawn[row][c] = factor_of(own, i, begin + c, (float2)(threshold, keep));
    barrier(CLK_LOCAL_MEM_FENCE);
    float scores[COLUMNS], larger = top;
    for (int c = 0; c < COLUMNS; ++c) {
      scores[c] = begin + c < seen ? joined(parts[c]) + bias[(begin + c) * bias_key] : -INFINITY;
      larger = scores[c] > larger ? scores[c] : larger;
    }
    const float before = decay(top - larger);
    top = larger;
    total *= before;
    for (int x = 0; x < VALUE; ++x) sum[x] *= before;
    for (int c = 0; c < COLUMNS && begin + c < seen; ++c) {
      const float weight = decay(scores[c] - top);
      total += weight;
      add_numbers(threshold > 0 ? weight * drawn[row][c] : weight, value + (first_key + (begin + c) * heads) * value_width, value_width, VALUE, sum);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (first + row >= queries) return;
  store_numbers(sum, total == 0 ? 0 : 1 / total, VALUE, value_width, y + at * value_width);
  if (mine > 0) return;
  tops[at] = total == 0 ? 0 : top;
  log_sums[at] = total == 0 ? 0 : log(total);
}

/// dquery, and delta for the next kernel.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void attention_dquery_group(__global const STORED* dy, TENSORS, __global const STORED* y, __global const float* tops, __global const float* log_sums,
                            __global STORED* dquery, __global float* deltas, WIDTHS, FIRST, PROBLEM) {
  __local float parts[COLUMNS][GROUP], dy_parts[COLUMNS][GROUP], drawn[ROWS][COLUMNS];
  const int me = get_local_id(0), row = me / PARTS, mine = me % PARTS;
  const long first = get_group_id(0) * ROWS, head = first_head + get_group_id(1), sample = first_sample + get_group_id(2);
  const long i = min(first + row, queries - 1), at = (sample * queries + i) * heads + head, first_key = sample * keys * heads + head;
  const long seen = seen_by(i, queries, keys, causal), end = seen_by(min(first + ROWS, queries) - 1, queries, keys, causal);
  float q[HEAD], dq[HEAD], my_dy[VALUE];
  uint own[4];
  if (threshold > 0) head_key(state, (uint)stream, place_of(state, sample, keyed), head, own);
  load_numbers(query + at * head_width, head_width, scale, HEAD, q);
  load_numbers(dy + at * value_width, value_width, 1, VALUE, my_dy);
  for (int x = 0; x < HEAD; ++x) dq[x] = 0;
  bias += sample * bias_sample + head * bias_head + i * bias_query;
  parts[0][me] = part_of_dot(my_dy, y + at * value_width, value_width, VALUE);
  barrier(CLK_LOCAL_MEM_FENCE);
  const float delta = joined(parts[0]), top = tops[at], log_sum = log_sums[at];
  barrier(CLK_LOCAL_MEM_FENCE);

  for (long begin = 0; begin < end; begin += COLUMNS) {
    for (int c = 0; c < COLUMNS; ++c) {
      const long of = first_key + (begin + c) * heads;
      parts[c][me] = begin + c < end ? part_of_dot(q, key + of * head_width, head_width, HEAD) : 0.0f;
      dy_parts[c][me] = begin + c < end ? part_of_dot(my_dy, value + of * value_width, value_width, VALUE) : 0.0f;
    }
    for (int c = mine; c < COLUMNS && threshold > 0; c += PARTS) drawn[row][c] = factor_of(own, i, begin + c, (float2)(threshold, keep));
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int c = 0; c < COLUMNS && begin + c < seen; ++c) {
      const float weight = decay(joined(parts[c]) + bias[(begin + c) * bias_key] - top - log_sum), factor = threshold > 0 ? drawn[row][c] : 1;
      add_numbers(weight * (joined(dy_parts[c]) * factor - delta), key + (first_key + (begin + c) * heads) * head_width, head_width, HEAD, dq);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (first + row >= queries) return;
  store_numbers(dq, scale, HEAD, head_width, dquery + at * head_width);
  if (mine == 0) deltas[at] = delta;
}

/// dkey and dvalue: rows are keys, columns queries.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void attention_dkey_group(__global const STORED* dy, TENSORS, __global const float* deltas, __global const float* tops, __global const float* log_sums,
                          __global STORED* dkey, __global STORED* dvalue, WIDTHS, FIRST, PROBLEM) {
  __local float parts[COLUMNS][GROUP], dy_parts[COLUMNS][GROUP], drawn[ROWS][COLUMNS];
  const int me = get_local_id(0), row = me / PARTS, mine = me % PARTS;
  const long first = get_group_id(0) * ROWS, head = first_head + get_group_id(1), sample = first_sample + get_group_id(2);
  const long j = min(first + row, keys - 1), at = (sample * keys + j) * heads + head, first_query = sample * queries * heads + head;
  float k[HEAD], dk[HEAD], v[VALUE], dv[VALUE];
  uint own[4];
  if (threshold > 0) head_key(state, (uint)stream, place_of(state, sample, keyed), head, own);
  load_numbers(key + at * head_width, head_width, scale, HEAD, k);
  load_numbers(value + at * value_width, value_width, 1, VALUE, v);
  for (int x = 0; x < HEAD; ++x) dk[x] = 0;
  for (int x = 0; x < VALUE; ++x) dv[x] = 0;
  bias += sample * bias_sample + head * bias_head + j * bias_key;

  for (long begin = 0; begin < queries; begin += COLUMNS) {
    for (int c = 0; c < COLUMNS; ++c) {
      const long of = first_query + (begin + c) * heads;
      parts[c][me] = begin + c < queries ? part_of_dot(k, query + of * head_width, head_width, HEAD) : 0.0f;
      dy_parts[c][me] = begin + c < queries ? part_of_dot(v, dy + of * value_width, value_width, VALUE) : 0.0f;
    }
    for (int c = mine; c < COLUMNS && threshold > 0; c += PARTS) drawn[row][c] = factor_of(own, begin + c, j, (float2)(threshold, keep));
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int c = 0; c < COLUMNS && begin + c < queries; ++c) {
      if (seen_by(begin + c, queries, keys, causal) <= j) continue;
      const long of = first_query + (begin + c) * heads;
      const float weight = decay(joined(parts[c]) + bias[(begin + c) * bias_query] - tops[of] - log_sums[of]);
      const float factor = threshold > 0 ? drawn[row][c] : 1;
      add_numbers(weight * (joined(dy_parts[c]) * factor - deltas[of]), query + of * head_width, head_width, HEAD, dk);
      add_numbers(weight * factor, dy + of * value_width, value_width, VALUE, dv);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (first + row >= keys) return;
  store_numbers(dk, scale, HEAD, head_width, dkey + at * head_width);
  store_numbers(dv, 1, VALUE, value_width, dvalue + at * value_width);
}
