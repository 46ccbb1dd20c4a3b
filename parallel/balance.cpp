#include "parallel/balance.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "engine/base/span.h"

namespace gemel::parallel {
namespace {

constexpr double kPays = 0.95;       // of a step's time: what is less than a twentieth is noise
constexpr double kNew = 0.5;         // how much the newest step counts
constexpr int kForgottenAfter = 100;  // steps without a sample, then it is tried again

}  // namespace

std::vector<std::int64_t> split_by_time(std::int64_t samples, std::span<const double> seconds, std::int64_t least) {
  std::vector<std::int64_t> out(seconds.size(), least);
  using Next = std::pair<double, std::size_t>;  // when a rank would be done with one more, its number
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  for (std::size_t r = 0; r < out.size(); ++r) next.emplace(static_cast<double>(least + 1) * seconds[r], r);
  for (std::int64_t left = samples - least * std::ssize(out); left > 0; --left) {
    const std::size_t r = next.top().second;
    next.pop();
    ++out[r];
    next.emplace(static_cast<double>(out[r] + 1) * seconds[r], r);
  }
  return out;
}

Balance::Balance(int ranks, std::int64_t batch, std::int64_t least) : batch_(batch), least_(least), known_(at(ranks)) {
  shares_ = split_by_time(batch, std::vector<double>(at(ranks), 1.0), least);
}

/// The first step of a number of samples may have captured, planned or built something.
/// @param share  of a whole batch: a smaller last one is shared evenly
void Balance::learn(Known& known, const Seen& seen, std::int64_t share) {
  known.steps_without = share == 0 ? known.steps_without + 1 : 0;
  if (seen.samples == 0 || known.met.insert(seen.samples).second) return;
  const double now = seen.seconds / static_cast<double>(seen.samples);
  known.seconds = known.seconds == 0 ? now : kNew * now + (1 - kNew) * known.seconds;
}

std::vector<std::int64_t> Balance::best() const {
  std::vector<double> seconds;
  for (const Known& k : known_) seconds.push_back(k.seconds);
  return split_by_time(batch_, seconds, least_);
}

double Balance::step_seconds(const std::vector<std::int64_t>& shares) const {
  double out = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) out = std::max(out, static_cast<double>(shares[r]) * known_[r].seconds);
  return out;
}

std::optional<std::vector<std::int64_t>> Balance::saw(std::span<const Seen> all) {
  for (std::size_t r = 0; r < all.size(); ++r) learn(known_[r], all[r], shares_[r]);
  if (std::ranges::any_of(known_, [](const Known& k) { return k.seconds == 0; })) return std::nullopt;
  std::vector<std::int64_t> shares = best();
  bool changes = step_seconds(shares) < kPays * step_seconds(shares_);
  for (std::size_t r = 0; r < shares.size(); ++r)
    if (known_[r].steps_without >= kForgottenAfter && shares[r] == 0) {  // of one that has none nothing new is seen
      --*std::ranges::max_element(shares);
      shares[r] = 1;
      known_[r] = {};
      changes = true;
    }
  if (!changes || shares == shares_) return std::nullopt;
  return shares_ = std::move(shares);
}

}  // namespace gemel::parallel
