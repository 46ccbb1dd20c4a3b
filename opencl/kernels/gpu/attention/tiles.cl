// Attention on GPUs, a block of queries for each work-group, which goes over the keys in blocks with a running maximum and a running sum. Formulas:
// attention.clh; blocks and options: blocks.clh.
// Mapping: blocks of queries along the first dimension of the range, heads along the second, samples along the third. What a sample has in a tensor is less
// than 2^31 elements.
// Source: T. Dao, FlashAttention-2: faster attention with better parallelism and work partitioning, 2023.

#if VALUE > 64  // whose sums take the registers
#define TERMS_AT_ONCE 2
#else
#define TERMS_AT_ONCE 4
#endif
#include "gpu/attention/blocks.clh"

#define VECTORS value
#define WIDTH VALUE
#include "gpu/attention/sums.clh"

static inline float larger_of(float a, float b) { return a > b ? a : b; }
static inline float largest_of(float4 v) { return larger_of(larger_of(v.x, v.y), larger_of(v.z, v.w)); }

/// Numbers that the 16 items of a row leave for the item that joins them: at PARTS + i of a row's place.
#define PART_STRIDE 20
#define PARTS (tiles[half_] + (4 * PART_STRIDE * ITEM_ROW + ITEM_COLUMN))

__kernel BLOCK_GROUP void attention_tile(TENSORS, __global STORED* restrict y, __global float* restrict tops, __global float* restrict log_sums, FIRST,
                                         NARROW_PROBLEM) {
  LOCAL_MEMORY(value_stride)
  __local float2 rescale[ROWS];  // of a query: the largest score so far, and the factor of sums that were made with the one before
  const int me = get_local_id(0), step = heads * HEAD, value_step = heads * VALUE;
  const int first = get_group_id(0) * ROWS, last = queries - 1, end = keys_of(min(first + ROWS - 1, last), queries, keys, causal);
  const int head = first_head + get_group_id(1), sample = first_sample + get_group_id(2);
  const long first_query = (long)sample * queries * heads + head, first_key = (long)sample * keys * heads + head;
  query += first_query * HEAD;
  key += first_key * HEAD;
  value += first_key * VALUE;
  bias += sample * bias_sample + head * bias_head;
  if (threshold > 0 && me == 0) head_key_to(state, (uint)stream, place_of(state, sample, keyed), head, own);
  if (me == 0) zero[0] = threshold < 0;
  if (me < ROWS) {
    row_at[me] = min(first + at_place(me, ROWS), last);
    rescale[me].x = LOWEST;
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  float4 rows_fetched[rows_turns], columns_fetched[columns_turns], value_fetched[value_turns];
  float totals[ROWS_OF_ITEM];
  UNROLLED (int i = 0; i < ROWS_OF_ITEM; ++i) totals[i] = 0;
  NO_SUMS(value, sums)
  if (end > 0) { FETCH_OPERANDS(query, step, key, step, 0, end - 1, 0, HEAD) }

  ROLLED (int begin = 0; begin < end; begin += COLUMNS) {
    const uint kept = threshold > 0 ? kept_keys(own, first, begin, threshold) : ~0u;
    NO_SCORES(weights)
    ADD_DOTS(weights, query, step, key, step, begin, end - 1, HEAD)
    value_fetch(value_fetched, ITEM, value, value_step, begin, end - 1);
    float4 added;
    UNROLLED (int i = 0; i < ROWS_OF_ITEM; ++i) {
      const int row = (row_at + 4 * ITEM_ROW)[ROWS_ON(i)];
      if (i == 0 || bias_query != 0) added = bias_4(bias, row * bias_query, begin + ITEM_COLUMN, end - 1, bias_key);
      weights[i] = seen_4(scaled(weights[i], scale, added), keys_of(row, queries, keys, causal) - begin - ITEM_COLUMN);
      PARTS[PART_STRIDE * ROWS_ON(i)] = largest_of(weights[i]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < ROWS) {
      const float before = rescale[me].x;
      float larger = before;
      __local const float4* parts = (__local const float4*)(tiles[half_] + me * PART_STRIDE);
      UNROLLED (int i = 0; i < 4; ++i) larger = larger_of(largest_of(parts[i]), larger);
      rescale[me] = (float2)(larger, decay(before - larger));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    half_ ^= 1;
    UNROLLED (int i = 0; i < ROWS_OF_ITEM; ++i) {
      const float2 by = (rescale + 4 * ITEM_ROW)[ROWS_ON(i)];
      weights[i] = decay_4(weights[i] - by.x);
      totals[i] = fma(totals[i], by.y, (weights[i].x + weights[i].y) + (weights[i].z + weights[i].w));
    }
    UNROLLED (int i = 0; i < value_rows; ++i)
      UNROLLED (int block = 0; block < value_blocks; ++block) sums[i][block] *= (rescale + value_first_row(me))[value_rows_on(i)].y;
    ADD_SUMS(value, sums, weights, kept, value, value_step, begin, end - 1,
             if (begin + COLUMNS < end) { FETCH_OPERANDS(query, step, key, step, begin + COLUMNS, end - 1, 0, HEAD) })
  }

  UNROLLED (int i = 0; i < ROWS_OF_ITEM; ++i) PARTS[PART_STRIDE * ROWS_ON(i)] = totals[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (me < ROWS) {
    __local const float4* parts = (__local const float4*)(tiles[half_] + me * PART_STRIDE);
    const float4 four = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    const float total = (four.x + four.y) + (four.z + four.w);
    const int row = first + at_place(me, ROWS);
    if (row <= last) {
      tops[first_query + row * heads] = total == 0 ? 0 : rescale[me].x;
      log_sums[first_query + row * heads] = total == 0 ? 0 : log(total);
    }
    rescale[me].y = total == 0 ? 0 : keep / total;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  STORE_SUMS(value, sums, y + first_query * VALUE, value_step, first, last, VALUE, rescale[place].y)
}
