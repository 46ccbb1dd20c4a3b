// Gradients of attention on GPUs. The weights of a block of queries and keys are computed again from what attention keeps of each query:
//   weight = exp(scale query . key + bias - top - log_sum),   delta = dy . y,   slope = weight (factor dy . value - delta)
//   dquery = scale sum over keys of slope key,   dkey = scale sum over queries of slope query,   dvalue = sum over queries of weight factor dy
// where `factor` is what dropout multiplies a weight by. Legend: attention.clh; blocks and options: blocks.clh. DKEY, DVALUE: which of both the second
// kernel computes.
// Mapping: blocks of queries (for dkey and dvalue: of keys) along the first dimension of the range, heads along the second, samples along the third.
// What a sample has in a tensor is less than 2^31 elements. An item has four rows.

#define TERMS_AT_ONCE 2
#include "gpu/attention/blocks.clh"

#define VECTORS head
#define WIDTH HEAD
#include "gpu/attention/sums.clh"

#define VECTORS value
#define WIDTH VALUE
#include "gpu/attention/sums.clh"

/// Numbers of the queries that are rows or columns, at their places.
#define OF_QUERIES(count) \
  __local float top_at[count] __attribute__((aligned(16))), log_sum_at[count] __attribute__((aligned(16))), delta_at[count] __attribute__((aligned(16))); \
  __local int seen_at[count] __attribute__((aligned(16)));
/// Of an item's four.
#define FOUR(numbers, own) (*(__local const float4*)((numbers) + 4 * (own)))

