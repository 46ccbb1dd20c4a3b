// The thread of a rank that communicates: it makes the communicator, runs what it is given in order, and sleeps in between.
#pragma once
#include <condition_variable>
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
#include "parallel/communicator.h"

namespace gemel::parallel {

class CommunicationThread {
 public:
  using Make = std::function<std::unique_ptr<Communicator>()>;
  /// Waits until the communicator is made, in the thread that will use it, and its limits are measured.
  /// @param fixed  the algorithm of every all-reduce; none: by size
  /// @throws what `make` threw; UsageError where the ranks cannot run the algorithm
  explicit CommunicationThread(Make make, std::optional<Algorithm> fixed = {});
  /// Runs what was submitted, then ends.
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->size(); }
  const Placement& placement() const { return communicator_->placement(); }

  /// Runs work(Collectives&) behind all that was submitted before. From any thread. After work that threw, what is behind it throws the same.
  template <class Work>
  auto submit(Work work) {
    using Result = std::invoke_result_t<Work&, Collectives&>;
    auto promise = std::make_shared<std::promise<Result>>();
    std::future<Result> result = promise->get_future();
    enqueue([this, promise, work = std::move(work)](Collectives& c) mutable {
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
    });
    return result;
  }
  /// The same, and waits. @throws what it threw
  template <class Work>
  auto run(Work work) {
    return submit(std::move(work)).get();
  }
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
  /// Ends waits with a CommError: what is submitted fails. From any thread.
  void abort(const std::string& why) { communicator_->abort(why); }

 private:
  using Job = std::function<void(Collectives&)>;  // throws nothing
  void enqueue(Job job);
  void set_doing(std::string what);
  void work(const Make& make, std::optional<Algorithm> fixed, std::promise<void> ready);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string doing_;
  std::deque<Job> jobs_;
  bool ending_ = false;
  std::exception_ptr failed_;  // of the communication thread alone
  std::unique_ptr<Communicator> communicator_;
  std::jthread thread_;
};

}  // namespace gemel::parallel
