// A job that goes on by itself: where a rank or a machine is lost, it is started again from its newest whole checkpoint.
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
  /// Of a launch with restarts.
  explicit RestartedJob(const Launch& launch);
  ~RestartedJob();
  RestartedJob(const RestartedJob&) = delete;
  RestartedJob& operator=(const RestartedJob&) = delete;

  /// @return 0 where the job is done, else as `exit_status`
  /// @throws Error where it was lost and is not started again, and as `exit_status`
  int run();

 private:
  /// A file as it was written: a run that starts afresh writes others of the same names.
  using Checkpoint = std::pair<std::filesystem::path, std::filesystem::file_time_type>;

  bool start();
  void plan_next();
  LostRank first_lost(const std::vector<HostAnswer>& silent) const;
  std::string leave_out(const std::vector<HostAnswer>& silent);
  std::optional<Checkpoint> newest() const;

  Launch next_;
  const Arguments command_;  // as it was given
  const std::filesystem::path folder_;
  const std::string token_;  // of this launch
  Launched told_;
  std::vector<Checkpoint> of_others_;  // that lay there before the job
  std::optional<Checkpoint> last_;     // when the last start ended
  int in_vain_ = 0;                    // starts in a row that made none
  std::int64_t left_;
  JobEnd end_;                    // of the last start
  std::vector<ToldLoss> losses_;  // that its ranks told of
};

}  // namespace gemel::cli
