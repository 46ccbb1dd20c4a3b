// Loss and counts of a classifier over a whole data set.
#pragma once
#include <array>
#include <cstdint>
#include <functional>

#include "datasets/dataset.h"
#include "frontends/cli/training.h"

namespace gemel::cli {

/// Sums over samples.
struct Totals {
  double loss = 0;
  std::int64_t correct = 0, samples = 0;
  std::array<std::int64_t, 4> binary{};  // [2 label + guess], of the samples with labels 0 and 1

  void add(const StepResult& step);
  double mean_loss() const { return samples ? loss / static_cast<double>(samples) : 0; }
  double accuracy() const { return ratio(correct, samples); }
  /// Of tasks with two classes, of which 1 is the one looked for. 0 where there is nothing to count.
  double precision() const { return ratio(binary[3], binary[1] + binary[3]); }
  double recall() const { return ratio(binary[3], binary[2] + binary[3]); }
  double f1() const;

 private:
  static double ratio(std::int64_t a, std::int64_t b) { return b ? static_cast<double>(a) / static_cast<double>(b) : 0; }
};

/// Runs every sample in file order through the model in evaluation mode. The host reads one batch late.
/// @param after_batch  called after each batch is enqueued; what it throws ends the evaluation
/// @throws DataError where a label is out of range
Totals evaluate(Training& training, const datasets::Dataset& data, std::int64_t batch_size, const std::function<void()>& after_batch);

}  // namespace gemel::cli
