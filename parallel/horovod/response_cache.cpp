#include "parallel/horovod/response_cache.h"

#include <algorithm>

namespace gemel::parallel::horovod {

ResponseCache::Found ResponseCache::find(const Request& request) const {
  const auto it = entries_.find(request.name);
  if (it == entries_.end()) return Found::no;
  return it->second.request == request ? Found::same : Found::other;
}

void ResponseCache::used(const Request& request) {
  if (bits_.empty()) return;
  if (const auto it = entries_.find(request.name); it != entries_.end()) {
    it->second.request = request;
    order_.splice(order_.end(), order_, it->second.place);
    return;
  }
  if (entries_.size() == bits_.size()) erase(std::string(order_.front()));
  const auto free = std::ranges::find(bits_, std::string());
  *free = request.name;
  order_.push_back(request.name);
  entries_.emplace(request.name, Entry{request, static_cast<std::size_t>(free - bits_.begin()), std::prev(order_.end())});
}

void ResponseCache::erase(const std::string& name) {
  const auto it = entries_.find(name);
  if (it == entries_.end()) return;
  bits_[it->second.bit].clear();
  order_.erase(it->second.place);
  entries_.erase(it);
}

}  // namespace gemel::parallel::horovod
