#include "parallel/communicator.h"

#include <map>

#include "engine/base/span.h"

namespace gemel::parallel {

const char* to_string(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: return "sum";
    case Reduction::mean: return "mean";
    case Reduction::min: return "min";
    case Reduction::max: return "max";
    case Reduction::product: return "product";
    case Reduction::bit_and: return "bit_and";
  }
  return "";
}

Placement Placement::of(std::vector<std::string> hosts) {
  Placement out{std::move(hosts), {}};
  std::map<std::string, int> met;
  for (const std::string& host : out.hosts) out.local_rank.push_back(met[host]++);
  return out;
}

std::vector<int> Placement::beside(int rank) const {
  std::vector<int> out;
  for (std::size_t r = 0; r < hosts.size(); ++r)
    if (hosts[r] == hosts[at(rank)]) out.push_back(static_cast<int>(r));
  return out;
}

}  // namespace gemel::parallel
