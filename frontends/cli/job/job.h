// Job: one rank among those that share a run - processes that mpirun started, or devices of one process, each in a thread - their
// communication, their watch over each other, and who speaks.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "frontends/cli/job/launch_messages.h"
#include "frontends/cli/options/common_options.h"
#include "frontends/cli/options/parallel_options.h"
#include "opencl/device/device.h"
#include "parallel/collectives/communication_thread.h"
#include "parallel/watch/failure_detector.h"

namespace gemel::cli {

/// Thrown where an error was told already, by whichever rank tells it.
struct Told {
  int status = 1;  // that the process ends with: 2 for wrong usage
};

class Job {
 public:
  /// Joins the other ranks; from here on rank 0 alone speaks. Without --parallel: a process of its own, whatever started it.
  /// @throws UsageError where mpirun did not start it, or the ranks cannot run the collective; CommError
  explicit Job(const ParallelOptions& options);
  /// A replica among those of this process, for its thread.
  Job(const ParallelOptions& options, std::unique_ptr<parallel::Communicator> communicator);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const ParallelOptions& options() const { return options_; }
  const Strategy& strategy() const { return *options_.strategy; }
  int rank() const { return communication_ ? communication_->rank() : 0; }
  int size() const { return communication_ ? communication_->size() : 1; }
  /// Null for a process of its own.
  parallel::CommunicationThread* communication() { return communication_.get(); }
  /// This rank's device and its share of the machine: of the cores it was bound to an even part, where other ranks are bound to them too; an
  /// even part of the memory.
  /// @throws UsageError where fewer devices are named than ranks of this machine
  opencl::DeviceOptions share_of(opencl::DeviceOptions device) const;

  /// Runs the body. An error ends the job on every rank, and is told once. @throws Told; the error itself in a process of its own
  int carry_out(const std::function<int()>& body);
  /// For the watch: this rank moved on, and waits next for this.
  void progress(const std::string& waiting_for);

 private:
  void become_rank(std::function<std::unique_ptr<parallel::Communicator>()> communicator, int rank);
  void watch_others();
  void lost(const parallel::Loss& loss);
  void end_within(double seconds);
  void tell_launcher(const parallel::Loss& loss) const;
  ParallelOptions options_;
  Launched launched_;
  std::unique_ptr<parallel::CommunicationThread> communication_;
  std::unique_ptr<parallel::FailureWatch> watch_;
  std::atomic<bool> is_over_ = false;
};

/// Writes a line to standard error, as every error is, also where a rank does not speak otherwise.
void tell(const std::string& line);

/// A rank's own: its device; of a job's ranks the first writes files, the profile of all among them.
CommonOptions of_rank(CommonOptions options, const Job& job);

/// Runs the body for this process, or for each of its replicas in a thread of its own.
/// @param device  whose platform's devices are the replicas, where they are not named
/// @return the exit status @throws Told; what the body threw first
int run_job(const ParallelOptions& options, const opencl::DeviceOptions& device, const std::function<int(Job&)>& body);

}  // namespace gemel::cli
