#include "parallel/collectives/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "parallel/collectives/host_reduce.h"
#include "parallel/transport/shared_memory.h"

namespace gemel::parallel {
namespace {

/// The first rank of each machine.
std::vector<int> first_ranks(const Communicator& c) {
  std::vector<int> out;
  for (int r = 0; r < c.size(); ++r)
    if (c.placement().local_rank[at(r)] == 0) out.push_back(r);
  return out;
}

}  // namespace

Collectives::Collectives(Communicator& communicator, std::optional<Algorithm> fixed) : communicator_(communicator), fixed_(fixed) {
  const std::vector<int> firsts = first_ranks(communicator);
  machines_ = static_cast<int>(firsts.size());
  // Ranks that are alone on their machines need no others between them.
  if (machines_ > 1 && machines_ < size() && communicator.local_rank() == 0) {
    leaders_ = communicator.group(firsts);
    between_ = std::make_unique<Collectives>(*leaders_);
  }
  if (fixed) check(*fixed);
}

std::span<std::byte> Collectives::scratch(std::int64_t bytes) {
  if (std::ssize(scratch_) < bytes) scratch_.resize(at(bytes));
  return scratch_;
}

void Collectives::check(Algorithm algorithm) const {
  if (size() == 1) return;
  const bool shares = communicator_.local_size() == 1 || communicator_.shared();
  const auto refuse = [&](const char* why) {
    throw UsageError(fmt::format("collective: {} cannot run: {}; accepted: auto, ring, tree{}{}", to_string(algorithm), why,
                                 shares && one_machine() ? ", shared" : "", shares ? ", hierarchical" : ""));
  };
  if (algorithm == Algorithm::shared && !one_machine()) refuse("the ranks are on several machines");
  if ((algorithm == Algorithm::shared || algorithm == Algorithm::hierarchical) && !shares) refuse("the ranks of this machine share no memory");
  if (algorithm == Algorithm::carrier) {
    float zero = 0;
    if (!communicator_.carrier_all_reduce(elements_of({&zero, 1}), Reduction::sum)) refuse("these ranks are threads of one process, without MPI");
  }
}

Algorithm Collectives::algorithm(std::int64_t bytes) const {
  if (fixed_) return *fixed_;
  if (size() == 1) return Algorithm::tree;
  return shares_all() ? Algorithm::shared : limits_.at(bytes).algorithm;
}

Collectives::Chosen Collectives::choice(std::int64_t bytes) const {
  const auto why = [&]() -> std::string {
    if (fixed_) return "asked for";
    if (size() == 1) return "one rank";
    return shares_all() ? "the ranks of one machine" : fmt::format("fastest from {} bytes as measured", limits_.at(bytes).from);
  };
  return {algorithm(bytes), why()};
}

void Collectives::all_reduce(const Elements& data, Reduction reduction) { all_reduce(data, reduction, algorithm(data.bytes())); }

void Collectives::all_reduce(const Elements& data, Reduction reduction, Algorithm algorithm) {
  reduce_into({data.first, 0, data.dtype}, data.first, reduction);  // refuses, also where there is one rank
  const auto round = begin({Call::Kind::all_reduce, data.dtype, reduction, algorithm, 0, data.count});
  if (size() > 1) switch (algorithm) {
      case Algorithm::ring:
        ring_all_reduce(data, reduction);
        break;
      case Algorithm::tree:
        tree_all_reduce(data, reduction);
        break;
      case Algorithm::shared:
        shared_all_reduce(data, reduction);
        break;
      case Algorithm::hierarchical:
        hierarchical_all_reduce(data, reduction);
        break;
      case Algorithm::carrier:
        if (!communicator_.carrier_all_reduce(data, reduction)) tree_all_reduce(data, reduction);  // it has none for this type
        break;
    }
  if (reduction == Reduction::mean) divide(data, communicator_.participation().givers());
}

void Collectives::hierarchical_all_reduce(const Elements& data, Reduction reduction) {
  SharedGroup* group = communicator_.shared();
  if (group) shared_all_reduce(data, reduction);
  if (Collectives* const between = machines_ == size() ? this : between_.get()) {
    if (between_) between_->set_limits(limits_);
    const Algorithm algorithm = limits_.at(data.bytes()).algorithm;
    between->all_reduce(data, reduction == Reduction::mean ? Reduction::sum : reduction, algorithm == Algorithm::ring ? algorithm : Algorithm::tree);
  }
  if (!group) return;
  for (std::int64_t i = 0; i < data.bytes(); i += SharedGroup::kStageBytes) {
    const auto bytes = at(std::min(SharedGroup::kStageBytes, data.bytes() - i));
    std::byte* const stage = group->stage(0, group->next_half()).data();
    if (group->rank() == 0) std::memcpy(stage, data.first + i, bytes);
    group->barrier();
    if (group->rank() != 0) std::memcpy(data.first + i, stage, bytes);
  }
}

void Collectives::broadcast(std::span<std::byte> bytes, int root) {
  // A binomial tree over ranks counted from the root, in pieces, so that one is passed on while the next arrives.
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  const auto round = begin({.kind = Call::Kind::broadcast, .root = root, .count = std::ssize(bytes)});
  const int n = size(), self = (rank() - root + n) % n;
  const auto rank_of = [&](int number) { return (number + root) % n; };
  std::vector<Transfer> sending;
  for (std::size_t begin = 0; begin < bytes.size(); begin += kPiece) {
    const std::span<std::byte> piece = bytes.subspan(begin, std::min(kPiece, bytes.size() - begin));
    int bit = 1;
    for (; bit < n && !(self & bit); bit *= 2) {
    }
    if (self) communicator_.receive(rank_of(self - bit), piece).wait();
    for (bit /= 2; bit > 0; bit /= 2)
      if (self + bit < n) sending.push_back(communicator_.send(rank_of(self + bit), piece));
  }
  for (Transfer& t : sending) t.wait();
}

void Collectives::reduce(const Elements& data, Reduction reduction, int root) {
  // In pieces, so that one is added while the next arrives.
  constexpr std::int64_t kPiece = std::int64_t{1} << 18;
  const auto round = begin({Call::Kind::reduce, data.dtype, reduction, Algorithm::tree, root, data.count});
  const int n = size();
  if (rank() != root) {
    std::vector<Transfer> sending;
    for (std::int64_t begin = 0; begin < data.count; begin += kPiece)
      sending.push_back(communicator_.send(root, data.part(begin, std::min(kPiece, data.count - begin)).span()));
    for (Transfer& t : sending) t.wait();
    return;
  }
  struct Piece {
    int from;
    std::int64_t begin, count;
  };
  std::vector<Piece> pieces;
  for (std::int64_t begin = 0; begin < data.count; begin += kPiece)
    for (int d = 1; d < n; ++d) pieces.push_back({(root + d) % n, begin, std::min(kPiece, data.count - begin)});
  const std::int64_t half = kPiece * static_cast<std::int64_t>(size_of(data.dtype));
  const std::span<std::byte> memory = scratch(2 * half);
  const auto receive = [&](std::size_t i) {
    const Elements into{memory.data() + static_cast<std::int64_t>(i % 2) * half, pieces[i].count, data.dtype};
    return std::pair(communicator_.receive(pieces[i].from, into.span()), into.first);
  };
  if (pieces.empty()) return;
  auto next = receive(0);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    auto [arriving, bytes] = std::move(next);
    if (i + 1 < pieces.size()) next = receive(i + 1);
    arriving.wait();
    reduce_into(data.part(pieces[i].begin, pieces[i].count), bytes, reduction == Reduction::mean ? Reduction::sum : reduction);
  }
  if (reduction == Reduction::mean) divide(data, communicator_.participation().givers());
}

