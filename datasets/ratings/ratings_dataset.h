// Ratings as implicit feedback: who met which items, whatever the ratings say. What is learnt from are interactions, and beside each some items that its
// user has not met. Each user's last interaction is held out, to be found again among items that the user has not met.
// Source: X. He et al., Neural collaborative filtering, 2017, section 4.1.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datasets/loading/dataset.h"

namespace gemel::datasets {

/// A user met an item; both are numbered from 0.
struct Interaction {
  std::int32_t user, item;
  double time = 0;
};

/// Interactions in the order of their lines. A pair that comes again counts once, as the later of the two.
struct Interactions {
  std::int64_t users = 0, items = 0;
  std::vector<Interaction> lines{};
};

struct RatingsOptions {
  std::string name = "ratings";  // that the data set is opened by
  std::int64_t negatives = 4;    // items not met, beside each interaction that is learnt from
  std::int64_t limit = 0;        // at most so many samples of each split, the first ones; 0: all
  std::uint64_t seed = 1;        // of what is drawn where a loader brings no draws
};

/// Of a sample of the validation split: the item that was held out, and others.
inline constexpr std::int64_t kCandidates = 100;

/// A batch has "users" and "items", int64 [N, K], and "labels", float32 [N, K]: 1 where the user met the item, else 0.
/// Training, K = 1: each interaction, in the order of lines, and behind it items drawn by (seed, epoch, sample) from those that the user has not met there.
/// The item that is held out is one of these: were it never drawn, a model could find it by that. Without draws of a loader they are those of epoch 0.
/// Validation, K = kCandidates: for each user of two items or more, in the order of users, the item that is held out and behind it others of those that the
/// user never met, fixed by the seed. They differ, unless the user leaves fewer: those come again.
struct RatingSplits {
  std::unique_ptr<Dataset> train, validation;  // no validation where each user has one item
  std::int64_t users = 0, items = 0;
};

/// A user's last interaction is that of the greatest time, of equal ones the last line.
/// @throws DataError `line N: ...` for a user that has met every item
RatingSplits split_ratings(const Interactions& interactions, const RatingsOptions& options);

/// Reads FOLDER/ratings.tsv: user TAB item [TAB rating [TAB time]], as many columns in each line. Users and items are any text, numbered in the order in which
/// they first come; rating and time are numbers.
/// @throws DataError naming file and line: another number of columns, an empty user or item, what is no number, a NUL byte, a user that has met every
///         item; naming the file: it is missing, has no lines or one user
RatingSplits open_ratings(const std::filesystem::path& folder, const RatingsOptions& options);

}  // namespace gemel::datasets
