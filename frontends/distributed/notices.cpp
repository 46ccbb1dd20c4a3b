#include "frontends/distributed/notices.h"

#include <utility>

namespace gemel::distributed {

void put(std::vector<double>& out, const train::Sums& sums) {
  out.insert(out.end(), {static_cast<double>(sums.samples), sums.loss, sums.weight, static_cast<double>(sums.counts.size())});
  out.insert(out.end(), sums.counts.begin(), sums.counts.end());
}

train::Sums sums_in(std::span<const double> numbers) {
  train::Sums sums{static_cast<std::int64_t>(numbers[0]), numbers[1], numbers[2], {}};
  const auto counts = numbers.subspan(4, static_cast<std::size_t>(numbers[3]));
  sums.counts.assign(counts.begin(), counts.end());
  return sums;
}

std::span<const double> numbers_in(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const double*>(bytes.data()), bytes.size() / sizeof(double)};
}

Notices::Agreed Notices::joined(parallel::Collectives& c, const train::Notice& mine, const parallel::LoadBalancer::Seen& seen) {
  constexpr std::size_t kFixed = 4;
  std::vector<double> numbers{mine.weight, mine.interrupted ? 1.0 : 0.0, static_cast<double>(seen.samples), seen.seconds};
  if (mine.sums) put(numbers, *mine.sums);
  Agreed out;
  for (const auto& bytes : c.all_gather(std::as_bytes(std::span(numbers)))) {
    const auto theirs = numbers_in(bytes);
    if (theirs.empty()) {  // it has joined
      out.seen.emplace_back();
      continue;
    }
    out.all.weight += theirs[0];
    out.all.interrupted = out.all.interrupted || theirs[1] != 0;
    out.seen.push_back({static_cast<std::int64_t>(theirs[2]), theirs[3]});
    if (theirs.size() == kFixed) continue;
    if (!out.all.sums) out.all.sums.emplace();
    *out.all.sums += sums_in(theirs.subspan(kFixed));
  }
  return out;
}

void Notices::announce(train::Notice notice, const parallel::LoadBalancer::Seen& seen) {
  announced_.push_back(communication_.submit([notice = std::move(notice), seen](parallel::Collectives& c) { return joined(c, notice, seen); }));
}

Notices::Agreed Notices::agreed() {
  Agreed out = announced_.front().get();
  announced_.pop_front();
  return out;
}

train::Sums Notices::merge(const train::Sums& sums) {
  return *communication_.run([&](parallel::Collectives& c) { return joined(c, {0, false, sums}, {}); }).all.sums;
}

}  // namespace gemel::distributed
