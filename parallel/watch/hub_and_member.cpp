#include "parallel/watch/hub_and_member.h"

#include <fmt/format.h>

#include <algorithm>

namespace gemel::parallel {
namespace {

double beat_seconds(const WatchOptions& options) { return options.heartbeat_s > 0 ? std::clamp(options.heartbeat_s / 4, 0.01, 1.0) : 1.0; }

}  // namespace

WatchSide::WatchSide(WatchRank& here, WatchLoop& loop) : here_(here), loop_(loop), beat_s_(beat_seconds(here.options)) {
  tick_ = watch_seconds(beat_s_ / 4);
  late_ = watch_seconds(here.options.heartbeat_s > 0 ? std::min(1.0, here.options.heartbeat_s / 2) : 1.0);
}

void WatchSide::start() {
  begin();
  tick(WatchClock::now());
}

void WatchSide::tick(Time due) {
  const Time now = WatchClock::now();
  if (now - due > late_) restart(now);
  if (now >= next_beat_) {
    beat({.kind = Kind::beat, .rank = here_.rank, .progress = here_.progress.load(std::memory_order_relaxed), .text = here_.waits()});
    next_beat_ = now + watch_seconds(beat_s_);
  }
  check(now);
  loop_.after(tick_, [this, next = now + tick_] { tick(next); });
}

Loss WatchSide::silence_of(int rank) const { return {rank, here_.host(rank), fmt::format("has been silent for {:g} s", here_.options.heartbeat_s), {}}; }
Loss WatchSide::end_of(int rank) const { return {rank, here_.host(rank), "was lost: its connection closed", {}}; }

void WatchSide::tell(const Loss& loss) {
  const bool connected = here_.standing.get().connected;
  here_.standing.set([&](WatchStanding::Values& values) {
    values.loss = loss;
    if (!connected) values.failure = describe(loss, here_.size(), here_.rank, "");
  });
  const bool own = std::find(loss.ranks.begin(), loss.ranks.end(), here_.rank) != loss.ranks.end();
  if (connected && !own && here_.callbacks.on_loss) here_.callbacks.on_loss(loss);
  here_.standing.set([](WatchStanding::Values& values) { values.told = true; });
}

void WatchSide::parted() {
  here_.standing.set([](WatchStanding::Values& values) { values.parted = true; });
}

}  // namespace gemel::parallel
