#include "parallel/ddp/buckets.h"

#include <algorithm>
#include <tuple>

#include "engine/base/numbers.h"

namespace gemel::parallel {

SlabRange gradient_range(const Value& parameter, std::span<const std::shared_ptr<ParameterSlab>> slabs) {
  const auto& node = *parameter.node();
  const auto slab = std::ranges::find(slabs, node.slab) - slabs.begin();
  const Value place = dense_gradient_place(parameter);
  return {at(slab), place.storage()->first, Slab::pages_for(place.spec()) * Slab::kPageElements};
}

std::vector<std::shared_ptr<ParameterSlab>> slabs_of(std::span<const Value> parameters) {
  std::vector<std::shared_ptr<ParameterSlab>> out;
  for (const Value& p : parameters)
    if (std::ranges::find(out, p.node()->slab) == out.end()) out.push_back(p.node()->slab);
  return out;
}

std::vector<Bucket> buckets_of(std::span<const Value> parameters, std::span<const std::shared_ptr<ParameterSlab>> slabs, const BucketOptions& options,
                               const std::vector<bool>& apart) {
  struct Placed {
    SlabRange range;
    std::size_t parameter;
  };
  std::vector<Placed> placed;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].wants_gradient() && (apart.empty() || !apart[i])) placed.push_back({gradient_range(parameters[i], slabs), i});
  std::ranges::sort(placed, {}, [](const Placed& p) { return std::tuple(p.range.slab, p.range.begin); });
  std::vector<Bucket> out;
  for (const auto& [range, parameter] : placed) {
    const std::int64_t bytes = range.count * std::int64_t{sizeof(float)};
    const std::int64_t most = out.size() == 1 ? options.first_bytes : options.bytes;
    if (out.empty() || out.back().bytes + bytes > most) out.emplace_back();
    Bucket& bucket = out.back();
    bucket.bytes += bytes;
    bucket.parameters.push_back(parameter);
    SlabRange* const last = bucket.ranges.empty() ? nullptr : &bucket.ranges.back();
    if (last && last->slab == range.slab && last->begin + last->count == range.begin)
      last->count += range.count;
    else
      bucket.ranges.push_back(range);
  }
  return out;
}

}  // namespace gemel::parallel
