// synthetic, for models that take ratings: users that like items of a group, which can be learnt.
#pragma once
#include <cstdint>

#include "datasets/ratings/ratings_dataset.h"

namespace gemel::datasets {

struct SyntheticRatingsOptions {
  std::int64_t users = 512, items = 256;
  std::int64_t samples = 0;  // of the training split at least; more where they come by themselves
  RatingsOptions ratings{.name = "synthetic"};
};

/// Items are dealt out into groups of about 32. Each user likes a group, and meets 20 items or more: one in ten of them is any of another group, the others,
/// and the last of all, are of the group that it likes as far as that goes.
/// @throws UsageError for fewer than 2 users or 4 items, or more samples than they can give: users meet half of the items at most
RatingSplits synthetic_ratings(const SyntheticRatingsOptions& options);

}  // namespace gemel::datasets
