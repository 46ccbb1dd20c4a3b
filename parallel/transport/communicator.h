// Communicator: ranks that exchange messages. The collectives (parallel/collectives) are written on it, whatever carries the messages.
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

/// A run of elements in the host's memory.
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
/// The bytes of one value, for a message.
template <class T>
std::span<std::byte> raw_bytes(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// A message on its way. Its memory is in use until it is done.
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
  /// Of an empty one: at once.
  void wait() {
    if (state_) std::exchange(state_, nullptr)->wait();
  }

 private:
  std::unique_ptr<State> state_;
};

class SharedGroup;

/// Which machine each rank runs on.
struct Placement {
  std::vector<std::string> hosts;  // [rank]
  std::vector<int> local_rank;     // [rank] its number among those of its machine, in the order of ranks
  std::vector<int> cores;          // [rank] its share of those that it and others of its machine may use; 0: there are more ranks than cores

  /// @param allowed  [rank]
  static Placement of(std::vector<std::string> hosts, std::span<const AllowedCores> allowed);
  /// Of some ranks, whose shares stay.
  Placement part(std::span<const int> ranks) const;
  /// Ranks on the machine of `rank`, ascending.
  std::vector<int> beside(int rank) const;
};

/// One rank's end. All calls come from one thread, in the same order of collectives on every rank; messages between two ranks with one
/// tag arrive in the order in which they were sent.
class Communicator : protected Notes {
 public:
  /// A rank of a group.
  struct Member {
    int rank;
    Placement placement;
    std::shared_ptr<RankWaits> waits;
    std::vector<int> numbers;  // [rank] in the job
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

  /// Begin a message. A receive's memory is as long as what is sent. Lengths may exceed 2^31 bytes.
  /// @param tag  0..kTags-1
  /// @throws CommError where the carrier refuses; so does the transfer's `wait` where a rank is lost or lengths differ
  virtual Transfer send(int to, std::span<const std::byte> bytes, int tag = 0) = 0;
  virtual Transfer receive(int from, std::span<std::byte> bytes, int tag = 0) = 0;
  static constexpr int kTags = 1 << 14;

  /// What carries the messages: "mpi", "threads".
  virtual std::string_view carrier() const = 0;
  /// A communicator of some ranks, which keep this order and all call it at once. Its failures are this one's. This one must outlive it.
  /// @param ranks  of this communicator; this rank is one of them
  virtual std::unique_ptr<Communicator> group(std::span<const int> ranks) = 0;
  /// The ranks of this machine over memory that all of them see; null where there is one alone, or no such memory.
  virtual SharedGroup* shared() { return nullptr; }
  /// The carrier's own all-reduce. @return false where it has none
  virtual bool carrier_all_reduce(const Elements&, Reduction) { return false; }

  /// How long the ranks take part. What waits here looks at it, and ends with an error that names a rank that will not do its part.
  Attendance& attendance() { return attendance_; }
  /// What ends the waits of this rank, in its groups too.
  RankWaits& waits() { return *waits_; }
  /// The orderly end: this rank takes part in nothing more, and waits for nobody. The destructor says so, too.
  void goodbye() { attendance_.end(); }

  /// How this rank waits, in shared memory too.
  virtual void wait_as(const WaitPolicy& policy) = 0;
  /// Ends every wait of this rank, now and later, with a CommError of that text. From any thread.
  virtual void abort(const std::string& why) = 0;

 protected:
  explicit Communicator(Member self)
      : rank_(self.rank), placement_(std::move(self.placement)), waits_(self.waits), attendance_(*this, self.waits, rank_, std::move(self.numbers)) {}
  const std::shared_ptr<RankWaits>& waits_of_rank() const { return waits_; }
  /// [rank] of a group of some of this one's ranks.
  std::vector<int> numbers_of(std::span<const int> ranks) const { return attendance_.numbers_of(ranks); }

 private:
  int rank_;
  Placement placement_;
  std::shared_ptr<RankWaits> waits_;
  Attendance attendance_;
};

}  // namespace gemel::parallel
