// RestartedJob: restarts a job from its newest complete checkpoint when a rank or a machine is lost.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/cli/job/launch_messages.h"
#include "frontends/cli/launch/hosts.h"
#include "frontends/cli/launch/launch_options.h"
#include "frontends/cli/launch/mpirun.h"

namespace gemel::cli {

class RestartedJob {
 public:
  /// @param launch  with restarts
  explicit RestartedJob(const LaunchOptions& launch);
  ~RestartedJob();
  RestartedJob(const RestartedJob&) = delete;
  RestartedJob& operator=(const RestartedJob&) = delete;

  /// Runs the job.
  /// @return 0 if it is done, else as `exit_status`
  /// @throws Error if the job was lost and is not restarted, and as `exit_status`
  int run();

 private:
  /// A checkpoint file and its time: a run that starts anew writes others of the same names.
  using Checkpoint = std::pair<std::filesystem::path, std::filesystem::file_time_type>;

  bool start();
  void plan_next();
  LostRank first_lost(const std::vector<HostAnswer>& silent) const;
  std::string leave_out(const std::vector<HostAnswer>& silent);
  std::optional<Checkpoint> newest() const;

  LaunchOptions next_;
  const Arguments command_;  // as given
  const std::filesystem::path folder_;
  const std::string token_;  // of this launch
  Launched told_;
  std::vector<Checkpoint> of_others_;  // that existed before the job
  std::optional<Checkpoint> last_;     // when the last start ended
  int in_vain_ = 0;                    // starts in a row that made no checkpoint
  std::int64_t left_;                  // restarts
  JobEnd end_;                         // of the last start
  std::vector<ToldLoss> losses_;       // reported by its ranks
};

}  // namespace gemel::cli
