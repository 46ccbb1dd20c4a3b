// CommunicationThread: the thread of a rank that owns its communicator and runs communication in the order of submission.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "parallel/collectives/collectives.h"
#include "parallel/transport/communicator.h"

namespace gemel::parallel {

/// Schedules work that ranks submit at different times (parallel/horovod): it runs in turns, for which all ranks meet.
class Turns {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~Turns() = default;
  struct Work {
    std::size_t queued;     // submitted work items
    std::size_t startable;  // of these, the first ones whose CanStart holds
  };
  /// Returns the time of the next turn, as of now.
  virtual Clock::time_point due(const Work& work) = 0;
  /// Runs a turn.
  /// @return number of startable work items to run now, the same on every rank
  virtual std::size_t turn(Collectives& c, std::size_t startable) = 0;
  /// Called when communication has failed with `why`, before any other work is answered: there are no further turns.
  virtual void failed(const std::exception_ptr& why) = 0;
};

class CommunicationThread {
 public:
  using Make = std::function<std::unique_ptr<Communicator>()>;
  /// Starts the thread, and waits until it has made the communicator and measured its limits.
  /// @param make  called in the communication thread  @param fixed  algorithm of every all-reduce; none: chosen by size
  /// @throws what `make` threw; UsageError if the ranks cannot run the algorithm
  explicit CommunicationThread(Make make, std::optional<Algorithm> fixed = {});
  /// Runs all submitted work, then ends and tells the other ranks: see Communicator::goodbye.
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->size(); }
  const Placement& placement() const { return communicator_->placement(); }

  using CanStart = std::function<bool()>;
  /// Runs work(Collectives&) after all work submitted before. From any thread. After work has thrown, later work fails with the same exception.
  /// @param can_start  with turns: work does not begin before it holds; null: at any time. Without turns the work itself waits
  template <class Work>
  auto submit(Work work, CanStart can_start = {}) {
    using Result = std::invoke_result_t<Work&, Collectives&>;
    auto promise = std::make_shared<std::promise<Result>>();
    std::future<Result> result = promise->get_future();
    auto run = [this, promise, work = std::move(work)](Collectives& c) mutable {
      try {
        if (failed_) std::rethrow_exception(failed_);
        if constexpr (std::is_void_v<Result>) {
          work(c);
          promise->set_value();
        } else {
          promise->set_value(work(c));
        }
      } catch (...) {
        failed_ = std::current_exception();
        promise->set_exception(failed_);
      }
    };
    enqueue({std::move(run), std::move(can_start), step()});
    return result;
  }
  /// Submits work and waits for it.
  /// @throws what the work threw
  template <class Work>
  auto run(Work work) {
    try {
      return submit(std::move(work)).get();
    } catch (...) {
      tell_failure();
      throw;
    }
  }
  /// True if someone was told what ended communication, by `run` or by tell_failure.
  bool has_told_failure() const { return failure_was_told_; }
  void tell_failure() { failure_was_told_ = true; }
  /// Runs work in these turns from now on; null: at once. Called in work, at the same point on every rank. The turns must outlive their use.
  void take_turns(Turns* turns) { turns_ = turns; }
  /// Asks `turns` again when the next turn is, as it may be sooner than before. From any thread.
  void wake();
  /// Names what is being communicated while it lives, for `doing`.
  class Doing {
   public:
    Doing(CommunicationThread& thread, std::string what) : thread_(thread) { thread_.set_doing(std::move(what)); }
    ~Doing() { thread_.set_doing({}); }
    Doing(const Doing&) = delete;
    Doing& operator=(const Doing&) = delete;

   private:
    CommunicationThread& thread_;
  };
  /// Returns what is being communicated: "the gradient of fc.weight"; empty if it has no name. From any thread.
  std::string doing() const;
  /// Sets this rank's step, counted from 1, of the work submitted from now on. Errors of a rank that waits for one that has ended name the steps of both. From
  /// any thread.
  void at_step(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }
  std::int64_t step() const { return step_.load(std::memory_order_relaxed); }
  /// Ends all waits with a CommError, so that submitted work fails. From any thread.
  void abort(const std::string& why) { communicator_->abort(why); }

 private:
  struct Job {
    std::function<void(Collectives&)> run;  // does not throw
    CanStart can_start;
    std::int64_t step;
  };
  void enqueue(Job job);
  void set_doing(std::string what);
  void tell_turns();
  std::deque<Job> due_jobs(Collectives& c);
  std::deque<Job> jobs_of_turn(Collectives& c);
  std::size_t startable() const;
  std::deque<Job> take(std::size_t count);
  void work(const Make& make, std::optional<Algorithm> fixed, std::promise<void> ready);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string doing_;
  std::atomic<std::int64_t> step_{0};
  std::atomic<bool> failure_was_told_{false};
  std::deque<Job> jobs_;
  bool ending_ = false;
  bool woken_ = false;
  std::exception_ptr failed_;  // used in the communication thread only, as turns_
  Turns* turns_ = nullptr;
  std::unique_ptr<Communicator> communicator_;
  std::jthread thread_;
};

}  // namespace gemel::parallel
