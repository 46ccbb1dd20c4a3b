#include "datasets/ratings/synthetic_ratings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"

namespace gemel::datasets {
namespace {

constexpr std::int64_t kGroup = 32, kMet = 20, kOther = 10;  // items of a group; met by a user; one of so many is of another group
constexpr std::int64_t kMost = 1 << 30;                      // users, or items

/// Items that each user meets.
std::int64_t met_by_each(const SyntheticRatingsOptions& o) {
  if (o.users < 2 || o.items < 4 || o.users > kMost || o.items > kMost)
    throw UsageError(fmt::format("synthetic: {} users and {} items; accepted: 2..{} and 4..{}", o.users, o.items, kMost, kMost));
  const std::int64_t of_each = 1 + o.ratings.negatives, most = o.items / 2, enough = ceil_div(o.samples, o.users * of_each) + 1;  // one is held out
  if (enough > most)
    throw UsageError(
        fmt::format("synthetic: {} samples of {} users and {} items; accepted: at most {}", o.samples, o.users, o.items, o.users * of_each * (most - 1)));
  return std::min(std::max(kMet, enough), most);
}

/// Items in an order that is drawn as far as it is looked at.
class Deck {
 public:
  void add(std::int32_t item) { items_.push_back(item); }
  std::int64_t size() const { return std::ssize(items_); }
  /// The first so many that are accepted.
  template <class Accepted, class Take>
  void deal(std::int64_t count, PhiloxStream& stream, const Accepted& accepted, const Take& take) {
    for (std::size_t i = 0; count > 0; ++i) {
      std::swap(items_[i], items_[i + stream.below(narrow<std::uint32_t>(items_.size() - i))]);
      if (!accepted(items_[i])) continue;
      take(items_[i]);
      --count;
    }
  }

 private:
  std::vector<std::int32_t> items_;
};

}  // namespace

RatingSplits synthetic_ratings(const SyntheticRatingsOptions& o) {
  const std::int64_t met = met_by_each(o), groups = std::max<std::int64_t>(1, o.items / kGroup);
  PhiloxStream stream(o.ratings.seed, stream_hash("synthetic ratings"));
  std::vector<Deck> liked(at(groups));
  Deck any;
  for (std::int32_t item = 0; item < o.items; ++item) {
    liked[at(item % groups)].add(item);
    any.add(item);
  }
  Interactions all{.users = o.users, .items = o.items};
  for (std::int32_t user = 0; user < o.users; ++user) {
    const std::int64_t group = stream.below(narrow<std::uint32_t>(groups));
    const std::int64_t of_group = std::min(groups == 1 ? met : met - met / kOther, liked[at(group)].size());
    const auto meet = [&](std::int32_t item) { all.lines.push_back({user, item}); };
    any.deal(
        met - of_group, stream, [&](std::int32_t item) { return item % groups != group; }, meet);
    liked[at(group)].deal(
        of_group, stream, [](std::int32_t) { return true; }, meet);
  }
  return split_ratings(all, o.ratings);
}

}  // namespace gemel::datasets
