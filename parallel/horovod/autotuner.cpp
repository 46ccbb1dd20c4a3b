#include "parallel/horovod/autotuner.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/files/descriptor.h"

namespace gemel::parallel::horovod {

std::vector<Tuned> Autotuner::candidates() {
  std::vector<Tuned> out;
  for (const std::int64_t megabytes : {0, 1, 8, 32, 128})
    for (const double cycle_ms : {0.5, 1.0, 2.5, 5.0, 10.0}) out.push_back({megabytes << 20, cycle_ms});
  return out;
}

Autotuner::Autotuner(const Options& options, Warn warn) : warmup_(options.tuning_warmup_samples), steps_(options.tuning_steps), warn_(std::move(warn)) {
  for (const Tuned& t : candidates()) left_.push_back({t, {}});
  if (options.tuning_log.empty()) return;
  log_.emplace(open_regular("HOROVOD_AUTOTUNE_LOG", options.tuning_log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND), options.tuning_log);
  log("fusion_bytes,cycle_ms,bytes_per_s\n");
}

/// A full disk takes the lines and not the run.
void Autotuner::log(const std::string& line) try {
  if (log_) log_->append(line);
} catch (const DataError& e) {
  log_.reset();
  if (warn_) warn_(fmt::format("horovod: warning: HOROVOD_AUTOTUNE_LOG: {}; tuning goes on, and its log ends here", e.what()));
}

/// The median: a sample that something else disturbed counts once.
double Autotuner::Candidate::score() const {
  std::vector<double> sorted = scores;
  std::ranges::sort(sorted);
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

/// A sample ends when some tensor was reduced in as many steps.
std::optional<Tuned> Autotuner::reduced(std::span<const Request* const> together, Clock::time_point now) {
  if (done()) return std::nullopt;
  if (!begin_) {
    begin_ = now;  // the reduction that ends now belongs to the time before
    return std::nullopt;
  }
  bool ends = false;
  for (const Request* r : together) {
    bytes_ += r->bytes();
    ends = ++times_[r->name] >= steps_ || ends;
  }
  if (!ends) return std::nullopt;
  const double seconds = std::chrono::duration<double>(now - *begin_).count(), speed = static_cast<double>(bytes_) / std::max(seconds, 1e-9);
  begin_.reset();
  bytes_ = 0;
  times_.clear();
  if (warmup_ > 0) {
    --warmup_;
    return std::nullopt;
  }
  return end_sample(speed);
}

std::optional<Tuned> Autotuner::end_sample(double bytes_per_s) {
  const Tuned before = current();
  left_[at_].scores.push_back(bytes_per_s);
  log(fmt::format("{},{},{:.6g}\n", before.fusion_bytes, before.cycle_ms, bytes_per_s));
  if (++at_ == left_.size()) {
    at_ = 0;
    // Rounds pass over all that are left, so that a slow minute of the machine touches each of them.
    const auto taken = std::ssize(left_[0].scores);
    if (taken >= samples_each_) halve();
  }
  return current() == before ? std::nullopt : std::optional(current());
}

void Autotuner::halve() {
  std::ranges::stable_sort(left_, std::greater<>(), &Candidate::score);
  left_.resize((left_.size() + 1) / 2);
  samples_each_ *= 2;
}

}  // namespace gemel::parallel::horovod
