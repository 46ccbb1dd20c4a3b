#include "parallel/watch/failure_detector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>

#include <csignal>
#include <thread>

#include "engine/base/error.h"
#include "parallel/watch/hub_and_member.h"

namespace gemel::parallel {
namespace {

constexpr double kReportSeconds = 0.3, kGoodbyeSeconds = 2;
/// Beyond `connect_s`, within which the watch thread itself gives up.
constexpr double kConnectMarginSeconds = 5;

void check(int rank, const std::vector<std::string>& hosts, const WatchOptions& options) {
  if (rank < 0 || rank >= std::ssize(hosts)) throw InternalError(fmt::format("failure watch: rank {} of {}", rank, hosts.size()));
  if (!(options.heartbeat_s >= 0)) throw UsageError(fmt::format("heartbeat: {:g} s is negative; accepted: seconds, 0 for none", options.heartbeat_s));
  if (!(options.stall_warning_s >= 0))
    throw UsageError(fmt::format("stall warning: {:g} s is negative; accepted: seconds, 0 for none", options.stall_warning_s));
}

/// The program's handlers run in threads of its own.
template <class Work>
std::thread thread_without_signals(Work work) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(std::move(work));
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

std::string describe(const Loss& loss, int ranks, int survivor, const std::string& waiting) {
  if (loss.ranks.empty()) {
    const std::string line = fmt::format("rank {} of {} on {} {}", loss.rank, ranks, loss.host, loss.why);
    return waiting.empty() ? line : fmt::format("{}; rank {} waited for {}", line, survivor, waiting);
  }
  if (std::ssize(loss.ranks) == ranks) return loss.why;
  if (loss.ranks.size() == 1) return fmt::format("rank {} of {} on {}: {}", loss.rank, ranks, loss.host, loss.why);
  return fmt::format("ranks {} of {}: {}", fmt::join(loss.ranks, ", "), ranks, loss.why);
}

struct FailureDetector::Impl {
  WatchRank here;
  WatchLoop loop;
  std::unique_ptr<WatchSide> side;
  std::thread thread;

  bool connected() const { return here.standing.get().connected; }
};

FailureDetector::FailureDetector(int rank, std::vector<std::string> hosts, WatchOptions options, Callbacks callbacks) : impl_(std::make_unique<Impl>()) {
  check(rank, hosts, options);
  impl_->here.rank = rank;
  impl_->here.hosts = std::move(hosts);
  impl_->here.options = std::move(options);
  impl_->here.callbacks = std::move(callbacks);
  impl_->side = rank == 0 ? make_watch_hub(impl_->here, impl_->loop) : make_watch_member(impl_->here, impl_->loop);
}

FailureDetector::~FailureDetector() {
  impl_->loop.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

std::string FailureDetector::address() const { return impl_->side->address(); }

void FailureDetector::connect(const std::string& announced) {
  Impl& impl = *impl_;
  if (impl.thread.joinable()) throw InternalError("failure watch: it is connected already");
  impl.side->prepare(announced);
  impl.thread = thread_without_signals([&impl] {
    ::pthread_setname_np(::pthread_self(), "gemel watch");
    impl.side->start();
    impl.loop.run(*impl.side);
  });
  const WatchStanding::Values reached = impl.here.standing.wait(impl.here.options.connect_s + kConnectMarginSeconds,
                                                                [](const WatchStanding::Values& v) { return v.connected || !v.failure.empty(); });
  if (!reached.connected)
    throw CommError("failure watch: " + (reached.failure.empty() ? fmt::format("rank {} has no time to connect", impl.here.rank) : reached.failure));
}

void FailureDetector::need_only(int ranks) {
  impl_->loop.post([this, ranks] { impl_->side->need_only(ranks); });
}

void FailureDetector::progress() { impl_->here.progress.fetch_add(1, std::memory_order_relaxed); }

void FailureDetector::waiting_for(std::string what) {
  const std::lock_guard lock(impl_->here.waiting_mutex);
  impl_->here.waiting = std::move(what);
}

std::string FailureDetector::waiting_for() const { return impl_->here.waits(); }

void FailureDetector::note(std::string text) {
  Impl& impl = *impl_;
  if (impl.connected()) impl.loop.post([&impl, text = std::move(text)] { impl.side->note(text); });
}

std::optional<Loss> FailureDetector::report(const std::string& error) {
  Impl& impl = *impl_;
  if (!impl.connected()) return {};
  impl.loop.post([&impl, error] { impl.side->fail(error); });
  impl.here.standing.wait(kReportSeconds, [](const WatchStanding::Values& v) { return v.told || v.parted; });
  return impl.here.standing.get().loss;
}

void FailureDetector::goodbye() {
  Impl& impl = *impl_;
  if (!impl.connected()) return;
  impl.loop.post([&impl] { impl.side->part(); });
  impl.here.standing.wait(kGoodbyeSeconds, [](const WatchStanding::Values& v) { return v.told || v.parted; });
}

}  // namespace gemel::parallel
