// Attention of one query a sample, as in decoding with cached keys, on CPUs: keys and values are read where they lie, once, as fast as memory
// gives them. attention.clh has the formulas.
// Mapping: one work-item a group: one of `parts` shares of the keys of `part_keys` each, a multiple of 64, of one head of one sample.
// Options: those of attention_forward.clh, MR and QUERIES being 1.

#include "attention_forward.clh"

#define VECTORS(columns) (((columns) + WIDTH - 1) / WIDTH)

/// The query's products with the first `count` keys, `step` apart; further places of the last panel get those of the last one.
inline void score(const real* q, __global const STORED* key, long step, int count, float* scores) {
  for (int j = 0; j < PANELS(count) * NR; j += WIDTH) {
    real products[WIDTH], sum = 0;
    UNROLLED (int i = 0; i < WIDTH; ++i) {
      __global const STORED* row = key + min(j + i, count - 1) * step;
      if (j + i + WIDTH < count) ASK_FOR_LINES(row + WIDTH * step, HEAD)
      products[i] = 0;
      for (int x = 0; x < VECTORS(HEAD); ++x) products[i] = fma(q[x], load_part(row + x * WIDTH, HEAD - x * WIDTH), products[i]);
    }
    transpose_block(products);
    UNROLLED (int i = 0; i < WIDTH; ++i) sum += products[i];
    STORE(sum, scores + j);
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void attention_one(__global const STORED* restrict query, __global const STORED* restrict key, __global const STORED* restrict value,
                   __global const float* restrict bias, __global const long* restrict state, __global RESULT* restrict y,
                   __global float* restrict tops, __global float* restrict log_sums, const long samples, const long parts, const long part_keys, PROBLEM) {
  float scores[KEYS] ALIGNED, edge[KEYS] ALIGNED, drawn[KEYS] ALIGNED, results[BLOCK(1, VALUE)] ALIGNED;
  real q[VECTORS(HEAD)], sums[VECTORS(VALUE)];
  const long id = get_group_id(0), part = id % parts, head = id / parts % heads, sample = id / parts / heads;
  const long row = sample * heads + head, first_key = sample * keys * heads + head;
  float largest = LOWEST, total = 0;
  uint own[4];
  if (threshold > 0) head_key(state, (uint)stream, place_of(state, sample, keyed), head, own);
  for (int x = 0; x < VECTORS(HEAD); ++x) q[x] = load_part(query + row * HEAD + x * WIDTH, HEAD - x * WIDTH) * scale;
  for (int x = 0; x < VECTORS(VALUE); ++x) sums[x] = 0;
  bias += sample * bias_sample + head * bias_head;

  const long end = min((part + 1) * part_keys, keys);
  for (long begin = part * part_keys; begin < end; begin += KEYS) {
    const int count = (int)min((long)KEYS, end - begin), panels = PANELS(count);
    score(q, key + (first_key + begin * heads) * HEAD, heads * HEAD, count, scores);
    fill_edge(bias + begin * bias_key, bias_key, count, panels * NR, edge);
    if (threshold > 0) draw_factors(own, 0, begin, (count + 63) / 64 * 64, (float2)(threshold, keep), drawn);
    const float before = weigh(scores, panels, edge, threshold > 0 ? drawn : 0, &largest, &total);
    for (int x = 0; x < VECTORS(VALUE); ++x) sums[x] *= before;
    for (int j = 0; j < count; ++j) {
      __global const STORED* of = value + (first_key + (begin + j) * heads) * VALUE;
      if (j + ROWS_AHEAD < count) ASK_FOR_LINES(of + ROWS_AHEAD * heads * VALUE, VALUE)
      for (int x = 0; x < VECTORS(VALUE); ++x) sums[x] = fma((real)(scores[j]), load_part(of + x * WIDTH, VALUE - x * WIDTH), sums[x]);
    }
  }
  for (int x = 0; x < VECTORS(VALUE); ++x) STORE(sums[x], results + x * WIDTH);
  const long at = part * samples * heads + row;
  finish(largest, total, results, 1, y + at * VALUE, tops + at, log_sums + at);
}
