// Splits a batch into micro-batches and each of them into shards, one a rank. Where a number of samples does not divide, the first parts have one more. Ranks
// may have unequal shares.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace gemel::datasets {

/// Samples begin..begin+count-1 of a batch.
struct SampleRun {
  std::int64_t begin, count;
  friend bool operator==(const SampleRun&, const SampleRun&) = default;
};

/// Part `i` of `samples` split into `parts`.
constexpr SampleRun part_of(std::int64_t samples, std::int64_t i, std::int64_t parts) {
  const std::int64_t least = samples / parts, larger = samples % parts;
  return {least * i + std::min(i, larger), least + (i < larger)};
}

/// [rank] relative share of each batch; empty: equal shares.
using Shares = std::vector<std::int64_t>;

/// Part of a rank by its share, in whole samples. It equals the share where there are as many samples as the shares add up to.
inline SampleRun part_of(std::int64_t samples, int rank, int ranks, const Shares& shares) {
  if (shares.empty()) return part_of(samples, rank, ranks);
  std::int64_t all = 0, before = 0;
  for (int r = 0; r < ranks; ++r) {
    all += shares[static_cast<std::size_t>(r)];
    if (r < rank) before += shares[static_cast<std::size_t>(r)];
  }
  const auto edge = [&](std::int64_t parts) { return (2 * samples * parts + all) / (2 * all); };  // rounded to the nearest
  const std::int64_t begin = edge(before);
  return {begin, edge(before + shares[static_cast<std::size_t>(rank)]) - begin};
}

/// Returns the samples of a batch that a rank trains, one run a micro-batch; a run may be empty.
/// @param micro_batches  reduced to the number of samples if there are fewer samples
inline std::vector<SampleRun> shard_of(std::int64_t samples, std::int64_t micro_batches, int rank, int ranks, const Shares& shares = {}) {
  std::vector<SampleRun> out;
  const std::int64_t parts = std::max<std::int64_t>(1, std::min(micro_batches, samples));
  for (std::int64_t k = 0; k < parts; ++k) {
    const SampleRun micro = part_of(samples, k, parts), mine = part_of(micro.count, rank, ranks, shares);
    out.push_back({micro.begin + mine.begin, mine.count});
  }
  return out;
}

}  // namespace gemel::datasets
