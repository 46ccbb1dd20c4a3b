#include "parallel/transport/spin_wait.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "engine/base/error.h"

namespace gemel::parallel {
namespace {

using WaitClock = std::chrono::steady_clock;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// @return whether it is done before the time is over
template <class Done>
bool spin(const Done& done, std::int64_t ns) {
  if (ns <= 0) return done();
  const auto end = WaitClock::now() + std::chrono::nanoseconds(ns);
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      pause();
    }
  } while (WaitClock::now() < end);
  return false;
}

/// By default a sleep of a thread takes 50 microseconds more than it was asked for.
void sleep_precisely() {
  constexpr unsigned long kSlackNs = 1'000;
  thread_local const int set = prctl(PR_SET_TIMERSLACK, kSlackNs);
  (void)set;
}

std::uint32_t* word(std::atomic<std::uint32_t>& a) { return reinterpret_cast<std::uint32_t*>(&a); }

}  // namespace

void AbortFlag::raise(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (raised()) return;
  why_ = why;
  raised_.store(true, std::memory_order_release);
}

void AbortFlag::check() const {
  if (!raised()) return;
  const std::lock_guard lock(mutex_);
  throw AbortedError(why_);
}

void poll_until(const std::function<bool()>& done, const WaitPolicy& policy, const WaitCheck& check) {
  if (spin(done, policy.spin_ns)) return;
  // Where nothing computes on this core, yielding for the time of a chunk costs nobody anything; a sleep overshoots.
  const auto end = WaitClock::now() + std::chrono::nanoseconds(10 * policy.spin_ns);
  do {
    std::this_thread::yield();
    if (done()) return;
  } while (WaitClock::now() < end);
  sleep_precisely();
  // Looking takes some microseconds of a core that computes: in a long wait it may be late by a thirtieth of it.
  const auto begin = WaitClock::now();
  for (std::int64_t ns = 5'000;; ns = std::min<std::int64_t>(ns * 2, std::clamp<std::int64_t>((WaitClock::now() - begin).count() / 32, 100'000, 500'000))) {
    check.check();
    std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
    if (done()) return;
  }
}

void SharedCount::set(std::uint32_t value) {
  // Sequentially consistent, as the sleeper's increment and reading are: one of the two sees the other.
  count_.store(value, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst)) syscall(SYS_futex, word(count_), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void SharedCount::wait_for(std::uint32_t value, const WaitPolicy& policy, const WaitCheck& check) {
  if (spin([&] { return reached(value); }, policy.spin_ns)) return;
  struct Sleeping {
    std::atomic<std::uint32_t>& sleepers;
    explicit Sleeping(std::atomic<std::uint32_t>& s) : sleepers(s) { sleepers.fetch_add(1, std::memory_order_seq_cst); }
    ~Sleeping() { sleepers.fetch_sub(1, std::memory_order_relaxed); }
  } sleeping(sleepers_);
  constexpr timespec kCheckEvery{0, 20'000'000};  // an abort of this rank alone wakes nobody
  for (;;) {
    const std::uint32_t seen = count_.load(std::memory_order_seq_cst);
    if (static_cast<std::int32_t>(seen - value) >= 0) return;
    check.check();
    syscall(SYS_futex, word(count_), FUTEX_WAIT, seen, &kCheckEvery, nullptr, 0);
  }
}

}  // namespace gemel::parallel
