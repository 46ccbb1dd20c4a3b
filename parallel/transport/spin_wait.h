// Waits of a rank: it spins for some microseconds if nothing else needs the core, then sleeps.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "engine/base/error.h"

namespace gemel::parallel {

/// Thrown by the waits of a rank whose job is aborted. It is never the first error of a job.
class AbortedError : public CommError {
 public:
  using CommError::CommError;
};

/// A condition that is checked while a rank waits.
class WaitCheck {
 public:
  virtual ~WaitCheck() = default;
  /// @throws CommError if what is waited for will not come
  virtual void check() const = 0;
};

/// Aborts the waits of a rank.
class AbortFlag : public WaitCheck {
 public:
  /// Aborts with a text; later texts are ignored.
  void raise(const std::string& why);
  bool raised() const { return raised_.load(std::memory_order_acquire); }
  /// @throws AbortedError if raised
  void check() const override;

 private:
  std::atomic<bool> raised_{false};
  mutable std::mutex mutex_;
  std::string why_;
};

struct WaitPolicy {
  /// 0 if other work needs the core: a device that computes on it, or more ranks than cores.
  std::int64_t spin_ns = 20'000;
};

/// Waits until `done` returns true: spins, yields for ten times as long, then sleeps for growing times of at most half a millisecond.
/// @throws what `check` throws
void poll_until(const std::function<bool()>& done, const WaitPolicy& policy, const WaitCheck& check);

/// A count to wait for, in memory that may be shared between processes. It only increases, and wraps around.
class SharedCount {
 public:
  void set(std::uint32_t value);
  std::uint32_t get() const { return count_.load(std::memory_order_acquire); }
  /// Sleeps until the count has reached `value`.
  /// @throws what `check` throws
  void wait_for(std::uint32_t value, const WaitPolicy& policy, const WaitCheck& check);

 private:
  bool reached(std::uint32_t value) const { return static_cast<std::int32_t>(get() - value) >= 0; }
  std::atomic<std::uint32_t> count_{0}, sleepers_{0};
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
};

}  // namespace gemel::parallel
