// All-reduce within a machine: each rank reduces its piece of the data of all ranks and writes the result to all of them. Data that is not in shared memory is
// copied through the stages of the group.
#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/numbers.h"
#include "parallel/collectives/collectives.h"
#include "parallel/collectives/host_reduce.h"
#include "parallel/transport/shared_memory.h"

namespace gemel::parallel {
namespace {

/// So few bytes are reduced by every rank for itself: that saves the second barrier.
constexpr std::int64_t kAloneBytes = 1 << 10;
constexpr std::int64_t kLine = 64;  // bytes: pieces begin at lines, which no two ranks write

struct Piece {
  std::int64_t begin, count;
};
Piece piece_of(const Elements& data, int rank, int size) {
  const std::int64_t line = kLine / static_cast<std::int64_t>(size_of(data.dtype)), lines = ceil_div(data.count, line);
  const auto begin = [&](int r) { return std::min(data.count, Collectives::piece_begin(lines, r, size) * line); };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

/// @param all  where each rank's elements lie
void reduce_piece(SharedGroup& group, std::vector<std::byte*> all, const Elements& data, Reduction reduction) {
  const Piece piece = piece_of(data, group.rank(), group.size());
  for (std::byte*& first : all) first += piece.begin * static_cast<std::int64_t>(size_of(data.dtype));
  reduce_all({all, all, piece.count, data.dtype}, reduction);
}

std::vector<std::byte*> stages(const SharedGroup& group, std::uint32_t half) {
  std::vector<std::byte*> out;
  out.reserve(at(group.size()));
  for (int r = 0; r < group.size(); ++r) out.push_back(group.stage(r, half).data());
  return out;
}

/// Through the stages. `alone`: every rank reduces all of it.
void staged(SharedGroup& group, const Elements& data, Reduction reduction) {
  const bool alone = data.bytes() <= kAloneBytes;
  const std::int64_t step = SharedGroup::kStageBytes / static_cast<std::int64_t>(size_of(data.dtype));
  for (std::int64_t i = 0; i < data.count; i += step) {
    const Elements chunk = data.part(i, std::min(step, data.count - i));
    const std::uint32_t half = group.next_half();
    const auto all = stages(group, half);
    std::memcpy(all[at(group.rank())], chunk.first, at(chunk.bytes()));
    group.barrier();
    if (alone) {
      std::byte* const result = chunk.first;
      reduce_all({all, std::span(&result, 1), chunk.count, chunk.dtype}, reduction);
      continue;
    }
    reduce_piece(group, all, chunk, reduction);
    group.barrier();
    std::memcpy(chunk.first, all[at(group.rank())], at(chunk.bytes()));
  }
}

}  // namespace

void Collectives::shared_all_reduce(const Elements& data, Reduction reduction) {
  SharedGroup& group = *communicator_.shared();
  if (data.bytes() <= kAloneBytes) return staged(group, data, reduction);
  group.barrier(data.first);
  std::vector<std::byte*> all;
  all.reserve(at(group.size()));
  for (int r = 0; r < group.size(); ++r) all.push_back(r == group.rank() ? data.first : group.of(r));
  if (std::ranges::find(all, nullptr) != all.end() || !group.of(group.rank())) return staged(group, data, reduction);
  reduce_piece(group, std::move(all), data, reduction);
  group.barrier();
}

}  // namespace gemel::parallel
