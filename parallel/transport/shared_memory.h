// SharedGroup: the ranks of one machine with memory that all of them see. Collectives access each other's data in place if it is in this memory; other data is
// copied through a small stage of each rank.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/host_view.h"
#include "parallel/transport/spin_wait.h"

namespace gemel::parallel {

/// Location of a rank's data, told to the others at a barrier.
struct SharedPlace {
  std::int64_t segment = -1;  // -1: not in shared memory
  std::int64_t offset = 0;    // in bytes
};

/// A rank's cache line in the control memory. Other ranks read it and wait for its count.
struct alignas(64) SharedLine {
  SharedCount arrived;
  std::array<SharedPlace, 2> places;  // of the last two barriers: one may be read while the next is written
};

class SharedGroup {
 public:
  virtual ~SharedGroup() = default;
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  /// Rank and number of ranks on the machine.
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Allocates `bytes` of shared memory for each rank; collective. Pages are reserved, so that later access cannot fail. Memory that all ranks have released is
  /// freed at the next call.
  /// @return this rank's memory; empty on all ranks if one of them cannot allocate
  virtual HostBytes allocate(std::int64_t bytes) = 0;

  /// Waits until all ranks have arrived. What a rank wrote before is visible to all after.
  /// @param data  memory that the others find by `of`; may be null
  void barrier(const std::byte* data = nullptr);
  /// Returns the data that a rank named at the last barrier; null if it is not in shared memory.
  std::byte* of(int rank) const;

  /// Halves of a rank's stage, `kStageBytes` each: one can be filled while the other is read.
  static constexpr std::int64_t kStageBytes = std::int64_t{1} << 18;
  std::span<std::byte> stage(int rank, std::uint32_t half) const;
  /// Returns the half to use next, alternating.
  std::uint32_t next_half() { return half_++ & 1; }

  /// Wait policy of barriers.
  WaitPolicy& policy() { return policy_; }

 protected:
  SharedGroup(int rank, int size, const WaitCheck& check) : rank_(rank), size_(size), check_(check) {}
  /// Bytes of the control memory: the lines, then the stages.
  static std::int64_t control_bytes(int size);
  /// Sets the control memory.
  /// @param control  zeros at first, seen by all ranks
  void use(std::byte* control);
  virtual SharedPlace place_of(const std::byte* data) const = 0;
  virtual std::byte* address_of(int rank, const SharedPlace& place) const = 0;

 private:
  SharedLine& line(int rank) const { return lines_[rank]; }
  int rank_, size_;
  const WaitCheck& check_;
  WaitPolicy policy_;
  SharedLine* lines_ = nullptr;
  std::byte* stages_ = nullptr;
  std::uint32_t count_ = 0, half_ = 0;
};

}  // namespace gemel::parallel
