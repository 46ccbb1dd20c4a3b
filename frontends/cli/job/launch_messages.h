// What `gemel launch` and the ranks that it starts tell each other: it speaks by an environment variable, they by files in the checkpoint folder,
// which is the one place that all of them have.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gemel::cli {

/// The rank whose end was the end of a job's start, as far as it is known.
struct LostRank {
  std::optional<int> rank;  // nothing: mpirun tells how it ended, not which
  std::int64_t ranks = 1;
  std::string host;
  std::string why;  // "was lost: its connection closed"

  std::string text() const;  // "rank 1 of 3 on node-b was lost: its connection closed"
  nlohmann::ordered_json json() const;
  /// @throws nlohmann::json::exception for what `json` did not make
  static LostRank of(const nlohmann::ordered_json& json);
};

struct Launched {
  static constexpr const char* kVariable = "GEMEL_LAUNCH";

  bool checks = false;           // the ranks see whether they could train, and end
  int restart = 0;               // starts of the job before this one
  std::optional<LostRank> lost;  // by which the one before ended
  std::string losses;            // the beginning of the names of files in which ranks tell of a loss; empty: they do not

  std::string text() const;
  /// What a process ends with that failed and said why: 1, or where `gemel launch` started it a number of its own, for Open MPI ends processes
  /// with 1 where it cannot begin, and is kept quiet.
  static int failed();
  static constexpr int kToldFailure = 4;
  /// Whether `gemel launch` started this process.
  static bool is_rank();
  /// What this process was told. @throws UsageError for what `gemel launch` does not say
  static Launched here();
};

/// Of a rank that goes on: tells the launcher which other was lost. A file that cannot be written leaves what mpirun tells.
/// @param rank  that says so
void tell_loss(const Launched& launched, int rank, const LostRank& lost);
struct ToldLoss {
  int by = 0;  // the rank that says so
  LostRank lost;
};
/// Of the launcher: what its ranks told, the earliest first by the one clock of the folder. A rank that was stopped takes the others for lost when
/// it wakes, after they told of it.
std::vector<ToldLoss> told_losses(const Launched& launched);
/// Takes the files away.
void forget_losses(const Launched& launched);

}  // namespace gemel::cli
