// UsageRecord: once a second, what this rank uses of processor, device, memory and power, as `usage` lines of the run's record.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/base/usage/power_meter.h"
#include "frontends/cli/job/job.h"
#include "frontends/cli/run/run_scope.h"

namespace gemel::cli {

/// Records from construction to destruction. Ranks other than 0 hand their lines to rank 0, which writes them; so on rank 0 it is made once the log has its
/// first line, and destroyed before its last.
class UsageRecord {
 public:
  /// Scope and job outlive it. @param cores  that this rank may use
  UsageRecord(RunScope& scope, Job& job, int cores);
  ~UsageRecord();
  UsageRecord(const UsageRecord&) = delete;
  UsageRecord& operator=(const UsageRecord&) = delete;

 private:
  void run();
  /// On rank 0: writes what ranks have handed to it.
  void write_notes();
  nlohmann::ordered_json line();
  /// Whether this rank stands for its process: ranks that are threads share processor time and memory of the host.
  bool has_process() const;

  RunScope& scope_;
  Job& job_;
  int cores_;
  std::optional<PowerMeter> power_;  // on the first rank of a host
  double processor_seconds_ = 0, joules_ = 0;
  std::int64_t last_ns_ = 0;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace gemel::cli
