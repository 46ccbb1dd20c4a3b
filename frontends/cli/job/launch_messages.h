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
  bool joins_streams = false;    // true: ranks print messages on standard output, with the results
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

/// What a rank reported.
struct ToldLoss {
  int by = 0;  // the reporting rank
  LostRank lost;

  nlohmann::ordered_json json() const;
  /// @throws nlohmann::json::exception for what `json` did not return
  static ToldLoss of(const nlohmann::ordered_json& json);
};

// Lines on standard error for the launcher, where mpirun ends with 0 whatever becomes of its ranks.
inline constexpr const char* kLauncherLine = "gemel-launch: ";  // beginning of all
/// Tells that ranks may be lost from here on.
void tell_begin();
/// Tells that the job ended so, or will within seconds.
void tell_end(int status);
/// From rank 0: tells that the job goes on without a rank.
void tell_gone_on_without(int rank);
/// From a rank that has lost rank 0 and ends: the job has lost it, too, unless rank 0 goes on without this rank.
/// @param rank  the reporting rank
void tell_loss_of_rank_0(int rank, const LostRank& rank_0);
/// Says of a rank that ends because rank 0 goes on, or ends the job, without it: "rank 0 has given up rank 2 of 4, which ends".
std::string given_up_text(int rank, std::int64_t ranks);
/// What such a line tells: one of these, or nothing.
struct LauncherLine {
  bool begins = false;  // ranks may be lost
  std::optional<int> status{};
  std::optional<int> gone_on_without{};
  std::optional<ToldLoss> loss_of_rank_0{};
  static LauncherLine of(std::string_view line);
};

/// Reports from a surviving rank to the launcher that another rank was lost. If the file cannot be written, the launcher has only what mpirun reports.
/// @param rank  the reporting rank
void tell_loss(const Launched& launched, int rank, const LostRank& lost);
/// Returns what ranks reported to the launcher, the earliest first by the clock of the folder's machine: a rank that was suspended takes the others for lost
/// when it wakes, after they reported it.
std::vector<ToldLoss> told_losses(const Launched& launched);
/// Removes the files.
void forget_losses(const Launched& launched);

}  // namespace gemel::cli
