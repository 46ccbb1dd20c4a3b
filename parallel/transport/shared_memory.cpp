#include "parallel/transport/shared_memory.h"

#include "engine/base/numbers.h"

namespace gemel::parallel {

std::int64_t SharedGroup::control_bytes(int size) { return round_up(size * static_cast<std::int64_t>(sizeof(SharedLine)), kHostPage) + size * 2 * kStageBytes; }

void SharedGroup::use(std::byte* control) {
  lines_ = reinterpret_cast<SharedLine*>(control);  // of zeros, as a new line is
  stages_ = control + round_up(size_ * static_cast<std::int64_t>(sizeof(SharedLine)), kHostPage);
}

std::span<std::byte> SharedGroup::stage(int rank, std::uint32_t half) const { return {stages_ + (rank * 2 + half) * kStageBytes, at(kStageBytes)}; }

void SharedGroup::barrier(const std::byte* data) {
  SharedLine& mine = line(rank_);
  ++count_;
  mine.places[count_ & 1] = place_of(data);
  mine.arrived.set(count_);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) line(r).arrived.wait_for(count_, policy_, check_);
}

std::byte* SharedGroup::of(int rank) const { return address_of(rank, line(rank).places[count_ & 1]); }

}  // namespace gemel::parallel
