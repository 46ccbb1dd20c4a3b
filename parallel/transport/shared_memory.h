// SharedGroup: the ranks of one machine over memory that all of them see. Collectives inside a machine read and write each other's
// memory where it lies; what lies elsewhere passes through a small stage of each rank.
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

/// What a rank tells the others when it arrives at a barrier: where its data lie.
struct SharedPlace {
  std::int64_t segment = -1;  // -1: in memory of its own
  std::int64_t offset = 0;    // bytes from the segment's first
};

/// A rank's line of the control page. The others read it, and wait for its count.
struct alignas(64) SharedLine {
  SharedCount arrived;
  std::array<SharedPlace, 2> places;  // of the last two barriers: one may be read while the next is written
};

class SharedGroup {
 public:
  virtual ~SharedGroup() = default;
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  /// Among the ranks of the machine.
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Memory of `bytes` for each rank, which the others see; collective. Pages are reserved, so that it cannot fail later. What all ranks have
  /// released is freed at the next call.
  /// @return this rank's; empty on all where one of them has not so much
  virtual HostBytes allocate(std::int64_t bytes) = 0;

  /// Waits until all have arrived. What each wrote before it is seen by all behind it.
  /// @param data  memory that the others are to find by `of`; may be null
  void barrier(const std::byte* data = nullptr);
  /// What that rank named at the last barrier; null where the others cannot see it.
  std::byte* of(int rank) const;

  /// A rank's stage: two halves of `kStageBytes`, so that one can be filled while the other is read.
  static constexpr std::int64_t kStageBytes = std::int64_t{1} << 18;
  std::span<std::byte> stage(int rank, std::uint32_t half) const;
  /// Which half comes next: alternates.
  std::uint32_t next_half() { return half_++ & 1; }

  /// How its barriers wait.
  WaitPolicy& policy() { return policy_; }

 protected:
  SharedGroup(int rank, int size, const WaitCheck& check) : rank_(rank), size_(size), check_(check) {}
  /// Bytes of what `use` is given: the lines, and behind them the stages.
  static std::int64_t control_bytes(int size);
  /// @param control  zeros at first, seen by all
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
