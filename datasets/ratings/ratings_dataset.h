// Ratings as implicit feedback: a rating of any value counts as an interaction of a user with an item. Training samples are interactions and, for each of them,
// some items that the user has not met (negatives). The last interaction of each user is held out for validation, among items that the user has not met.
// Source: X. He et al., Neural collaborative filtering, 2017, section 4.1.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datasets/loading/dataset.h"

namespace gemel::datasets {

/// An interaction of a user with an item, both numbered from 0.
struct Interaction {
  std::int32_t user, item;
  double time = 0;
};

/// Interactions in the order of their lines. A repeated pair counts once, as the later one.
struct Interactions {
  std::int64_t users = 0, items = 0;
  std::vector<Interaction> lines{};
};

struct RatingsOptions {
  std::string name = "ratings";  // name that opens the data set
  std::int64_t negatives = 4;    // items not met, for each interaction of the training split
  std::int64_t limit = 0;        // most samples of each split, the first ones; 0: all
  std::uint64_t seed = 1;        // for negatives, if a loader passes no draws
};

/// Items in a validation sample: the one that was held out, and others.
inline constexpr std::int64_t kCandidates = 100;

/// A batch has "users" and "items", int64 [N, K], and "labels", float32 [N, K]: 1 if the user met the item, else 0.
/// Training, K = 1: each interaction, in the order of lines, followed by negatives drawn by (seed, epoch, sample) from the items that the user has not met in
/// this split. The held-out item may be drawn too, for a model could tell it from the others if it never were. Without a loader's draws the negatives are those
/// of epoch 0.
/// Validation, K = kCandidates: one sample for each user of two items or more, in the order of users. It has the held-out item, followed by others that the
/// user never met, fixed by the seed. They are distinct, or repeat where the user leaves too few.
struct RatingSplits {
  std::unique_ptr<Dataset> train, validation;  // validation is null if each user has one item
  std::int64_t users = 0, items = 0;
};

/// Splits interactions. A user's last interaction is the one of the greatest time, and of equal times the last line.
/// @throws DataError `line N: ...` for a user that has met every item
RatingSplits split_ratings(const Interactions& interactions, const RatingsOptions& options);

/// Reads FOLDER/ratings.tsv: user TAB item [TAB rating [TAB time]], with the same number of columns in each line. Users and items are any text, and are
/// numbered by their first occurrence; rating and time are numbers.
/// @throws DataError naming file and line for a wrong number of columns, an empty user or item, a rating or time that is not a number, a NUL byte, or a user
///   that has met every item; naming the file if it is missing, has no lines or only one user
RatingSplits open_ratings(const std::filesystem::path& folder, const RatingsOptions& options);

}  // namespace gemel::datasets
