#include "parallel/parameter_server/free_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/base/error.h"

namespace gemel::parallel {

FreeBatches::FreeBatches(std::int64_t samples, std::int64_t batch_size, std::int64_t parts) : parts_(parts) {
  if (parts < 1 || parts > batch_size) throw UsageError(fmt::format("batches: {} parts of {} samples; accepted: 1..{}", parts, batch_size, batch_size));
  size_ = samples / batch_size * parts + std::min(samples % batch_size, parts);
}

void FreeBatches::start(std::int64_t done, const std::vector<std::int64_t>& missing) {
  next_ = done + std::ssize(missing);
  returned_ = {missing.begin(), missing.end()};
  taken_.clear();
  if (done < 0 || next_ > size_ || std::ssize(returned_) != std::ssize(missing) ||
      (!missing.empty() && (*returned_.begin() < 0 || *returned_.rbegin() >= next_)))
    throw UsageError(fmt::format("batches: {} of {} are done, and {} of them are not; accepted: parts of an epoch", next_, size_, missing.size()));
}

std::optional<std::int64_t> FreeBatches::take() {
  if (!any_free()) return std::nullopt;
  const std::int64_t number = returned_.empty() ? next_++ : returned_.extract(returned_.begin()).value();
  taken_.insert(number);
  return number;
}

void FreeBatches::give_back(std::int64_t number) {
  if (taken_.erase(number)) returned_.insert(number);
}

void FreeBatches::done(std::int64_t number) { taken_.erase(number); }

std::vector<std::int64_t> FreeBatches::missing() const {
  std::vector<std::int64_t> out;
  std::ranges::set_union(returned_, taken_, std::back_inserter(out));
  return out;
}

}  // namespace gemel::parallel
