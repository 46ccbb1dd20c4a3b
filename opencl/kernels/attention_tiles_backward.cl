// Gradients of attention for CPUs. Computes the weights again by blocks, from the scores, top and log_sum.
//   weight = exp(score - top - log_sum),   kept = weight factor,   delta = dy . y,   slope = weight (factor (dy . value) - delta)
//   dquery = scale sum_keys slope key,   dkey = scale sum_queries slope query,   dvalue = sum_queries kept dy
// Mapping: work-groups of one item. Each takes one of `parts` shares of the keys, of `part_keys` each, a multiple of 64, of one head of one sample, and
// all queries. It writes the gradients of its keys and values, and a partial sum of dquery, float [parts, samples, queries, heads, HEAD], which
// attention_totals adds up in order.
// Options: those of attention_tiles.clh.

#include "attention_tiles.clh"

/// A query's scores become kept weights, and the products of its dy and the values slopes; both in panels of QUERIES rows.
/// @param of_query  top, log_sum, delta
static inline void find_slopes(float* weights, float* slopes, int panels, const float* edge, const float* drawn, const float4 of_query) {
  for (int p = 0; p < panels; ++p)
    for (int lane = 0; lane < NR; lane += WIDTH) {
      float *w = weights + p * QUERIES * NR + lane, *s = slopes + p * QUERIES * NR + lane;
      const real weight = DECAY_OF(LOAD(w) + LOAD(edge + p * NR + lane) - of_query.x - of_query.y);
      const real factor = drawn ? LOAD(drawn + p * NR + lane) : (real)1;
      STORE(weight * factor, w);
      STORE(weight * (LOAD(s) * factor - of_query.z), s);
    }
}

/// A query's panels [first, last) become 0: none of their keys is seen.
static inline void clear(float* row, int first, int last) {
  for (int p = first; p < last; ++p) {
    STORE((real)0, row + p * QUERIES * NR);
    STORE((real)0, row + p * QUERIES * NR + WIDTH);
  }
}

/// delta of a query, from its packed dy.
static inline float delta_of(const float* dy, __global const STORED* y) {
  real sum = 0;
  for (int j = 0; j < VALUE; j += WIDTH) sum = fma(LOAD(dy + j / NR * QUERIES * NR + j % NR), load_part(y + j, VALUE - j), sum);
  return lanes_total(sum);
}

