// Buckets: the gradients of a model in the order in which a backward pass completes them, cut into runs that are reduced at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/parameters/parameter_slab.h"

namespace gemel::parallel {

/// Elements of a slab of gradients.
struct SlabRange {
  std::size_t slab;
  std::int64_t begin, count;
  friend bool operator==(const SlabRange&, const SlabRange&) = default;
};

struct Bucket {
  std::vector<SlabRange> ranges;
  std::vector<std::size_t> parameters;  // as they are numbered by whoever asked
  std::int64_t bytes = 0;
};

struct BucketOptions {
  std::int64_t bytes = std::int64_t{25} << 20;       // at most, where one parameter has not more
  std::int64_t first_bytes = std::int64_t{1} << 20;  // of the first, so that communication begins early
};

/// The slabs of the parameters, in the order in which they are met.
std::vector<std::shared_ptr<ParameterSlab>> slabs_of(std::span<const Value> parameters);

/// Where a parameter's gradient lies: whole pages, of which the last one's padding is zero.
SlabRange gradient_range(const Value& parameter, std::span<const std::shared_ptr<ParameterSlab>> slabs);

/// @param parameters  leaves in slabs; those that want no gradient are left out  @param apart  [parameter] that are left out too, or none
std::vector<Bucket> buckets_of(std::span<const Value> parameters, std::span<const std::shared_ptr<ParameterSlab>> slabs, const BucketOptions& options,
                               const std::vector<bool>& apart = {});

}  // namespace gemel::parallel
