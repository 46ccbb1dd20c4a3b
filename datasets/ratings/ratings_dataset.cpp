#include "datasets/ratings/ratings_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"

namespace gemel::datasets {
namespace {

constexpr std::int64_t kMetOrNot = 2;  // classes of a label

struct Pair {
  std::int32_t user, item;
};
struct Line : Pair {
  double time;
  std::int64_t number;  // from 0
};

/// The items that each user has met, and so those that it has not.
class Met {
 public:
  /// @param pairs  ascending by user, then by item, each once
  Met(std::span<const Line> pairs, std::int64_t users, std::int64_t items) : all_(items), ends_(at(users + 1), 0) {
    for (const Line& pair : pairs) {
      items_.push_back(pair.item);
      ends_[at(pair.user) + 1] = std::ssize(items_);
    }
    for (std::size_t i = 1; i < ends_.size(); ++i) ends_[i] = std::max(ends_[i], ends_[i - 1]);
  }
  std::int64_t others(std::int64_t user) const { return all_ - (ends_[at(user) + 1] - ends_[at(user)]); }
  /// Number k, in ascending order, of the items that the user has not met. @param k  0..others(user)-1
  std::int64_t other(std::int64_t user, std::int64_t k) const {
    const std::int64_t begin = ends_[at(user)];
    std::int64_t before = 0;  // items met below the one looked for
    for (std::int64_t end = ends_[at(user) + 1] - begin; before < end;) {
      const std::int64_t middle = (before + end) / 2;
      if (items_[at(begin + middle)] - middle <= k)
        before = middle + 1;  // no more than k others lie below it
      else
        end = middle;
    }
    return k + before;
  }

 private:
  std::int64_t all_;
  std::vector<std::int32_t> items_;  // of all users, one behind the other
  std::vector<std::int64_t> ends_;   // [user + 1] in them
};

struct Rows {
  std::vector<std::int64_t> users, items;
  std::vector<float> labels;

  void add(std::int64_t user, std::int64_t item, float label) {
    users.push_back(user);
    items.push_back(item);
    labels.push_back(label);
  }
  std::vector<HostTensor> tensors(const Shape& shape) const {
    return {host_tensor("users", shape, std::span(users)), host_tensor("items", shape, std::span(items)), host_tensor("labels", shape, std::span(labels))};
  }
};

std::int64_t at_most(std::int64_t samples, std::int64_t limit) { return limit > 0 ? std::min(samples, limit) : samples; }

class Trained final : public Dataset {
 public:
  Trained(std::vector<Pair> interactions, Met met, RatingsOptions options)
      : interactions_(std::move(interactions)),
        met_(std::move(met)),
        options_(std::move(options)),
        size_(at_most(std::ssize(interactions_) * group(), options_.limit)) {}
  std::string_view name() const override { return options_.name; }
  std::int64_t size() const override { return size_; }
  std::int64_t classes() const override { return kMetOrNot; }
  std::vector<HostTensor> tensors(std::span<const std::int64_t> samples, const std::optional<Draws>& draws) const override {
    Rows rows;
    for (const std::int64_t sample : samples) {
      const Pair& met = interactions_[at(sample / group())];
      if (sample % group() == 0)
        rows.add(met.user, met.item, 1);
      else
        rows.add(met.user, drawn(met.user, sample, draws.value_or(Draws{options_.seed, 0})), 0);
    }
    return rows.tensors({std::ssize(samples), 1});
  }

 private:
  /// Samples of an interaction.
  std::int64_t group() const { return 1 + options_.negatives; }
  std::int64_t drawn(std::int64_t user, std::int64_t sample, const Draws& draws) const {
    const auto low = [](auto value) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value)); };
    const auto high = [](auto value) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32); };
    const PhiloxCounter bits = philox({low(sample), high(sample), low(draws.epoch), stream_hash("negatives")}, {low(draws.seed), high(draws.seed)});
    // The high half of bits * n is uniform in 0..n-1 to one part in 2^32 / n.
    return met_.other(user, static_cast<std::int64_t>(std::uint64_t{bits[0]} * static_cast<std::uint64_t>(met_.others(user)) >> 32));
  }

  std::vector<Pair> interactions_;
  Met met_;  // without what is held out
  RatingsOptions options_;
  std::int64_t size_;
};