std::vector<std::vector<std::byte>> Collectives::all_gather(std::span<const std::byte> mine) {
  const auto round = begin({.kind = Call::Kind::all_gather});
  return exchange(std::vector<std::span<const std::byte>>(at(size()), mine));
}

std::vector<std::vector<std::byte>> Collectives::all_to_all(std::span<const std::vector<std::byte>> given) {
  const auto round = begin({.kind = Call::Kind::all_to_all});
  return exchange(std::vector<std::span<const std::byte>>(given.begin(), given.end()));
}

std::vector<std::vector<std::byte>> Collectives::exchange(std::span<const std::span<const std::byte>> given) {
  const int n = size();
  std::vector<std::int64_t> lengths(at(n)), lengths_given;
  for (const auto& g : given) lengths_given.push_back(std::ssize(g));
  std::vector<std::vector<std::byte>> out(at(n));
  std::vector<Transfer> transfers;
  const auto finish = [&] {
    for (Transfer& t : transfers) t.wait();
    transfers.clear();
  };
  for (int d = 1; d < n; ++d) transfers.push_back(communicator_.receive((rank() + n - d) % n, raw_bytes(lengths[at((rank() + n - d) % n)])));
  for (int d = 1; d < n; ++d) transfers.push_back(communicator_.send((rank() + d) % n, raw_bytes(lengths_given[at((rank() + d) % n)])));
  finish();
  for (int d = 1; d < n; ++d) {
    const int from = (rank() + n - d) % n;
    out[at(from)].resize(at(lengths[at(from)]));
    if (!out[at(from)].empty()) transfers.push_back(communicator_.receive(from, out[at(from)]));
  }
  for (int d = 1; d < n; ++d)
    if (const int to = (rank() + d) % n; !given[at(to)].empty()) transfers.push_back(communicator_.send(to, given[at(to)]));
  finish();
  out[at(rank())].assign(given[at(rank())].begin(), given[at(rank())].end());
  return out;
}

std::int64_t Collectives::piece_begin(std::int64_t count, int rank, int size) { return count / size * rank + std::min<std::int64_t>(rank, count % size); }

