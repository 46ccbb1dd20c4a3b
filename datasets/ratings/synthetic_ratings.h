// Synthetic ratings: users that prefer one group of items, which can be learnt. It is the data set "synthetic" for models that take ratings.
#pragma once
#include <cstdint>

#include "datasets/ratings/ratings_dataset.h"

namespace gemel::datasets {

struct SyntheticRatingsOptions {
  std::int64_t users = 512, items = 256;
  std::int64_t samples = 0;  // least samples of the training split; there may be more
  RatingsOptions ratings{.name = "synthetic"};
};

/// Splits items into groups of about 32. Each user prefers one group and meets 20 items or more: one in ten of them of any other group, the rest and the last
/// one of the preferred group while it has items left.
/// @throws UsageError for fewer than 2 users or 4 items, or for too many samples: a user meets at most half of the items
RatingSplits synthetic_ratings(const SyntheticRatingsOptions& options);

}  // namespace gemel::datasets