static inline void add_numbers(const float* from, int count, float factor, __global float* to) {
  int j = 0;
  for (; j + WIDTH <= count; j += WIDTH) STORE(LOAD(to + j) + LOAD(from + j) * factor, to + j);
  for (; j < count; ++j) to[j] += from[j] * factor;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void attention_backward_tiles(__global const STORED* restrict dy, __global const STORED* restrict query, __global const STORED* restrict key,
                              __global const STORED* restrict value, __global const float* restrict bias, __global const STORED* restrict y,
                              __global const float* restrict tops, __global const float* restrict log_sums, __global const long* restrict state,
                              __global float* restrict dquery, __global STORED* restrict dkey, __global STORED* restrict dvalue,
                              const long samples, const long parts, const long part_keys, PROBLEM) {
  float q[BLOCK(QUERIES, HEAD)] ALIGNED, dys[BLOCK(QUERIES, VALUE)] ALIGNED, k[BLOCK(KEYS, HEAD)] ALIGNED, dk[BLOCK(KEYS, HEAD)] ALIGNED,
      dv[BLOCK(KEYS, VALUE)] ALIGNED, turned_keys[KEYS * HEAD] ALIGNED, turned_values[KEYS * VALUE] ALIGNED;
  float weights[BLOCK(QUERIES, KEYS)] ALIGNED, slopes[BLOCK(QUERIES, KEYS)] ALIGNED, tile[MR * NR] ALIGNED;
  float edge[KEYS] ALIGNED, edge_of_row[KEYS] ALIGNED, drawn[KEYS] ALIGNED, deltas[QUERIES];
  const long id = get_group_id(0), part = id % parts, head = id / parts % heads, sample = id / parts / heads;
  const long first_row = sample * queries * heads + head, first_key = sample * keys * heads + head;
  bias += sample * bias_sample + head * bias_head;
  dquery += part * samples * queries * heads * HEAD;
  uint own[4];
  if (threshold > 0) head_key(state, (uint)stream, place_of(state, sample, keyed), head, own);

  for (long i = 0; i < queries; ++i)
    for (int j = 0; j < HEAD; ++j) dquery[(first_row + i * heads) * HEAD + j] = 0;
  const long end = min((part + 1) * part_keys, keys);
  for (long begin = part * part_keys; begin < end; begin += KEYS) {
    const int count = (int)min((long)KEYS, end - begin), panels = PANELS(count);
    pack(key + (first_key + begin * heads) * HEAD, heads * HEAD, count, count, HEAD, 1, k, KEYS);
    pack_turned(key + (first_key + begin * heads) * HEAD, heads * HEAD, count, HEAD, turned_keys);
    pack_turned(value + (first_key + begin * heads) * VALUE, heads * VALUE, count, VALUE, turned_values);
    for (int i = 0; i < BLOCK(KEYS, HEAD); i += WIDTH) STORE((real)0, dk + i);
    for (int i = 0; i < BLOCK(KEYS, VALUE); i += WIDTH) STORE((real)0, dv + i);
    if (bias_query == 0) fill_edge(bias + begin * bias_key, bias_key, count, panels * NR, edge);

    for (long first = 0; first < queries; first += QUERIES) {
      const int rows = (int)min((long)QUERIES, queries - first), padded_rows = (rows + MR - 1) / MR * MR;
      const long at = first_row + first * heads;
      if (seen_by(first + rows - 1, queries, keys, causal) <= begin) continue;
      pack(query + at * HEAD, heads * HEAD, rows, padded_rows, HEAD, scale, q, QUERIES);
      pack(dy + at * VALUE, heads * VALUE, rows, padded_rows, VALUE, 1, dys, QUERIES);
      for (int r = 0; r < rows; ++r) {
        if (r + ROWS_AHEAD < rows) ASK_FOR_LINES(y + (at + (r + ROWS_AHEAD) * heads) * VALUE, VALUE)
        deltas[r] = delta_of(dys + r * NR, y + (at + r * heads) * VALUE);
      }
      for (int row = 0; row < rows; row += MR) {
        const int last = min(row + MR, rows) - 1, seen = (int)clamp(seen_by(first + last, queries, keys, causal) - begin, 0l, (long)count);
        for (int p = 0; p < PANELS(seen); ++p) {
          add_rows(q + row * NR, QUERIES * NR, turned_keys + p * HEAD * NR, HEAD, weights + (p * QUERIES + row) * NR, 0);
          add_rows(dys + row * NR, QUERIES * NR, turned_values + p * VALUE * NR, VALUE, slopes + (p * QUERIES + row) * NR, 0);
        }
        for (int r = row; r <= last; ++r) {
          const int seen_of_row = (int)clamp(seen_by(first + r, queries, keys, causal) - begin, 0l, (long)count);
          const bool same_edge = bias_query == 0 && seen_of_row == count;
          const long of = at + r * heads;
          if (!same_edge) fill_edge(bias + (first + r) * bias_query + begin * bias_key, bias_key, seen_of_row, PANELS(seen) * NR, edge_of_row);
          if (threshold > 0) draw_factors(own, first + r, begin, (seen + 63) / 64 * 64, (float2)(threshold, keep), drawn);
          find_slopes(weights + r * NR, slopes + r * NR, PANELS(seen), same_edge ? edge : edge_of_row, threshold > 0 ? drawn : 0,
                      (float4)(tops[of], log_sums[of], deltas[r], 0));
          clear(weights + r * NR, PANELS(seen), panels);
          clear(slopes + r * NR, PANELS(seen), panels);
        }
        for (int p = 0; p < PANELS(HEAD); ++p) {
          add_rows(slopes + row * NR, QUERIES * NR, k + p * KEYS * NR, seen, tile, 0);
          for (int r = row; r <= last; ++r)
            add_numbers(tile + (r - row) * NR, min(NR, HEAD - p * NR), scale, dquery + (at + r * heads) * HEAD + p * NR);
        }
      }
      for (int j = 0; j < count; j += MR) {  // of the queries that see a key of the tile
        const int skipped = causal ? (int)clamp(begin + j - (keys - queries) - first, 0l, (long)rows) : 0, from = (j / NR * QUERIES + skipped) * NR + j % NR;
        for (int p = 0; p < PANELS(VALUE); ++p)
          add_columns(weights + from, NR * NR, dys + (p * QUERIES + skipped) * NR, rows - skipped, dv + (p * KEYS + j) * NR, 1);
        for (int p = 0; p < PANELS(HEAD); ++p)
          add_columns(slopes + from, NR * NR, q + (p * QUERIES + skipped) * NR, rows - skipped, dk + (p * KEYS + j) * NR, 1);
      }
    }
    for (int j = 0; j < count; ++j) {
      const long of = first_key + (begin + j) * heads;
      store_row(dk + j * NR, KEYS, HEAD, 1, dkey + of * HEAD);
      store_row(dv + j * NR, KEYS, VALUE, 1, dvalue + of * VALUE);
    }
  }
}

/// The sum of each element's parts, `count` floats apart. Items: `run` neighbours each.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void attention_totals(__global const float* restrict sums, __global STORED* restrict dquery, const long count, const long parts, const long run) {
  const long last = min((long)(get_group_id(0) + 1) * run, count);
  long i = get_group_id(0) * run;
  for (; i + WIDTH <= last; i += WIDTH) {
    real sum = 0;
    for (long p = 0; p < parts; ++p) sum += LOAD(sums + p * count + i);
    STORE_RESULTS(sum, dquery + i);
  }
  for (; i < last; ++i) {
    float sum = 0;
    for (long p = 0; p < parts; ++p) sum += sums[p * count + i];
    dquery[i] = RESULT_OF(sum);
  }
}
