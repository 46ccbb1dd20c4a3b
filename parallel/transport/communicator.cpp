#include "parallel/transport/communicator.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/numbers.h"

namespace gemel::parallel {

const char* to_string(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::mean:
      return "mean";
    case Reduction::min:
      return "min";
    case Reduction::max:
      return "max";
    case Reduction::product:
      return "product";
    case Reduction::bit_and:
      return "bit_and";
  }
  return "";
}

namespace {

Placement located(std::vector<std::string> hosts) {
  Placement out{std::move(hosts), {}, {}};
  std::map<std::string, int> met;
  for (const std::string& host : out.hosts) out.local_rank.push_back(met[host]++);
  return out;
}

/// Where the mask is not known, all.
bool overlap(const AllowedCores& a, const AllowedCores& b) {
  return a.processors.empty() || b.processors.empty() || std::ranges::any_of(a.processors, [&](int p) { return std::ranges::binary_search(b.processors, p); });
}

/// Ranks that are bound to cores of their own have these. A quota is that of all ranks of a machine together.
int share_of_cores(const AllowedCores& mine, std::span<const AllowedCores> beside) {
  AllowedCores unlimited = mine;
  unlimited.quota.reset();
  const auto sharers = std::ranges::count_if(beside, [&](const AllowedCores& other) { return overlap(mine, other); });
  const int bound_to = unlimited.count() / static_cast<int>(sharers);
  return mine.quota ? std::min(bound_to, mine.granted() / static_cast<int>(beside.size())) : bound_to;
}

}  // namespace

Placement Placement::of(std::vector<std::string> hosts, std::span<const AllowedCores> allowed) {
  Placement out = located(std::move(hosts));
  for (std::size_t r = 0; r < out.hosts.size(); ++r) {
    std::vector<AllowedCores> here;
    for (const int other : out.beside(static_cast<int>(r))) here.push_back(allowed[at(other)]);
    out.cores.push_back(share_of_cores(allowed[r], here));
  }
  return out;
}

Placement Placement::part(std::span<const int> ranks) const {
  std::vector<std::string> some;
  for (const int r : ranks) some.push_back(hosts[at(r)]);
  Placement out = located(std::move(some));
  for (const int r : ranks) out.cores.push_back(cores[at(r)]);
  return out;
}

std::vector<int> Placement::beside(int rank) const {
  std::vector<int> out;
  for (std::size_t r = 0; r < hosts.size(); ++r)
    if (hosts[r] == hosts[at(rank)]) out.push_back(static_cast<int>(r));
  return out;
}

}  // namespace gemel::parallel
