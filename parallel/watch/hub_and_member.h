// The two sides of a failure detector, on rank 0 (hub) and on the other ranks (member), and what they share. Private to failure_detector.cpp.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/watch/event_loop.h"
#include "parallel/watch/failure_detector.h"

namespace gemel::parallel {

inline WatchClock::duration watch_seconds(double seconds) { return std::chrono::duration_cast<WatchClock::duration>(std::chrono::duration<double>(seconds)); }

/// Time in which equal errors of several ranks are gathered.
constexpr double kGatherSeconds = 0.2;
/// Time that rank 0 waits for the others to hear of a loss, as it may end right after.
constexpr double kHeardSeconds = 0.1;

/// State of a failure detector, written by its thread; other threads wait for changes.
class WatchStanding {
 public:
  struct Values {
    bool connected = false;
    std::string failure;       // why the ranks did not connect
    std::optional<Loss> loss;  // the loss that ends the job
    bool told = false;         // the callback of the loss has returned
    bool parted = false;
  };
  template <class Change>
  void set(Change change) {
    {
      const std::lock_guard lock(mutex_);
      change(values_);
    }
    changed_.notify_all();
  }
  template <class Test>
  Values wait(double seconds, Test test) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, watch_seconds(seconds), [&] { return test(values_); });
    return values_;
  }
  Values get() const {
    const std::lock_guard lock(mutex_);
    return values_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Values values_;
};

/// State that the threads of a rank share.
struct WatchRank {
  int rank;
  std::vector<std::string> hosts;  // [rank]
  WatchOptions options;
  FailureDetector::Callbacks callbacks;
  std::atomic<std::uint64_t> progress{0};
  mutable std::mutex waiting_mutex;
  std::string waiting;
  WatchStanding standing;

  int size() const { return static_cast<int>(hosts.size()); }
  const std::string& host(int of) const { return hosts[static_cast<std::size_t>(of)]; }
  std::string waits() const {
    const std::string detail = callbacks.detail ? callbacks.detail() : "";
    const std::lock_guard lock(waiting_mutex);
    return waiting.empty() || detail.empty() ? waiting + detail : waiting + ", " + detail;
  }
};

/// One side of a failure detector. It runs in the detector's thread, except for the constructor, `address` and `prepare`.
class WatchSide : public WatchLoop::Events {
 public:
  using Peer = WatchLoop::Peer;
  using Kind = WatchMessage::Kind;

  WatchSide(WatchRank& here, WatchLoop& loop);

  virtual std::string address() const { return ""; }
  /// @throws CommError for text that is not an announcement
  virtual void prepare(const std::string& announced) = 0;
  void start();
  /// Reports that this rank failed.
  virtual void fail(const std::string& error) = 0;
  /// Sends a text to rank 0, where there is one to send it to.
  virtual void note(const std::string& /*text*/) {}
  /// The loss of a rank of this number or a larger one does not end the job.
  virtual void need_only(int /*ranks*/) {}
  /// Ends this rank in order; `parted` is called when that is done.
  virtual void part() = 0;

 protected:
  WatchRank& here_;
  WatchLoop& loop_;

  using Time = WatchClock::time_point;
  virtual void begin() = 0;
  virtual void beat(const WatchMessage& message) = 0;
  virtual void check(Time now) = 0;
  /// Restarts all time limits after this process was suspended.
  virtual void restart(Time now) = 0;

  double beat_s() const { return beat_s_; }
  bool silent(Time heard, Time now) const { return here_.options.heartbeat_s > 0 && now - heard > watch_seconds(here_.options.heartbeat_s); }
  Loss silence_of(int rank) const;
  Loss end_of(int rank) const;
  /// Tells this rank's own threads of a loss.
  void tell(const Loss& loss);
  void parted();

 private:
  double beat_s_;
  WatchClock::duration tick_, late_;
  Time next_beat_;
  void tick(Time due);
};

std::unique_ptr<WatchSide> make_watch_hub(WatchRank& here, WatchLoop& loop);
std::unique_ptr<WatchSide> make_watch_member(WatchRank& here, WatchLoop& loop);

}  // namespace gemel::parallel
