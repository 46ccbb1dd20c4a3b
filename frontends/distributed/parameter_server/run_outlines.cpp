#include "frontends/distributed/parameter_server/run_outlines.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "frontends/distributed/notices.h"

namespace gemel::distributed {

void OutlinedBatches::start(std::int64_t epoch, std::int64_t first_batch) {
  epoch_ = epoch;
  next_ = first_batch;
  starts_(epoch, first_batch);
}

std::optional<datasets::Batch> OutlinedBatches::next() {
  if (next_ == batches_) return std::nullopt;
  return datasets::Batch{.samples = 1, .epoch = epoch_, .index = next_++};
}

std::vector<NamedValue> untrained(const nn::Module& module) {
  std::vector<NamedValue> out;
  for (NamedValue& p : module.parameters().parameters())
    if (!p.value.wants_gradient()) out.push_back(p);
  return out;
}

train::Sums checked_sums(std::span<const double> numbers, int from) {
  if (numbers.size() < 4 || !(numbers[0] >= 0 && numbers[0] < 1e15) || numbers[3] != static_cast<double>(numbers.size() - 4))
    throw CommError(fmt::format("parameter server: rank {} sent {} numbers that are no sums", from, numbers.size()));
  return sums_in(numbers);
}

}  // namespace gemel::distributed
