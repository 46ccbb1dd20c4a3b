#include "parallel/parameter_server/worker_cores.h"

#include <algorithm>
#include <utility>

namespace gemel::parallel {

WorkerCores::WorkerCores(const Placement& placement, int rank, int servers, const AllowedCores& allowed) : all_(allowed.processors) {
  std::vector<int> workers = placement.beside(rank);
  std::erase_if(workers, [servers](int r) { return r < servers; });
  if (workers.empty() || !allowed.is_whole_machine() || workers.size() > all_.size()) return;
  const std::size_t share = all_.size() / workers.size();
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const auto first = all_.begin() + static_cast<std::ptrdiff_t>(i * share);
    processors_[workers[i]].assign(first, first + static_cast<std::ptrdiff_t>(share));
  }
}

void WorkerCores::move_to(int worker) {
  const auto found = processors_.find(worker);
  if (found == processors_.end()) return move_to_all();
  bind(worker, found->second);
}

void WorkerCores::move_to_all() {
  if (!processors_.empty()) bind(kAll, all_);
}

void WorkerCores::bind(int place, const std::vector<int>& processors) {
  if (std::exchange(place_, place) != place) bind_process(processors);
}

}  // namespace gemel::parallel
