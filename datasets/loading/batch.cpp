#include "datasets/loading/batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::datasets {

const HostTensor& Batch::operator[](std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &HostTensor::name);
  if (found != tensors.end()) return *found;
  std::string known;
  for (const HostTensor& t : tensors) known += (known.empty() ? "" : ", ") + t.name;
  throw UsageError(fmt::format("batch: there is no tensor '{}'; accepted: {}", name, known));
}

Batch Batch::part(std::int64_t begin, std::int64_t count) const {
  if (begin < 0 || count < 0 || begin + count > samples)
    throw UsageError(fmt::format("batch: samples {}..{} are asked for; accepted: 0..{}", begin, begin + count - 1, samples - 1));
  Batch out = *this;
  out.samples = count;
  out.first_position = begin < samples ? position(begin) : first_position;
  out.micro_batches.clear();
  if (!positions.empty()) out.positions.assign(positions.begin() + begin, positions.begin() + begin + count);
  for (HostTensor& t : out.tensors) {
    if (t.spec.shape.rank() == 0 || t.spec.shape[0] != samples)
      throw DataError(
          fmt::format("batch: the tensor '{}' is {} in a batch of {} samples; accepted: axis 0 of {}", t.name, to_string(t.spec), samples, samples));
    const std::int64_t sample = samples ? t.spec.bytes() / samples : 0;
    t.spec.shape[0] = count;
    t.bytes = std::make_shared<const std::vector<std::byte>>(t.bytes->begin() + begin * sample, t.bytes->begin() + (begin + count) * sample);
  }
  return out;
}

}  // namespace gemel::datasets
