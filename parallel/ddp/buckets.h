// Buckets: the gradients of a model in the order in which the backward pass completes them, divided into groups that are reduced together.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/parameters/parameter_slab.h"

namespace gemel::parallel {

/// A range of elements in a slab of gradients.
struct SlabRange {
  std::size_t slab;
  std::int64_t begin, count;
  friend bool operator==(const SlabRange&, const SlabRange&) = default;
};

struct Bucket {
  std::vector<SlabRange> ranges;
  std::vector<std::size_t> parameters;  // numbers of the parameters as given to buckets_of
  std::int64_t bytes = 0;
};

struct BucketOptions {
  std::int64_t bytes = std::int64_t{25} << 20;       // largest bucket, unless a single parameter is larger
  std::int64_t first_bytes = std::int64_t{1} << 20;  // largest first bucket, small so that communication begins early
};

/// Returns the distinct slabs of the parameters, in the order of their first parameter.
std::vector<std::shared_ptr<ParameterSlab>> slabs_of(std::span<const Value> parameters);

/// Returns the place of a parameter's gradient: full pages, with zeros behind the last element.
SlabRange gradient_range(const Value& parameter, std::span<const std::shared_ptr<ParameterSlab>> slabs);

/// Divides gradients into buckets.
/// @param parameters  leaves in slabs; those that want no gradient are left out
/// @param apart  [parameter] true: left out as well; empty: none
std::vector<Bucket> buckets_of(std::span<const Value> parameters, std::span<const std::shared_ptr<ParameterSlab>> slabs, const BucketOptions& options,
                               const std::vector<bool>& apart = {});

}  // namespace gemel::parallel
