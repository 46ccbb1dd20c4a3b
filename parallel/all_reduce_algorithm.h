// The algorithms of all-reduce, and the choice between them by message size.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gemel::parallel {

enum class Algorithm {
  ring,          // reduce-scatter and all-gather around a ring, in chunks
  tree,          // recursive doubling for small messages, recursive halving and doubling for large ones
  shared,        // within one machine: each rank reads the memory of the others
  hierarchical,  // shared within each machine, ring or tree between the machines' first ranks
  carrier,       // the all-reduce of MPI
};
/// "ring", "tree", "shared", "hierarchical", "mpi"
std::string_view to_string(Algorithm algorithm);
/// Parses a name of to_string; nothing for "auto".
/// @throws UsageError for any other name, lists the names
std::optional<Algorithm> parse_algorithm(std::string_view name);

/// The fastest algorithm for each message size.
struct Limits {
  struct Range {
    std::int64_t from;  // bytes
    Algorithm algorithm;
    friend bool operator==(const Range&, const Range&) = default;
  };
  std::vector<Range> ranges{{0, Algorithm::tree}, {1 << 20, Algorithm::ring}};  // ascending, the first from 0
  std::int64_t halving_from = 16 << 10;                                         // bytes from which a tree uses recursive halving and doubling

  const Range& at(std::int64_t bytes) const;
  friend bool operator==(const Limits&, const Limits&) = default;
};
/// Text for checkpoints and messages: "halving 16384, tree 0, ring 1048576".
std::string to_string(const Limits& limits);
/// Parses a text of to_string.
/// @throws DataError for any other text
Limits parse_limits(std::string_view text);

}  // namespace gemel::parallel
