// Communicator: the interface by which ranks exchange messages. Collectives (parallel/collectives) are built on it, whatever the transport.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/resource_limits.h"
#include "parallel/reduction.h"
#include "parallel/transport/spin_wait.h"
#include "parallel/transport/uneven_inputs.h"

namespace gemel::parallel {

/// An array of elements in host memory.
struct Elements {
  std::byte* first = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::float32;

  std::int64_t bytes() const { return count * static_cast<std::int64_t>(size_of(dtype)); }
  std::span<std::byte> span() const { return {first, static_cast<std::size_t>(bytes())}; }
  Elements part(std::int64_t begin, std::int64_t elements) const { return {first + begin * static_cast<std::int64_t>(size_of(dtype)), elements, dtype}; }
};
inline Elements elements_of(std::span<float> values) {
  return {reinterpret_cast<std::byte*>(values.data()), static_cast<std::int64_t>(values.size()), DType::float32};
}
/// Returns the bytes of one value, for a message.
template <class T>
std::span<std::byte> raw_bytes(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// A pending message. Its memory is in use until `wait` returns.
class Transfer {
 public:
  class State {
   public:
    virtual ~State() = default;
    /// @throws CommError
    virtual void wait() = 0;
  };
  Transfer() = default;
  explicit Transfer(std::unique_ptr<State> state) : state_(std::move(state)) {}
  /// Waits for the message; returns at once if there is none.
  void wait() {
    if (state_) std::exchange(state_, nullptr)->wait();
  }

 private:
  std::unique_ptr<State> state_;
};

class SharedGroup;

/// The machine and the cores of each rank.
struct Placement {
  std::vector<std::string> hosts;  // [rank]
  std::vector<int> local_rank;     // [rank] its number on its machine, in the order of ranks
  std::vector<int> cores;          // [rank] share of its machine's cores that ranks may use; 0: more ranks than cores

  /// @param allowed  [rank] cores that it may use
  static Placement of(std::vector<std::string> hosts, std::span<const AllowedCores> allowed);
  /// Placement of some ranks, with unchanged shares.
  Placement part(std::span<const int> ranks) const;
  /// Ranks on the machine of `rank`, ascending.
  std::vector<int> beside(int rank) const;
};

/// One rank's end of the communication. All calls come from one thread. Messages of one tag between two ranks arrive in the order in which they were sent.
class Communicator : protected Notes {
 public:
  /// One rank of a group of ranks.
  struct Member {
    int rank;
    Placement placement;
    std::shared_ptr<RankWaits> waits;
    std::vector<int> numbers;  // [rank] its number in the job
  };

  ~Communicator() override = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(placement_.hosts.size()); }
  const Placement& placement() const { return placement_; }
  const std::string& host(int rank) const { return placement_.hosts[static_cast<std::size_t>(rank)]; }
  int local_rank() const { return placement_.local_rank[static_cast<std::size_t>(rank_)]; }
  int local_size() const { return static_cast<int>(placement_.beside(rank_).size()); }

  /// Start a message. A receive has the length of its send. Lengths may exceed 2^31 bytes.
  /// @param tag  0..kTags-1
  /// @throws CommError if the transport refuses; the transfer's `wait` throws it if a rank is lost or lengths differ
  virtual Transfer send(int to, std::span<const std::byte> bytes, int tag = 0) = 0;
  virtual Transfer receive(int from, std::span<std::byte> bytes, int tag = 0) = 0;
  static constexpr int kTags = 1 << 14;

  /// Name of the transport: "mpi", "threads".
  virtual std::string_view carrier() const = 0;
  /// Makes a communicator of some ranks in this order; collective among them. It fails with this communicator, which must outlive it.
  /// @param ranks  numbers in this communicator, with this rank
  virtual std::unique_ptr<Communicator> group(std::span<const int> ranks) = 0;
  /// The ranks of this machine with their shared memory; null if there is one rank, or no shared memory.
  virtual SharedGroup* shared() { return nullptr; }
  /// Runs the transport's own all-reduce.
  /// @return false if it has none
  virtual bool carrier_all_reduce(const Elements&, Reduction) { return false; }

  /// Tracks which ranks still take part, so that waits for a rank that has ended or joined fail with an error that names it.
  Participation& participation() { return participation_; }
  /// Ends the waits of this rank, also in its groups.
  RankWaits& waits() { return *waits_; }
  /// Tells the others that this rank takes part in nothing more. The destructor does so too.
  void goodbye() { participation_.end(); }

  /// Sets how this rank waits, also in shared memory.
  virtual void wait_as(const WaitPolicy& policy) = 0;
  /// Ends every present and future wait of this rank with a CommError of that text. From any thread.
  virtual void abort(const std::string& why) = 0;

 protected:
  explicit Communicator(Member self)
      : rank_(self.rank), placement_(std::move(self.placement)), waits_(self.waits), participation_(*this, self.waits, rank_, std::move(self.numbers)) {}
  const std::shared_ptr<RankWaits>& waits_of_rank() const { return waits_; }
  /// Numbers in the job of some of this communicator's ranks.
  std::vector<int> numbers_of(std::span<const int> ranks) const { return participation_.numbers_of(ranks); }

 private:
  int rank_;
  Placement placement_;
  std::shared_ptr<RankWaits> waits_;
  Participation participation_;
};

}  // namespace gemel::parallel
