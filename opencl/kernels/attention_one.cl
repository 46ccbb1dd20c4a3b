// Attention of one query for each sample, as in decoding with cached keys, for CPUs. Reads keys and values once, in memory order, so that the
// hardware prefetches them. Formulas: attention.clh.
// Mapping: work-groups of one item. Each computes up to HEADS heads of one sample, whose keys are adjacent, and one of `parts` shares of the keys of
// `part_keys` each, a multiple of 64.
// Options: those of attention_forward.clh with MR and QUERIES 1; HEADS.

#include "attention_forward.clh"

#define VECTORS(columns) (((columns) + WIDTH - 1) / WIDTH)
#define PADDED(columns) (VECTORS(columns) * WIDTH)

/// scores[h][j] of `count` keys, all their heads being `step` apart; further places of the last vector get those of the last key.
static inline void score(const float q[HEADS][PADDED(HEAD)], __global const STORED* key, long step, int heads, int count, float scores[HEADS][KEYS]) {
  for (int j = 0; j < count; j += WIDTH) {
    real products[HEADS][WIDTH];
    for (int i = 0; i < WIDTH; ++i) {
      __global const STORED* row = key + min(j + i, count - 1) * step;
      for (int h = 0; h < heads; ++h) {
        real product = 0;
        UNROLLED (int x = 0; x < HEAD; x += WIDTH) product = fma(LOAD(q[h] + x), load_part(row + h * HEAD + x, HEAD - x), product);
        products[h][i] = product;
      }
    }
    for (int h = 0; h < heads; ++h) {
      real sum = 0;
      transpose_block(products[h]);
      UNROLLED (int i = 0; i < WIDTH; ++i) sum += products[h][i];
      STORE(sum, scores[h] + j);
    }
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void attention_one(__global const STORED* restrict query, __global const STORED* restrict key, __global const STORED* restrict value,
                   __global const float* restrict bias, __global const long* restrict state, __global RESULT* restrict y,
                   __global float* restrict tops, __global float* restrict log_sums, const long samples, const long parts, const long part_keys, PROBLEM) {
  float q[HEADS][PADDED(HEAD)] ALIGNED, scores[HEADS][KEYS] ALIGNED, sums[HEADS][BLOCK(1, VALUE)] ALIGNED, largest[HEADS], totals[HEADS];
  float edge[KEYS] ALIGNED, drawn[KEYS] ALIGNED;
  const long groups = (heads + HEADS - 1) / HEADS, id = get_group_id(0), part = id % parts, group = id / parts % groups, sample = id / parts / groups;
  const long first_head = group * HEADS, row = sample * heads + first_head, first_key = sample * keys * heads + first_head;
  const int own_heads = (int)min((long)HEADS, heads - first_head);
  bias += sample * bias_sample + first_head * bias_head;
  for (int h = 0; h < own_heads; ++h) {
    largest[h] = LOWEST, totals[h] = 0;
    for (int x = 0; x < HEAD; x += WIDTH) STORE(load_part(query + (row + h) * HEAD + x, HEAD - x) * scale, q[h] + x);
    for (int x = 0; x < VALUE; x += WIDTH) STORE((real)0, sums[h] + x);
    for (int j = 0; j < KEYS; j += WIDTH) STORE((real)0, scores[h] + j);
  }

  const long end = min((part + 1) * part_keys, keys);
  for (long begin = part * part_keys; begin < end; begin += KEYS) {
    const int count = (int)min((long)KEYS, end - begin);
    const long at = first_key + begin * heads;
    score(q, key + at * HEAD, heads * HEAD, own_heads, count, scores);
    for (int h = 0; h < own_heads; ++h) {
      if (h == 0 || bias_head > 0) fill_edge(bias + h * bias_head + begin * bias_key, bias_key, count, PANELS(count) * NR, edge);
      if (threshold > 0) {
        uint own[4];
        head_key(state, (uint)stream, place_of(state, sample, keyed), first_head + h, own);
        draw_factors(own, 0, begin, (count + 63) / 64 * 64, (float2)(threshold, keep), drawn);
      }
      const float before = weigh(scores[h], PANELS(count), edge, threshold > 0 ? drawn : 0, largest + h, totals + h);
      for (int x = 0; x < VALUE; x += WIDTH) STORE(LOAD(sums[h] + x) * before, sums[h] + x);
    }
    for (int j = 0; j < count; ++j) {
      __global const STORED* of = value + (at + j * heads) * VALUE;
      for (int h = 0; h < own_heads; ++h)
        UNROLLED (int x = 0; x < VALUE; x += WIDTH) STORE(fma((real)(scores[h][j]), load_part(of + h * VALUE + x, VALUE - x), LOAD(sums[h] + x)), sums[h] + x);
    }
  }
  for (int h = 0; h < own_heads; ++h) {
    const long to = part * samples * heads + row + h;
    finish(largest[h], totals[h], sums[h], 1, y + to * VALUE, tops + to, log_sums + to);
  }
}