class HeldOut final : public Dataset {
 public:
  HeldOut(std::vector<Pair> last, Met met, RatingsOptions options)
      : last_(std::move(last)), met_(std::move(met)), options_(std::move(options)), size_(at_most(std::ssize(last_), options_.limit)) {}
  std::string_view name() const override { return options_.name; }
  std::int64_t size() const override { return size_; }
  std::int64_t classes() const override { return kMetOrNot; }
  std::vector<HostTensor> tensors(std::span<const std::int64_t> samples, const std::optional<Draws>&) const override {
    Rows rows;
    for (const std::int64_t sample : samples) {
      const Pair& last = last_[at(sample)];
      rows.add(last.user, last.item, 1);
      for (const std::int64_t k : drawn(last.user)) rows.add(last.user, met_.other(last.user, k), 0);
    }
    return rows.tensors({std::ssize(samples), kCandidates});
  }

 private:
  /// Source: R. W. Floyd, in J. Bentley, Programming pearls: a sample of brilliance, 1987
  std::vector<std::int64_t> drawn(std::int64_t user) const {
    const std::int64_t others = met_.others(user), different = std::min(others, kCandidates - 1);
    PhiloxStream stream(options_.seed, stream_hash("candidates") | static_cast<std::uint64_t>(user) << 32);
    std::vector<std::int64_t> out;
    for (std::int64_t k = others - different; k < others; ++k) {
      const std::int64_t any = stream.below(narrow<std::uint32_t>(k + 1));
      out.push_back(std::ranges::find(out, any) == out.end() ? any : k);
    }
    while (std::ssize(out) < kCandidates - 1) out.push_back(out[out.size() - at(different)]);
    return out;
  }

  std::vector<Pair> last_;  // [sample] user and item
  Met met_;
  RatingsOptions options_;
  std::int64_t size_;
};

/// Ascending by user, then by item; each pair once, as it came last.
std::vector<Line> distinct(const Interactions& given) {
  std::vector<Line> out;
  out.reserve(given.lines.size());
  for (const Interaction& i : given.lines) out.push_back({{i.user, i.item}, i.time, std::ssize(out)});
  std::ranges::sort(out, {}, [](const Line& l) { return std::tuple(l.user, l.item, l.time, l.number); });
  const auto same = [](const Line& a, const Line& b) { return a.user == b.user && a.item == b.item; };
  const auto first = std::unique(out.rbegin(), out.rend(), same);  // from the end: of equal ones the last is kept
  out.erase(out.begin(), first.base());
  return out;
}

std::vector<Pair> pairs_of(std::span<const Line> lines) { return {lines.begin(), lines.end()}; }

}  // namespace

RatingSplits split_ratings(const Interactions& given, const RatingsOptions& options) {
  const std::vector<Line> met = distinct(given);
  std::vector<Line> trained, last;
  for (auto begin = met.begin(); begin != met.end();) {
    const auto end = std::find_if(begin, met.end(), [user = begin->user](const Line& l) { return l.user != user; });
    const auto latest = std::max_element(begin, end, [](const Line& a, const Line& b) { return std::tie(a.time, a.number) < std::tie(b.time, b.number); });
    if (end - begin == given.items)
      throw DataError(fmt::format("line {}: with it its user has met all of {} item{}; accepted: users that leave one or more", latest->number + 1, given.items,
                                  given.items == 1 ? "" : "s"));
    const bool has_more = end - begin > 1;
    for (auto line = begin; line != end; ++line) (has_more && line == latest ? last : trained).push_back(*line);
    begin = end;
  }
  RatingSplits out{.users = given.users, .items = given.items};
  if (!last.empty()) out.validation = std::make_unique<HeldOut>(pairs_of(last), Met(met, given.users, given.items), options);
  Met met_in_training(trained, given.users, given.items);
  std::ranges::sort(trained, {}, &Line::number);
  out.train = std::make_unique<Trained>(pairs_of(trained), std::move(met_in_training), options);
  return out;
}

}  // namespace gemel::datasets
