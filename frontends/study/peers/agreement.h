// Agreement: whether a peer computes what Gemel does: the same outputs and losses, from the same weights and data.
#pragma once
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "frontends/study/run_record.h"
#include "frontends/study/runner/study_options.h"

namespace gemel::study {

/// The largest difference with which a peer agrees: of outputs over the largest of them, of losses over theirs where these exceed 1.
inline constexpr double kAgreement = 1e-3;

class Agreement {
 public:
  explicit Agreement(const StudyOptions& options) : options_(options) {}
  /// Removes the folder of weights and data.
  ~Agreement();
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  /// The peer's case with every key of its spec, and `start`: the folder of what it starts from, made once for all cases that share it.
  /// @param timeout_s  of all that it runs for that
  /// Not "ok": why there is none, or why the peer does not agree, as a run that is to be recorded. @throws Interrupted
  ProcessRecord check(const Case& c, double timeout_s);

 private:
  /// Weights, a batch, and what Gemel makes of them.
  struct Start {
    std::filesystem::path folder;
    Json spec;  // the keys that decide it
    std::vector<double> outputs, losses;
    double rate = 0;  // of the losses
  };
  struct Failure {
    std::string status, reason;
  };

  /// Whether the peer can be imported, which is asked once.
  void probe(const Json& spec);
  Start& start_of(const Json& spec);
  static void require_processor(const Start& start);
  static Json keys_of_batch(const Start& start);
  void write_batch(const Start& start) const;
  template <class F>
  static auto or_missing(const F& texts);
  static std::filesystem::path texts_to_train(const Start& start, const Json& spec);
  void find_outputs(Start& start) const;
  void find_losses(Start& start) const;
  Json gemel(const Start& start, const std::string& command, Json spec) const;
  Json compared(const Case& ready, Start& start, ProcessRecord& run) const;
  void run_words(const std::vector<std::string>& words, const std::filesystem::path& folder, const Json& spec) const;

  const StudyOptions& options_;
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline_;             // of the check under way
  std::map<std::string, Failure> probed_;  // by peer; without a status: it is there
  std::map<std::string, Start> starts_;    // by their specs
  std::map<std::string, Json> agreed_;     // by case: what was found
};

}  // namespace gemel::study
