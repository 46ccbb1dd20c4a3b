// Attention for CPUs. Formulas: attention.clh. Computes scores by blocks of keys with a running maximum and a running sum, so that only one block
// of scores exists at a time.
// Mapping: work-groups of one item. Each computes `block` queries, at most QUERIES, of one head of one sample, over one of `parts` shares of the keys of
// `part_keys` each, a multiple of 64. With PARTS results are float [parts, samples, queries, heads, *], not yet divided by their sums, log_sum is
// the sum, and attention_join joins them.
// Options: those of attention_tiles.clh; PARTS.
// Source: T. Dao et al., FlashAttention, 2022; M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, 2018

#include "attention_forward.clh"

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void attention_tiles(__global const STORED* restrict query, __global const STORED* restrict key, __global const STORED* restrict value,
                     __global const float* restrict bias, __global const long* restrict state, __global RESULT* restrict y,
                     __global float* restrict tops, __global float* restrict log_sums, const long samples, const long parts, const long part_keys,
                     const long block, PROBLEM) {
  float q[BLOCK(QUERIES, HEAD)] ALIGNED, turned_keys[KEYS * HEAD] ALIGNED, values[BLOCK(KEYS, VALUE)] ALIGNED, y_sums[BLOCK(QUERIES, VALUE)] ALIGNED;
  float scores[MR * KEYS] ALIGNED, edge[KEYS] ALIGNED, edge_of_row[KEYS] ALIGNED, drawn[KEYS] ALIGNED, largest[QUERIES], totals[QUERIES];
  const long blocks = (queries + block - 1) / block, id = get_group_id(0);
  const long head = id / blocks % heads, part = id / blocks / heads % parts, sample = id / blocks / heads / parts;
  const long first = fair_block(id % blocks, blocks) * block;
  const int rows = (int)min(block, queries - first), padded_rows = (rows + MR - 1) / MR * MR;
  const long first_row = (sample * queries + first) * heads + head, first_key = sample * keys * heads + head;
  bias += sample * bias_sample + head * bias_head + first * bias_query;
  uint own[4];
  if (threshold > 0) head_key(state, (uint)stream, place_of(state, sample, keyed), head, own);

  pack(query + first_row * HEAD, heads * HEAD, rows, padded_rows, HEAD, scale, q, QUERIES);
  for (int i = 0; i < BLOCK(QUERIES, VALUE); i += WIDTH) STORE((real)0, y_sums + i);
  for (int r = 0; r < rows; ++r) largest[r] = LOWEST, totals[r] = 0;

  const long end = min((part + 1) * part_keys, seen_by(first + rows - 1, queries, keys, causal));
  for (long begin = part * part_keys; begin < end; begin += KEYS) {
    const int count = (int)min((long)KEYS, end - begin);
    pack_turned(key + (first_key + begin * heads) * HEAD, heads * HEAD, count, HEAD, turned_keys);
    pack(value + (first_key + begin * heads) * VALUE, heads * VALUE, count, count, VALUE, 1, values, KEYS);
    if (bias_query == 0) fill_edge(bias + begin * bias_key, bias_key, count, PANELS(count) * NR, edge);
    for (int row = 0; row < rows; row += MR) {
      const int last = min(row + MR, rows) - 1, seen = (int)clamp(seen_by(first + last, queries, keys, causal) - begin, 0l, (long)count);
      const int panels = PANELS(seen);
      for (int p = 0; p < panels; ++p) add_rows(q + row * NR, QUERIES * NR, turned_keys + p * HEAD * NR, HEAD, scores + p * MR * NR, 0);
      for (int r = row; panels > 0 && r <= last; ++r) {
        const int seen_of_row = (int)clamp(seen_by(first + r, queries, keys, causal) - begin, 0l, (long)count);
        const bool same_edge = bias_query == 0 && seen_of_row == count;
        if (!same_edge) fill_edge(bias + r * bias_query + begin * bias_key, bias_key, seen_of_row, panels * NR, edge_of_row);
        if (threshold > 0) draw_factors(own, first + r, begin, (seen + 63) / 64 * 64, (float2)(threshold, keep), drawn);
        const float before = weigh(scores + (r - row) * NR, panels, same_edge ? edge : edge_of_row, threshold > 0 ? drawn : 0, largest + r, totals + r);
        if (before == 1 || begin == part * part_keys) continue;
        for (int p = 0; p < PANELS(VALUE); ++p) {
          float* at = y_sums + (p * QUERIES + r) * NR;
          STORE(LOAD(at) * before, at);
          STORE(LOAD(at + WIDTH) * before, at + WIDTH);
        }
      }
      for (int p = 0; p < PANELS(VALUE) && panels > 0; ++p)
        add_rows(scores, MR * NR, values + p * KEYS * NR, seen, y_sums + (p * QUERIES + row) * NR, 1);
    }
  }

  for (int r = 0; r < rows; ++r) {
    const long at = part * samples * queries * heads + first_row + r * heads;
    finish(largest[r], totals[r], y_sums + r * NR, QUERIES, y + at * VALUE, tops + at, log_sums + at);
  }
}
