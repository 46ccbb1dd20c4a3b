// What a person sees of a run: a bar on a terminal, a plain line now and then elsewhere.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace gemel::cli {

class ProgressBar {
 public:
  /// @param label  stands before the bar, e.g. "epoch 1/3"  @param later  steps of the run after these `total`
  ProgressBar(std::string label, std::int64_t total, std::int64_t later = 0);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// @param done  of `total`  @param loss  the last one known  @param samples  of this step; shown is their rate since the bar began
  void show(std::int64_t done, double loss, std::int64_t samples);

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  std::int64_t total_, later_;
  bool terminal_;
  Clock::time_point begin_, shown_;
  std::int64_t first_done_ = -1, samples_ = 0;
};

/// "1:05:09", "5:09"
std::string duration_text(double seconds);

}  // namespace gemel::cli
