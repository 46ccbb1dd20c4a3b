// Job: this process among those that mpirun started for one run - their communication, their watch over each other, and who speaks.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "frontends/cli/parallel_options.h"
#include "opencl/device.h"
#include "parallel/communication_thread.h"
#include "parallel/failure_watch.h"

namespace gemel::cli {

/// Thrown where an error was told already, by whichever rank tells it.
struct Told {};

class Job {
 public:
  /// Joins the other ranks; from here on rank 0 alone speaks. Without --parallel: a process of its own, whatever started it.
  /// @throws UsageError where mpirun did not start it, or the ranks cannot run the collective; CommError
  explicit Job(const ParallelOptions& options);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const { return communication_ ? communication_->rank() : 0; }
  int size() const { return communication_ ? communication_->size() : 1; }
  /// Null for a process of its own.
  parallel::CommunicationThread* communication() { return communication_.get(); }
  /// This rank's share of the machine: cores it was bound to, or an even part of all.
  opencl::DeviceOptions share_of(opencl::DeviceOptions device) const;

  /// Runs the body. An error ends the job on every rank, and is told once. @throws Told; the error itself in a process of its own
  int carry_out(const std::function<int()>& body);
  /// For the watch: this rank moved on, and waits next for this.
  void progress(const std::string& waiting_for);

 private:
  void lost(const parallel::Loss& loss);
  std::unique_ptr<parallel::CommunicationThread> communication_;
  std::unique_ptr<parallel::FailureWatch> watch_;
  std::atomic<bool> is_over_ = false;
};

}  // namespace gemel::cli
