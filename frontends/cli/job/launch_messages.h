// Messages between `gemel launch` and the ranks that it starts: an environment variable to the ranks, and files to the launcher in the checkpoint folder, which
// is the one place that all of them share.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gemel::cli {

/// The rank whose loss ended a start of the job, as far as known.
struct LostRank {
  std::optional<int> rank;  // nothing: mpirun reports how it ended, not which rank
  std::int64_t ranks = 1;
  std::string host;
  std::string why;  // "was lost: its connection closed"

  std::string text() const;  // "rank 1 of 3 on node-b was lost: its connection closed"
  nlohmann::ordered_json json() const;
  /// @throws nlohmann::json::exception for what `json` did not return
  static LostRank of(const nlohmann::ordered_json& json);
};

/// The message of `gemel launch` to the ranks.
struct Launched {
  static constexpr const char* kVariable = "GEMEL_LAUNCH";

  bool checks = false;           // true: ranks check if they could train, then end
  int restart = 0;               // number of earlier starts of the job
  std::optional<LostRank> lost;  // the rank whose loss ended the start before
  bool survives = false;         // true: the loss of a rank does not end mpirun, nor need it end the others
  std::string losses;            // prefix of the files in which ranks report a loss; empty: they do not report

  std::string text() const;
  /// Returns the exit status of a process that failed and said why: 1, or kToldFailure if `gemel launch` started it, for Open MPI itself exits with 1 if it
  /// cannot begin, and its messages are not shown.
  static int failed();
  static constexpr int kToldFailure = 4;
  /// Tells if `gemel launch` started this process.
  static bool is_rank();
  /// Returns what this process was told.
  /// @throws UsageError if `gemel launch` cannot have said it
  static Launched here();
};

// Lines on standard error for the launcher, where mpirun ends with 0 whatever becomes of its ranks.
inline constexpr const char* kLauncherLine = "gemel-launch: ";  // beginning of all
/// Tells that ranks may be lost from here on.
void tell_begin();
/// Tells that the job ended so, or will within seconds.
void tell_end(int status);
/// What such a line tells: nothing, that ranks may be lost, or a status.
struct LauncherLine {
  bool begins = false;
  std::optional<int> status{};
  static LauncherLine of(std::string_view line);
};

/// Reports from a surviving rank to the launcher that another rank was lost. If the file cannot be written, the launcher has only what mpirun reports.
/// @param rank  the reporting rank
void tell_loss(const Launched& launched, int rank, const LostRank& lost);
struct ToldLoss {
  int by = 0;  // the reporting rank
  LostRank lost;
};
/// Returns what ranks reported to the launcher, the earliest first by the clock of the folder's machine: a rank that was suspended takes the others for lost
/// when it wakes, after they reported it.
std::vector<ToldLoss> told_losses(const Launched& launched);
/// Removes the files.
void forget_losses(const Launched& launched);

}  // namespace gemel::cli
