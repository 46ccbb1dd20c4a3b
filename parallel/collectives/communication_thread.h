// The thread of a rank that communicates: it makes the communicator, runs what it is given in order, and sleeps in between.
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

/// Decides when work runs that ranks submit at different times (parallel/horovod): in turns, at which all ranks meet.
class Turns {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~Turns() = default;
  struct Work {
    std::size_t queued;     // that was submitted
    std::size_t startable;  // of it, from the first on, which waits for nothing that turns bring about
  };
  /// When the next turn is, as things are.
  virtual Clock::time_point due(const Work& work) = 0;
  /// @return how much of what can start runs now: as much on every rank
  virtual std::size_t turn(Collectives& c, std::size_t startable) = 0;
  /// There are no further turns: communication ended with this. Nothing that was submitted is answered in between.
  virtual void failed(const std::exception_ptr& why) = 0;
};

class CommunicationThread {
 public:
  using Make = std::function<std::unique_ptr<Communicator>()>;
  /// Waits until the communicator is made, in the thread that will use it, and its limits are measured.
  /// @param fixed  the algorithm of every all-reduce; none: by size
  /// @throws what `make` threw; UsageError where the ranks cannot run the algorithm
  explicit CommunicationThread(Make make, std::optional<Algorithm> fixed = {});
  /// Runs what was submitted, then ends: the other ranks are told, see Communicator::goodbye.
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->size(); }
  const Placement& placement() const { return communicator_->placement(); }

  using CanStart = std::function<bool()>;
  /// Runs work(Collectives&) behind all that was submitted before. From any thread. After work that threw, what is behind it throws the same.
  /// @param can_start  in turns it is not begun before; null: at any time. Without turns the thread waits in the work itself
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
  /// The same, and waits. @throws what it threw
  template <class Work>
  auto run(Work work) {
    try {
      return submit(std::move(work)).get();
    } catch (...) {
      tell_failure();
      throw;
    }
  }
  /// Whether anybody was told of what ended communication, by `run` or otherwise.
  bool has_told_failure() const { return failure_was_told_; }
  void tell_failure() { failure_was_told_ = true; }
  /// What is submitted runs in these turns from now on; null: at once. In work, the same on every rank. They must outlive that.
  void take_turns(Turns* turns) { turns_ = turns; }
  /// A turn may be due sooner than before. From any thread.
  void wake();
  /// Names what its work communicates as long as it lives, for whoever asks what this rank waits for.
  class Doing {
   public:
    Doing(CommunicationThread& thread, std::string what) : thread_(thread) { thread_.set_doing(std::move(what)); }
    ~Doing() { thread_.set_doing({}); }
    Doing(const Doing&) = delete;
    Doing& operator=(const Doing&) = delete;

   private:
    CommunicationThread& thread_;
  };
  /// "the gradient of fc.weight"; empty where nothing is named. From any thread.
  std::string doing() const;
  /// What is submitted from now on is of that step of this rank, counted from 1; an error of a rank that waits for one that has ended names both steps. From
  /// any thread.
  void at_step(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }
  std::int64_t step() const { return step_.load(std::memory_order_relaxed); }
  /// Ends waits with a CommError: what is submitted fails. From any thread.
  void abort(const std::string& why) { communicator_->abort(why); }

 private:
  struct Job {
    std::function<void(Collectives&)> run;  // throws nothing
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
  std::exception_ptr failed_;  // of the communication thread alone, like
  Turns* turns_ = nullptr;
  std::unique_ptr<Communicator> communicator_;
  std::jthread thread_;
};

}  // namespace gemel::parallel