void Collectives::barrier() {
  const auto round = begin({.kind = Call::Kind::barrier});
  SharedGroup* group = communicator_.shared();
  if (group && group->size() == size()) return group->barrier();
  std::byte out{}, in{};
  for (int d = 1; d < size(); d *= 2) {
    Transfer to = communicator_.send((rank() + d) % size(), {&out, 1});
    communicator_.receive((rank() + size() - d) % size(), {&in, 1}).wait();
    to.wait();
  }
}

HostBytes Collectives::allocate_shared(std::int64_t bytes) {
  const auto round = begin({.kind = Call::Kind::memory});
  SharedGroup* const group = communicator_.shared();
  return group ? group->allocate(bytes) : HostBytes();
}

int Collectives::join() {
  Participation& participation = communicator_.participation();
  participation.join();
  while (const std::optional<Call> call = participation.next_call()) take_part(*call);
  const int last = participation.all_joined();
  barrier();  // all know that all have joined, before one of them may join again
  return last;
}

/// With what leaves the others' data as they are.
void Collectives::take_part(const Call& call) {
  const auto nothing = [&](std::int64_t bytes) { return std::vector<std::byte>(at(bytes)); };
  const auto neutral = [&] {
    auto memory = nothing(call.count * static_cast<std::int64_t>(size_of(call.dtype)));
    fill_neutral({memory.data(), call.count, call.dtype}, call.reduction);
    return memory;
  };
  std::vector<std::byte> memory;
  switch (call.kind) {
    case Call::Kind::all_reduce:
      memory = neutral();
      return all_reduce({memory.data(), call.count, call.dtype}, call.reduction, call.algorithm);
    case Call::Kind::reduce:
      memory = neutral();
      return reduce({memory.data(), call.count, call.dtype}, call.reduction, call.root);
    case Call::Kind::reduce_scatter:
      memory = neutral();
      return reduce_scatter({memory.data(), call.count, call.dtype}, call.reduction);
    case Call::Kind::broadcast:
      memory = nothing(call.count);
      return broadcast(memory, call.root);
    case Call::Kind::all_gather:
      all_gather({});
      return;
    case Call::Kind::all_to_all:
      all_to_all(std::vector<std::vector<std::byte>>(at(size())));
      return;
    case Call::Kind::barrier:
      return barrier();
    case Call::Kind::memory:
      break;
  }
}

/// What else the ranks can run, for any size. Collective.
std::vector<Algorithm> Collectives::other_than_tree() {
  std::vector<Algorithm> out{Algorithm::ring};
  // A rank that is alone on its machine shares no memory, and runs what the others do.
  std::int32_t shares = communicator_.local_size() == 1 || communicator_.shared();
  all_reduce({raw_bytes(shares).data(), 1, DType::int32}, Reduction::min, Algorithm::tree);
  if (shares && machines_ < size()) out.push_back(Algorithm::hierarchical);
  float zero = 0;
  if (communicator_.carrier_all_reduce(elements_of({&zero, 1}), Reduction::sum)) out.push_back(Algorithm::carrier);
  return out;
}

/// Of this rank, for one all-reduce. Collective.
double Collectives::least_seconds(const Elements& data, Algorithm algorithm) {
  double least = 1e9;
  for (int i = 0; i < 4; ++i) {  // the first one warms up
    barrier();
    const auto begin = std::chrono::steady_clock::now();
    all_reduce(data, Reduction::sum, algorithm);
    if (i) least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return least;
}

void Collectives::measure_limits() {
  constexpr std::array<std::int64_t, 5> kSizes{std::int64_t{4} << 10, std::int64_t{32} << 10, std::int64_t{256} << 10, std::int64_t{1} << 20,
                                               std::int64_t{4} << 20};
  if (size() == 1 || (one_machine() && communicator_.shared())) return;  // no choice by size
  std::vector<std::byte> memory(at(kSizes.back()));
  const auto seconds = [&](std::int64_t bytes, Algorithm algorithm) { return least_seconds({memory.data(), bytes / 4, DType::float32}, algorithm); };
  const std::vector<Algorithm> others = other_than_tree();
  // All ranks run the same; what is faster is for rank 0 to say.
  Limits found{{}, kSizes.back() * 2};
  for (const std::int64_t bytes : kSizes) {
    limits_.halving_from = bytes + 1;
    const double doubling = seconds(bytes, Algorithm::tree);
    limits_.halving_from = 0;
    const double halving = seconds(bytes, Algorithm::tree);
    if (halving < doubling) found.halving_from = std::min(found.halving_from, bytes);
    Limits::Range best{found.ranges.empty() ? 0 : bytes, Algorithm::tree};
    double least = std::min(doubling, halving);
    for (const Algorithm a : others)
      if (const double t = seconds(bytes, a); t < least) least = t, best.algorithm = a;
    if (found.ranges.empty() || found.ranges.back().algorithm != best.algorithm) found.ranges.push_back(best);
  }
  std::string text = to_string(found);
  text.resize(256, ' ');
  broadcast(std::as_writable_bytes(std::span(text)));
  limits_ = parse_limits(text.substr(0, text.find_last_not_of(' ') + 1));
}

}  // namespace gemel::parallel
