// Collectives over a communicator's messages and shared memory. Every rank must call them in the same order with matching arguments.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/host_view.h"
#include "parallel/all_reduce_algorithm.h"
#include "parallel/transport/communicator.h"

namespace gemel::parallel {

class Collectives {
 public:
  /// @param communicator  must outlive this object
  /// @param fixed  algorithm of every all-reduce; none: chosen by size, see `set_limits`
  /// @throws UsageError if the ranks cannot run the algorithm
  explicit Collectives(Communicator& communicator, std::optional<Algorithm> fixed = {});

  Communicator& communicator() const { return communicator_; }
  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }

  /// Replaces the elements of each rank by their reduction over all ranks, with the same bits on every rank.
  /// @throws ShapeError for booleans  @throws CommError
  void all_reduce(const Elements& data, Reduction reduction = Reduction::sum);
  /// All-reduce by a given algorithm, which the ranks must be able to run: see `check`. `carrier` uses a tree for element types that MPI cannot reduce.
  void all_reduce(const Elements& data, Reduction reduction, Algorithm algorithm);
  /// The algorithm of `all_reduce` for a number of bytes, and the reason for it: "shared: the ranks of one machine".
  struct Chosen {
    Algorithm algorithm;
    std::string why;
  };
  Chosen choice(std::int64_t bytes) const;
  Algorithm algorithm(std::int64_t bytes) const;
  /// @throws UsageError if the ranks cannot run the algorithm, with the reason
  void check(Algorithm algorithm) const;

  /// Sends the root's bytes to all ranks.
  /// @param bytes  of the same length on every rank  @throws CommError
  void broadcast(std::span<std::byte> bytes, int root = 0);
  /// Replaces the root's elements by their reduction over all ranks, in the order of ranks from the root on. Elements of other ranks are unchanged.
  void reduce(const Elements& data, Reduction reduction = Reduction::sum, int root = 0);
  /// Gathers the bytes of each rank, of any length each.
  /// @return [rank]
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine);
  /// Returns the first element of a rank's piece of `count` elements divided among `size` ranks: the first count mod size pieces have one more element.
  static std::int64_t piece_begin(std::int64_t count, int rank, int size);
  /// Replaces piece r on rank r by its reduction over all ranks; the other pieces become undefined.
  void reduce_scatter(const Elements& data, Reduction reduction = Reduction::sum);
  /// Sends bytes from each rank to each rank.
  /// @param given  [rank] bytes for it  @return [rank] bytes from it
  std::vector<std::vector<std::byte>> all_to_all(std::span<const std::vector<std::byte>> given);
  /// Waits until all ranks have called it. @throws CommError
  void barrier();
  /// Calls SharedGroup::allocate on each machine.
  /// @return the memory; empty also on a rank that shares no memory  @throws CommError
  HostBytes allocate_shared(std::int64_t bytes);
  /// Call when this rank has run out of data. It takes part in the collectives of the others with neutral data until all ranks have joined.
  /// @return the rank that joined last  @throws CommError if a rank ended without having joined
  int join();

  /// Algorithm of every all-reduce; none: chosen by size.
  const std::optional<Algorithm>& fixed() const { return fixed_; }
  bool chooses_by_size() const { return !fixed_; }
  /// Message sizes at which the algorithm changes, the same on every rank.
  const Limits& limits() const { return limits_; }
  void set_limits(const Limits& limits) { limits_ = limits; }
  /// Measures the limits and sets those of rank 0 on all ranks. Collective.
  void measure_limits();

 private:
  Communicator& communicator_;
  std::optional<Algorithm> fixed_;
  Limits limits_;
  int machines_ = 1;  // number of machines that the ranks run on
  std::vector<std::byte> scratch_;
  std::unique_ptr<Communicator> leaders_;  // the first rank of each machine; null on other ranks, and if all ranks or none are leaders
  std::unique_ptr<Collectives> between_;   // collectives of the leaders

  Participation::Round begin(const Call& call) { return {communicator_.participation(), call}; }
  void take_part(const Call& call);
  std::span<std::byte> scratch(std::int64_t bytes);
  void shared_all_reduce(const Elements& data, Reduction reduction);
  void ring_all_reduce(const Elements& data, Reduction reduction);
  void tree_all_reduce(const Elements& data, Reduction reduction);
  void hierarchical_all_reduce(const Elements& data, Reduction reduction);
  std::vector<std::vector<std::byte>> exchange(std::span<const std::span<const std::byte>> given);
  bool one_machine() const { return machines_ == 1; }
  bool shares_all() const { return one_machine() && communicator_.shared(); }
  std::vector<Algorithm> other_than_tree();
  double least_seconds(const Elements& data, Algorithm algorithm);
};

}  // namespace gemel::parallel
