// All-reduce and reduce-scatter around a ring: bandwidth-optimal, 2 (n-1)/n of the data each way. Pieces are sent in chunks, so that one
// chunk is added while the next is on its way. Source: P. Patarasuk, X. Yuan, Bandwidth optimal all-reduce algorithms, 2009.
#include <algorithm>
#include <deque>

#include "engine/base/numbers.h"
#include "parallel/collectives/collectives.h"
#include "parallel/collectives/host_reduce.h"

namespace gemel::parallel {
namespace {

constexpr std::int64_t kRingChunkBytes = std::int64_t{512} << 10;
constexpr int kAhead = 4;  // receives that wait for their chunk

/// Pieces of the data, one a rank, each in the same number of chunks.
struct Chunks {
  Elements data;
  int ranks;
  std::int64_t a_piece;

  Chunks(const Elements& all, int n) : data(all), ranks(n) {
    const std::int64_t largest = ceil_div(all.count, n) * static_cast<std::int64_t>(size_of(all.dtype));
    a_piece = std::max<std::int64_t>(1, ceil_div(largest, kRingChunkBytes));
  }
  Elements of(int piece, std::int64_t chunk) const {
    const std::int64_t begin = Collectives::piece_begin(data.count, piece, ranks), count = Collectives::piece_begin(data.count, piece + 1, ranks) - begin;
    const std::int64_t from = count * chunk / a_piece, to = count * (chunk + 1) / a_piece;
    return data.part(begin + from, to - from);
  }
};

/// One way around: what arrives in a step is passed on in the next one.
class Round {
 public:
  Round(Communicator& c, const Chunks& chunks) : c_(c), chunks_(chunks), next_((c.rank() + 1) % c.size()), before_((c.rank() + c.size() - 1) % c.size()) {}

  /// Sends piece `first` and, step by step, the pieces below it. @param scratch  kAhead chunks
  void add_up(int first, std::span<std::byte> scratch, Reduction reduction) {
    const auto landing = [&](std::int64_t k) { return scratch.subspan(at(k % kAhead) * at(kRingChunkBytes)); };
    run(first, landing, [&](std::int64_t k, const Elements& chunk) { reduce_into(chunk, landing(k).data(), reduction); });
  }
  void gather(int first) {
    run(
        first, [](std::int64_t) { return std::span<std::byte>(); }, [](std::int64_t, const Elements&) {});
  }

 private:
  /// @param landing  where message k arrives; empty: in its place
  template <class Landing, class Arrived>
  void run(int first, const Landing& landing, const Arrived& arrived) {
    const int n = c_.size();
    const std::int64_t messages = (n - 1) * chunks_.a_piece;
    const auto chunk = [&](std::int64_t k, int behind) {  // message k is of the piece that is `behind` before the one sent in its step
      const int step = static_cast<int>(k / chunks_.a_piece);
      return chunks_.of((first - step - behind + 2 * n) % n, k % chunks_.a_piece);
    };
    std::deque<Transfer> receiving;
    std::vector<Transfer> sending;
    std::int64_t posted = 0;
    const auto post = [&] {
      const Elements to = chunk(posted, 1);
      const std::span<std::byte> land = landing(posted);
      receiving.push_back(c_.receive(before_, land.empty() ? to.span() : land.first(at(to.bytes()))));
      ++posted;
    };
    while (posted < std::min<std::int64_t>(kAhead, messages)) post();
    for (std::int64_t k = 0; k < chunks_.a_piece; ++k) sending.push_back(c_.send(next_, chunk(k, 0).span()));
    for (std::int64_t k = 0; k < messages; ++k) {
      receiving.front().wait();
      receiving.pop_front();
      const Elements here = chunk(k, 1);
      arrived(k, here);
      if (posted < messages) post();
      if (k + chunks_.a_piece < messages) sending.push_back(c_.send(next_, here.span()));
    }
    for (Transfer& t : sending) t.wait();
  }

  Communicator& c_;
  const Chunks& chunks_;
  int next_, before_;
};

}  // namespace

void Collectives::ring_all_reduce(const Elements& data, Reduction reduction) {
  const int n = size();
  const Chunks chunks(data, n);
  Round round(communicator_, chunks);
  round.add_up(rank(), scratch(kAhead * kRingChunkBytes), reduction);
  round.gather((rank() + 1) % n);
}

void Collectives::reduce_scatter(const Elements& data, Reduction reduction) {
  const auto round = begin({Call::Kind::reduce_scatter, data.dtype, reduction, Algorithm::ring, 0, data.count});
  if (size() > 1) {
    const Chunks chunks(data, size());
    Round(communicator_, chunks).add_up((rank() + size() - 1) % size(), scratch(kAhead * kRingChunkBytes), reduction);
  }
  const std::int64_t begin = piece_begin(data.count, rank(), size()), end = piece_begin(data.count, rank() + 1, size());
  if (reduction == Reduction::mean) divide(data.part(begin, end - begin), communicator_.participation().givers());
}

}  // namespace gemel::parallel
