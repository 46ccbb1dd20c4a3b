// Job: one rank of a run - a process that mpirun started, or a thread for one device of this process - with its communication and its failure detector. Rank 0
// prints for all.
#pragma once
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "frontends/cli/job/launch_messages.h"
#include "frontends/cli/options/common_options.h"
#include "frontends/cli/options/parallel_options.h"
#include "opencl/device/device.h"
#include "parallel/collectives/communication_thread.h"
#include "parallel/watch/failure_detector.h"

namespace gemel::cli {

/// Thrown instead of an error that a rank has already reported.
struct ReportedError {
  int status = 1;  // exit status of the process: 2 for wrong usage
};

/// Where the ranks of a job hand lines to rank 0: one of the process, which the ranks that are its threads share. Thread-safe. Who posts does not wait for who
/// takes: of more than 4096 lines the oldest are dropped.
class NoteBoard {
 public:
  struct Note {
    std::string line;
    std::chrono::steady_clock::time_point time;  // when it was posted
  };
  void post(const std::string& line);
  /// The lines since the last call, the oldest first.
  std::deque<Note> take();

 private:
  static constexpr std::size_t kMost = 4096;
  std::mutex mutex_;
  std::deque<Note> notes_;
};

class Job {
 public:
  /// Joins the other ranks; from here on only rank 0 prints. Without --parallel this process is alone, whatever started it.
  /// @throws UsageError if mpirun did not start the process, or the ranks cannot run the collective; CommError
  explicit Job(const ParallelOptions& options);
  /// Makes one replica of this process, in its thread.
  Job(const ParallelOptions& options, std::unique_ptr<parallel::Communicator> communicator, std::shared_ptr<NoteBoard> notes);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const ParallelOptions& options() const { return options_; }
  const Strategy& strategy() const { return *options_.strategy; }
  int rank() const { return communication_ ? communication_->rank() : 0; }
  int size() const { return communication_ ? communication_->size() : 1; }
  /// Null if the process is alone.
  parallel::CommunicationThread* communication() { return communication_.get(); }
  /// Returns the options of this rank's device with its share of the machine: an equal part of the cores that it is bound to, if other ranks are bound to them
  /// too, and an equal part of the memory.
  /// @throws UsageError if fewer devices are named than this machine has ranks
  opencl::DeviceOptions share_of(opencl::DeviceOptions device) const;

  /// Runs the body. An error ends the job on every rank and is reported once.
  /// @throws ReportedError; the error itself if the process is alone
  int carry_out(const std::function<int()>& body);
  /// Tells the failure detector that this rank made progress, and what it waits for next.
  void progress(const std::string& waiting_for);

  /// Hands a line of at most 16 KiB to rank 0, to its `notes`. From any thread; nobody waits for it.
  void note(const std::string& line);
  NoteBoard& notes() { return *notes_; }
  /// Whether no rank before this one runs on its host.
  bool is_first_of_host() const;

  /// For ranks that communicate by means of their own. The functions are called in the detector's thread.
  struct OwnMeans {
    std::function<void(const std::string& why)> abort;           // ends their waits: the job ends
    std::function<void(int rank, const std::string& why)> lose;  // on rank 0: the job goes on without this rank
  };
  void communicate_by(OwnMeans means);
  /// On rank 0, when no rank needs another any more but by these means: ranks of this number or a larger one may be lost from here on.
  /// @return false if the loss of any rank ends the job, as where mpirun ends all
  bool need_only(int ranks);

 private:
  void become_rank(std::function<std::unique_ptr<parallel::Communicator>()> communicator, int rank);
  void watch_others();
  void lost(const parallel::Loss& loss);
  void departed(const parallel::Loss& loss);
  bool outlives_ranks() const;
  bool is_loss_of_this(const parallel::Loss& loss) const;
  int cores_where_some_sleep() const;
  void end_within(double seconds);
  bool may_be_cut_off(const parallel::Loss& loss) const;
  void tell_launcher(const parallel::Loss& loss) const;
  ParallelOptions options_;
  Launched launched_;
  std::shared_ptr<NoteBoard> notes_ = std::make_shared<NoteBoard>();  // outlives the failure detector, which posts to it
  std::unique_ptr<parallel::CommunicationThread> communication_;
  std::unique_ptr<parallel::FailureDetector> watch_;
  std::atomic<bool> is_over_ = false;
  std::atomic<bool> is_given_up_ = false;  // the job may go on without this rank, which does not tell how it ends
  std::mutex means_mutex_;
  OwnMeans means_;
};

/// Writes a line to standard error, also on ranks that print nothing else.
void tell(const std::string& line);

/// Returns the options of a rank: its device; files, such as the profile of all ranks, only on rank 0.
CommonOptions of_rank(CommonOptions options, const Job& job);

/// Runs the body in this process, or in a thread for each of its replicas.
/// @param device  replicas run on the devices of its platform, unless devices are named
/// @return the exit status  @throws ReportedError; what the body threw first
int run_job(const ParallelOptions& options, const opencl::DeviceOptions& device, const std::function<int(Job&)>& body);

}  // namespace gemel::cli
