// All-reduce by recursive doubling, of small messages, and by recursive halving and doubling, of large ones. Both join ranks in the order of
// `fold_order`, so their results are the same bits. Source: R. Thakur, R. Rabenseifner, W. Gropp, Optimization of collective
// communication operations in MPICH, 2005.
#include <algorithm>
#include <bit>

#include "engine/base/numbers.h"
#include "parallel/collectives/collectives.h"
#include "parallel/collectives/host_reduce.h"

namespace gemel::parallel {
namespace {

constexpr std::int64_t kTreeChunkBytes = std::int64_t{256} << 10;

/// Messages between two ranks in both directions, in chunks of which one is joined while the next is on its way.
struct Exchange {
  Communicator& c;
  std::span<std::byte> scratch;  // two chunks
  Reduction reduction;

  std::int64_t chunk_elements(DType dtype) const { return kTreeChunkBytes / static_cast<std::int64_t>(size_of(dtype)); }

  void send(int to, const Elements& data) {
    const std::int64_t step = chunk_elements(data.dtype);
    for (std::int64_t i = 0; i < data.count; i += step) c.send(to, data.part(i, std::min(step, data.count - i)).span()).wait();
  }
  void receive(int from, const Elements& data) {
    const std::int64_t step = chunk_elements(data.dtype);
    for (std::int64_t i = 0; i < data.count; i += step) c.receive(from, data.part(i, std::min(step, data.count - i)).span()).wait();
  }
  /// Sends `given` and joins what comes into `kept`; either may be empty.
  void join(int with, const Elements& given, const Elements& kept) {
    const std::int64_t step = chunk_elements(kept.dtype), sends = ceil_div(given.count, step), receives = ceil_div(kept.count, step);
    const auto part = [&](const Elements& all, std::int64_t k) { return all.part(k * step, std::min(step, all.count - k * step)); };
    const auto landing = [&](std::int64_t k) { return scratch.subspan(at(k % 2) * at(kTreeChunkBytes), at(part(kept, k).bytes())); };
    std::vector<Transfer> sending;
    Transfer next = receives > 0 ? c.receive(with, landing(0)) : Transfer();
    for (std::int64_t k = 0; k < std::max(sends, receives); ++k) {
      if (k < sends) sending.push_back(c.send(with, part(given, k).span()));
      if (k >= receives) continue;
      Transfer now = std::exchange(next, k + 1 < receives ? c.receive(with, landing(k + 1)) : Transfer());
      now.wait();
      // What is sent of the same memory must have left: in recursive doubling both sides send all that they keep.
      if (k < sends && given.first == kept.first) sending[at(k)].wait();
      reduce_into(part(kept, k), landing(k).data(), reduction);
    }
    for (Transfer& t : sending) t.wait();
  }
  void swap(int with, const Elements& given, const Elements& wanted) {
    const std::int64_t step = chunk_elements(given.dtype);
    std::vector<Transfer> transfers;
    for (std::int64_t i = 0; i < wanted.count; i += step) transfers.push_back(c.receive(with, wanted.part(i, std::min(step, wanted.count - i)).span()));
    for (std::int64_t i = 0; i < given.count; i += step) transfers.push_back(c.send(with, given.part(i, std::min(step, given.count - i)).span()));
    for (Transfer& t : transfers) t.wait();
  }
};

/// The powers of two among the ranks: those that take part, and the rank behind each of their numbers.
struct Powers {
  int p, extra, rank;
  Powers(int rank_, int size) : p(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))), extra(size - p), rank(rank_) {}
  bool is_extra() const { return rank < 2 * extra && rank % 2 == 1; }  // its value goes to the rank before it
  bool has_extra() const { return rank < 2 * extra && rank % 2 == 0; }
  int number() const { return rank < 2 * extra ? rank / 2 : rank - extra; }
  int rank_of(int number) const { return number < extra ? 2 * number : number + extra; }
};

void double_up(Exchange& exchange, const Powers& powers, const Elements& data) {
  for (int d = 1; d < powers.p; d *= 2) exchange.join(powers.rank_of(powers.number() ^ d), data, data);
}

void halve_and_double(Exchange& exchange, const Powers& powers, const Elements& data) {
  struct Half {
    int with;
    Elements kept, given;
  };
  std::vector<Half> halves;
  Elements now = data;
  for (int d = 1; d < powers.p; d *= 2) {
    const Elements low = now.part(0, now.count / 2), high = now.part(now.count / 2, now.count - now.count / 2);
    const bool keeps_low = (powers.number() & d) == 0;
    halves.push_back({powers.rank_of(powers.number() ^ d), keeps_low ? low : high, keeps_low ? high : low});
    exchange.join(halves.back().with, halves.back().given, halves.back().kept);
    now = halves.back().kept;
  }
  for (auto half = halves.rbegin(); half != halves.rend(); ++half) exchange.swap(half->with, half->kept, half->given);
}

}  // namespace

void Collectives::tree_all_reduce(const Elements& data, Reduction reduction) {
  const Powers powers(rank(), size());
  Exchange exchange{communicator_, scratch(2 * kTreeChunkBytes), reduction};
  const Elements nothing{data.first, 0, data.dtype};
  if (powers.is_extra()) {
    exchange.send(rank() - 1, data);
    exchange.receive(rank() - 1, data);
    return;
  }
  if (powers.has_extra()) exchange.join(rank() + 1, nothing, data);
  if (data.bytes() < limits_.halving_from || data.count < powers.p)
    double_up(exchange, powers, data);
  else
    halve_and_double(exchange, powers, data);
  if (powers.has_extra()) exchange.send(rank() + 1, data);
}

}  // namespace gemel::parallel
