// Which algorithm an all-reduce runs: by size, from times that were measured once.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gemel::parallel {

enum class Algorithm {
  ring,          // reduce-scatter and all-gather around a ring, in chunks
  tree,          // recursive doubling of small messages, halving and doubling of large ones
  shared,        // straight from each other's memory, inside one machine
  hierarchical,  // shared inside each machine, a ring or a tree between their first ranks
  carrier,       // MPI's own
};
/// "ring", "tree", "shared", "hierarchical", "mpi"
std::string_view to_string(Algorithm algorithm);
/// The inverse; nothing for "auto". @throws UsageError: names those there are
std::optional<Algorithm> parse_algorithm(std::string_view name);

/// What is fastest by size.
struct Limits {
  struct Range {
    std::int64_t from;  // bytes
    Algorithm algorithm;
    friend bool operator==(const Range&, const Range&) = default;
  };
  std::vector<Range> ranges{{0, Algorithm::tree}, {1 << 20, Algorithm::ring}};  // ascending, the first from 0
  std::int64_t halving_from = 16 << 10;                                         // bytes from which on a tree halves and doubles

  const Range& at(std::int64_t bytes) const;
  friend bool operator==(const Limits&, const Limits&) = default;
};
/// "halving 16384, tree 0, ring 1048576": for checkpoints and messages.
std::string to_string(const Limits& limits);
/// The inverse. @throws DataError
Limits parse_limits(std::string_view text);

}  // namespace gemel::parallel
