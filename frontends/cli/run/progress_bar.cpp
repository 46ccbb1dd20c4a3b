#include "frontends/cli/run/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "frontends/cli/system/console.h"

namespace gemel::cli {

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

ProgressBar::ProgressBar(std::string label, std::int64_t total, std::int64_t later)
    : label_(std::move(label)), total_(total), later_(later), terminal_(isatty(STDERR_FILENO) != 0), begin_(Clock::now()) {}

ProgressBar::~ProgressBar() {
  if (terminal_ && first_done_ >= 0) say("\r\033[K");
}

void ProgressBar::show(std::int64_t done, double loss, std::int64_t samples) {
  const auto now = Clock::now();
  samples_ += samples;
  if (first_done_ < 0) first_done_ = done - 1;
  const std::chrono::duration<double> since = now - shown_, elapsed = now - begin_;
  if (done < total_ && since.count() < (terminal_ ? 0.1 : 10)) return;
  shown_ = now;
  const double left = elapsed.count() / static_cast<double>(std::max<std::int64_t>(1, done - first_done_)) * static_cast<double>(total_ - done + later_);
  const double rate = static_cast<double>(samples_) / std::max(1e-9, elapsed.count());
  const std::string numbers = fmt::format("{}/{}  loss {:.4f}  {:.1f} samples/s  {} left", done, total_, loss, rate, duration_text(left));
  if (!terminal_) {
    say("{}  {}\n", label_, numbers);
    return;
  }
  constexpr std::int64_t width = 24;
  const auto filled = std::clamp<std::int64_t>(done * width / std::max<std::int64_t>(1, total_), 0, width);
  say("\r{} [{}{}] {}\033[K", label_, std::string(static_cast<std::size_t>(filled), '='), std::string(static_cast<std::size_t>(width - filled), ' '), numbers);
  std::fflush(stderr);
}

}  // namespace gemel::cli
