// Collectives on a communicator's messages and shared memory. Every rank calls them in the same order with matching arguments.
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
  /// @param fixed  the algorithm of every all-reduce; none: by size, see `set_limits`. The communicator must outlive this
  /// @throws UsageError where the ranks cannot run it
  explicit Collectives(Communicator& communicator, std::optional<Algorithm> fixed = {});

  Communicator& communicator() const { return communicator_; }
  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }

  /// The elements of all ranks become their reduction, on every rank the same bits.
  /// @throws ShapeError for booleans  @throws CommError
  void all_reduce(const Elements& data, Reduction reduction = Reduction::sum);
  /// By that algorithm, which the ranks must be able to run: see `check`. `carrier` runs a tree for types that MPI does not add.
  void all_reduce(const Elements& data, Reduction reduction, Algorithm algorithm);
  /// What `all_reduce` runs for so many bytes, and why: "shared: the ranks of one machine".
  struct Chosen {
    Algorithm algorithm;
    std::string why;
  };
  Chosen choice(std::int64_t bytes) const;
  Algorithm algorithm(std::int64_t bytes) const;
  /// @throws UsageError where the ranks cannot run it: says why
  void check(Algorithm algorithm) const;

  /// All ranks get the root's bytes. @param bytes  as many on every rank  @throws CommError
  void broadcast(std::span<std::byte> bytes, int root = 0);
  /// The elements of all ranks become their reduction on the root, summed in the order of ranks from it on; on others they stay.
  void reduce(const Elements& data, Reduction reduction = Reduction::sum, int root = 0);
  /// What each rank gives, of any length: [rank].
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine);
  /// Where the piece of a rank begins in `count` elements cut for `size` ranks: the first count mod size pieces have one more.
  static std::int64_t piece_begin(std::int64_t count, int rank, int size);
  /// Piece r of the elements of all ranks becomes its reduction on rank r; the other pieces are undefined.
  void reduce_scatter(const Elements& data, Reduction reduction = Reduction::sum);
  /// @param given  [rank] what goes to it  @return [rank] what came from it
  std::vector<std::vector<std::byte>> all_to_all(std::span<const std::vector<std::byte>> given);
  /// Waits until all ranks have called it. @throws CommError
  void barrier();
  /// SharedGroup::allocate on each machine. @return empty, too, on a rank that shares no memory  @throws CommError
  HostBytes allocate_shared(std::int64_t bytes);
  /// This rank has run out of data: it takes part in all that the others do, and changes nothing, until all ranks have joined.
  /// @return the rank that joined last  @throws CommError where one ended without having joined
  int join();

  /// The algorithm of every all-reduce; none: it is chosen by size.
  const std::optional<Algorithm>& fixed() const { return fixed_; }
  bool chooses_by_size() const { return !fixed_; }
  /// Sizes between algorithms, the same on every rank.
  const Limits& limits() const { return limits_; }
  void set_limits(const Limits& limits) { limits_ = limits; }
  /// Measures and sets them: rank 0 decides, all take them. Collective.
  void measure_limits();

 private:
  Communicator& communicator_;
  std::optional<Algorithm> fixed_;
  Limits limits_;
  int machines_ = 1;  // that the ranks run on
  std::vector<std::byte> scratch_;
  std::unique_ptr<Communicator> leaders_;  // the first rank of each machine; null on the others, and where all or none are leaders
  std::unique_ptr<Collectives> between_;   // of the leaders

  Attendance::Round begin(const Call& call) { return {communicator_.attendance(), call}; }
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
