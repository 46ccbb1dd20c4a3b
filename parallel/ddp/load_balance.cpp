#include "parallel/ddp/load_balance.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "engine/base/numbers.h"

namespace gemel::parallel {
namespace {

constexpr double kPays = 0.95;  // of a step's time: what is less than a twentieth is noise
// Steps whose median counts: so many, or as many as took so long. One slow step alone changes nothing, two long ones in a row count in full.
constexpr std::size_t kLeastRecent = 3, kMostRecent = 64;
constexpr double kRecentSeconds = 0.25;
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

LoadBalancer::LoadBalancer(int ranks, std::int64_t batch, const Limits& limits) : batch_(batch), limits_(limits), known_(at(ranks)) {
  shares_ = split_by_time(batch, std::vector<double>(at(ranks), 1.0), limits.least);
}

/// The first step of a number of samples may have captured, planned or built something.
/// @param share  of a whole batch: a smaller last one is shared evenly
void LoadBalancer::learn(Known& known, const Seen& seen, std::int64_t share) {
  known.steps_without = share == 0 || seen.samples == 0 ? known.steps_without + 1 : 0;
  if (seen.samples == 0 || known.met.insert(seen.samples).second) return;
  std::deque<Seen>& recent = known.recent;
  recent.push_back(seen);
  double later = 0;  // seconds of those behind the first
  for (std::size_t i = 1; i < recent.size(); ++i) later += recent[i].seconds;
  for (; recent.size() > kMostRecent || (recent.size() > kLeastRecent && later >= kRecentSeconds); recent.pop_front()) later -= recent[1].seconds;
  std::vector<double> sorted;
  for (const Seen& s : recent) sorted.push_back(s.seconds / static_cast<double>(s.samples));
  std::ranges::sort(sorted);
  known.seconds = sorted[(sorted.size() - 1) / 2];  // of two the smaller: what disturbs only lengthens
}

std::vector<std::int64_t> LoadBalancer::best() const {
  std::vector<double> seconds;
  for (const Known& k : known_) seconds.push_back(k.seconds);
  return split_by_time(batch_, seconds, limits_.least);
}

double LoadBalancer::step_seconds(const std::vector<std::int64_t>& shares) const {
  double out = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) out = std::max(out, static_cast<double>(shares[r]) * known_[r].seconds);
  return out;
}

std::optional<std::vector<std::int64_t>> LoadBalancer::saw(std::span<const Seen> all) {
  for (std::size_t r = 0; r < all.size(); ++r) learn(known_[r], all[r], shares_[r]);
  std::vector<std::int64_t> shares = shares_;
  if (std::ranges::none_of(known_, [](const Known& k) { return k.seconds == 0; }))
    if (std::vector<std::int64_t> better = best(); step_seconds(better) < kPays * step_seconds(shares_)) shares = std::move(better);
  for (std::size_t r = 0; r < shares.size(); ++r) {
    if (known_[r].steps_without < kForgottenAfter) continue;
    known_[r] = {};  // nothing new is seen of one that has none
    for (auto most = std::ranges::max_element(shares); shares[r]<limits_.of_trial&& * most> shares[r]; most = std::ranges::max_element(shares)) {
      --*most;
      ++shares[r];
    }
  }
  if (shares == shares_) return std::nullopt;
  return shares_ = std::move(shares);
}

}  // namespace gemel::parallel