/// dquery, and delta for the next kernel.
__kernel BLOCK_GROUP void attention_dquery_tile(__global const STORED* restrict dy, TENSORS, __global const STORED* restrict y,
                                                __global const float* restrict tops, __global const float* restrict log_sums, __global STORED* restrict dquery,
                                                __global float* restrict deltas, FIRST, NARROW_PROBLEM) {
  LOCAL_MEMORY(head_stride)
  OF_QUERIES(ROWS)
  const int me = get_local_id(0), step = heads * HEAD, value_step = heads * VALUE;
  const int first = get_group_id(0) * ROWS, last = queries - 1, end = keys_of(min(first + ROWS - 1, last), queries, keys, causal);
  const int head = first_head + get_group_id(1), sample = first_sample + get_group_id(2);
  const long first_query = (long)sample * queries * heads + head, first_key = (long)sample * keys * heads + head;
  query += first_query * HEAD;
  dy += first_query * VALUE;
  y += first_query * VALUE;
  key += first_key * HEAD;
  value += first_key * VALUE;
  bias += sample * bias_sample + head * bias_head;
  if (threshold > 0 && me == 0) head_key_to(state, (uint)stream, place_of(state, sample, keyed), head, own);
  if (me == 0) zero[0] = threshold < 0;

  const int from = min(first + at_place(me / 4, ROWS), last) * value_step;
  float part = 0;
  for (int j = me % 4 * 4; j < VALUE; j += 16) part += dot(load_4(dy + from + j, VALUE - j), load_4(y + from + j, VALUE - j));
  tiles[0][me] = part;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (me < ROWS) {
    const int row = first + at_place(me, ROWS), nearest = min(row, last);
    const long of = first_query + nearest * heads;
    const float4 parts = FOUR(tiles[0], me);
    const float delta = (parts.x + parts.y) + (parts.z + parts.w);
    row_at[me] = nearest;
    top_at[me] = tops[of];
    log_sum_at[me] = log_sums[of];
    delta_at[me] = delta;
    seen_at[me] = keys_of(nearest, queries, keys, causal);
    if (row <= last) deltas[of] = delta;
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  float4 rows_fetched[rows_turns], columns_fetched[columns_turns], head_fetched[head_turns];
  NO_SUMS(head, sums)
  if (end > 0) { FETCH_OPERANDS(query, step, key, step, 0, end - 1, 0, HEAD) }
  ROLLED (int begin = 0; begin < end; begin += COLUMNS) {
    const uint kept = threshold > 0 ? kept_keys(own, first, begin, threshold) : ~0u;
    NO_SCORES(weights)
    ADD_DOTS(weights, query, step, key, step, begin, end - 1, HEAD)
    FETCH_OPERANDS(dy, value_step, value, value_step, begin, end - 1, 0, VALUE)
    float4 added;
    UNROLLED (int i = 0; i < 4; ++i) {
      if (i == 0 || bias_query != 0) added = bias_4(bias, (row_at + 4 * ITEM_ROW)[i] * bias_query, begin + ITEM_COLUMN, end - 1, bias_key);
      weights[i] = scaled(weights[i], scale, added);
    }
    const float4 top = FOUR(top_at, ITEM_ROW), log_sum = FOUR(log_sum_at, ITEM_ROW);
    UNROLLED (int i = 0; i < 4; ++i) {
      const float4 score = seen_4(weights[i], (seen_at + 4 * ITEM_ROW)[i] - begin - ITEM_COLUMN);
      weights[i] = decay_4(score - part_of(top, i) - part_of(log_sum, i));
    }
    NO_SCORES(slopes)
    ADD_DOTS(slopes, dy, value_step, value, value_step, begin, end - 1, VALUE)
    head_fetch(head_fetched, ITEM, key, step, begin, end - 1);
    const float4 delta = FOUR(delta_at, ITEM_ROW);
    UNROLLED (int i = 0; i < 4; ++i) slopes[i] = weights[i] * scaled(kept_of(slopes[i], kept, i), keep, (float4)(-part_of(delta, i)));
    ADD_SUMS(head, sums, slopes, ~0u, key, step, begin, end - 1,
             if (begin + COLUMNS < end) { FETCH_OPERANDS(query, step, key, step, begin + COLUMNS, end - 1, 0, HEAD) })
  }
  STORE_SUMS(head, sums, dquery + first_query * HEAD, step, first, last, HEAD, scale)
}

/// dkey and dvalue: rows are keys, columns queries.
__kernel BLOCK_GROUP void attention_dkey_tile(__global const STORED* restrict dy, TENSORS, __global const float* restrict deltas,
                                              __global const float* restrict tops, __global const float* restrict log_sums, __global STORED* restrict dkey,
                                              __global STORED* restrict dvalue, FIRST, NARROW_PROBLEM) {
  LOCAL_MEMORY(LARGER_OF(head_stride, value_stride))
  OF_QUERIES(COLUMNS)
  __local uint kept[GROUP];  // of each item
  const int me = get_local_id(0), step = heads * HEAD, value_step = heads * VALUE;
  const int first = get_group_id(0) * ROWS, last = queries - 1, start = causal * max(first - keys + queries, 0);
  const int head = first_head + get_group_id(1), sample = first_sample + get_group_id(2);
  const long first_query = (long)sample * queries * heads + head, first_key = (long)sample * keys * heads + head;
  key += first_key * HEAD;
  value += first_key * VALUE;
  query += first_query * HEAD;
  dy += first_query * VALUE;
  bias += sample * bias_sample + head * bias_head;
  if (threshold > 0 && me == 0) head_key_to(state, (uint)stream, place_of(state, sample, keyed), head, own);
  if (me < ROWS) row_at[me] = min(first + at_place(me, ROWS), keys - 1);
  if (me == 0) zero[0] = threshold < 0;
  barrier(CLK_LOCAL_MEM_FENCE);

  float4 rows_fetched[rows_turns], columns_fetched[columns_turns], head_fetched[head_turns], value_fetched[value_turns];
  NO_SUMS(head, dkeys)
  NO_SUMS(value, dvalues)
  if (start < queries) { FETCH_OPERANDS(key, step, query, step, start, last, 0, HEAD) }
#define FETCH_NEXT \
  if (begin + COLUMNS < queries) { FETCH_OPERANDS(key, step, query, step, begin + COLUMNS, last, 0, HEAD) }
  ROLLED (int begin = start; begin < queries; begin += COLUMNS) {
    UNROLLED (int place = ITEM; place < COLUMNS; place += GROUP) {
      const int column = begin + at_place(place, COLUMNS);
      const long of = first_query + min(column, last) * heads;
      top_at[place] = tops[of];
      log_sum_at[place] = log_sums[of];
      delta_at[place] = deltas[of];
      seen_at[place] = column < queries ? keys_of(column, queries, keys, causal) : 0;
    }
    kept[ITEM] = threshold > 0 ? kept_queries(own, first, begin, threshold) : ~0u;
    NO_SCORES(weights)
    ADD_DOTS(weights, key, step, query, step, begin, last, HEAD)
    if (DVALUE) value_fetch(value_fetched, ITEM, dy, value_step, begin, last);
    float4 added;
    UNROLLED (int i = 0; i < 4; ++i) {
      if (i == 0 || bias_key != 0) added = bias_4(bias, (row_at + 4 * ITEM_ROW)[i] * bias_key, begin + ITEM_COLUMN, last, bias_query);
      weights[i] = scaled(weights[i], scale, added);
    }
    const float4 top = FOUR(top_at, COLUMN_OF(ITEM)), log_sum = FOUR(log_sum_at, COLUMN_OF(ITEM));
    const int4 seen = *(__local const int4*)(seen_at + 4 * COLUMN_OF(ITEM)) - (first + own_row(0));
    UNROLLED (int i = 0; i < 4; ++i) {
      const int on = own_row(i) - own_row(0);
      const float4 score = (float4)(seen.x > on ? weights[i].x : -INFINITY, seen.y > on ? weights[i].y : -INFINITY, seen.z > on ? weights[i].z : -INFINITY,
                                    seen.w > on ? weights[i].w : -INFINITY);
      weights[i] = decay_4(score - top - log_sum);
    }
    if (DVALUE) {
      ADD_SUMS(value, dvalues, weights, kept[ITEM], dy, value_step, begin, last,
               if (DKEY) { FETCH_OPERANDS(value, value_step, dy, value_step, begin, last, 0, VALUE) } else FETCH_NEXT)
    }
    if (DKEY) {
      if (!DVALUE) { FETCH_OPERANDS(value, value_step, dy, value_step, begin, last, 0, VALUE) }
      NO_SCORES(slopes)
      ADD_DOTS(slopes, value, value_step, dy, value_step, begin, last, VALUE)
      // As ITEM: where these queries lie was computed for dvalue, and would be kept until now.
      const int last_query = last + zero[0];
      head_fetch(head_fetched, ITEM, query, step, begin, last_query);
      const float4 delta = FOUR(delta_at, COLUMN_OF(ITEM));
      const uint own_kept = kept[ITEM];  // from local memory, or the outcomes of its bits would be kept as well
      UNROLLED (int i = 0; i < 4; ++i) slopes[i] = weights[i] * scaled(kept_of(slopes[i], own_kept, i), keep, -delta);
      ADD_SUMS(head, dkeys, slopes, ~0u, query, step, begin, last_query, FETCH_NEXT)
    }
  }
  if (DKEY) { STORE_SUMS(head, dkeys, dkey + first_key * HEAD, step, first, keys - 1, HEAD, scale) }
  if (DVALUE) { STORE_SUMS(value, dvalues, dvalue + first_key * VALUE, value_step, first, keys - 1, VALUE, keep) }
}
