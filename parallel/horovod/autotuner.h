// Autotuner: finds the fusion threshold and the cycle time of highest throughput in bytes a second (HOROVOD_AUTOTUNE), by successive halving of a grid: all
// candidates are measured once, the better half again and longer, until one is left.
// Source: K. Jamieson, A. Talwalkar, Non-stochastic best arm identification and hyperparameter optimization, 2016.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/files/record_file.h"
#include "parallel/horovod/options.h"
#include "parallel/horovod/request.h"

namespace gemel::parallel::horovod {

/// The tuner, which runs on rank 0.
class Autotuner {
 public:
  using Clock = std::chrono::steady_clock;
  /// Returns the grid of candidates.
  static std::vector<Tuned> candidates();
  using Warn = std::function<void(const std::string& line)>;
  /// @param warn  is told once if the log's disk is full
  /// @throws DataError if the log cannot be opened
  explicit Autotuner(const Options& options, Warn warn = {});

  /// Takes the tensors that were reduced together.
  /// @return the settings to use from now on, if they change
  std::optional<Tuned> reduced(std::span<const Request* const> together, Clock::time_point now);
  /// Returns the settings in use.
  const Tuned& current() const { return left_[at_].tuned; }
  bool done() const { return left_.size() == 1; }

 private:
  struct Candidate {
    Tuned tuned;
    std::vector<double> scores;  // bytes a second
    double score() const;
  };
  std::optional<Tuned> end_sample(double bytes_per_s);
  void halve();
  void log(const std::string& line);

  std::vector<Candidate> left_;
  std::size_t at_ = 0;
  std::int64_t warmup_, steps_, samples_each_ = 1;
  std::map<std::string, std::int64_t> times_;  // number of reductions of each tensor in this sample
  std::int64_t bytes_ = 0;
  std::optional<Clock::time_point> begin_;
  std::optional<RecordFile> log_;
  Warn warn_;
};

}  // namespace gemel::parallel::horovod
