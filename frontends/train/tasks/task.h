// Task: what a model is trained on and evaluated by, over batches of named tensors. Losses, their weights and the counts for metrics are sums, so that masks,
// uneven shards and micro-batches are exact.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/loading/batch.h"
#include "engine/parameters/parameter_set.h"
#include "frontends/nn/module.h"

namespace gemel::train {

/// The tensors of a batch on a device, in the order in which the task names them.
class Inputs {
 public:
  Inputs(std::span<const std::string> names, std::span<const Value> values) : names_(names), values_(values) {}
  /// @throws UsageError if the task does not name the tensor
  const Value& operator[](std::string_view name) const;

 private:
  std::span<const std::string> names_;
  std::span<const Value> values_;
};

/// Results of a forward pass.
struct Outcome {
  Value loss;           // float32 []: sum of the batch's losses
  Values outputs = {};  // what `count` reads on the host, without history
};

/// Sums over batches, which merge by addition.
struct Sums {
  std::int64_t samples = 0;
  double loss = 0, weight = 0;
  std::vector<double> counts = {};  // the task's own; empty: all 0

  Sums& operator+=(const Sums& more);
  double mean_loss() const { return weight > 0 ? loss / weight : 0; }
};

struct Metric {
  std::string name;
  double value;
};

class Task {
 public:
  virtual ~Task() = default;
  virtual nn::Module& module() = 0;
  /// Names of the batch's tensors that `forward` reads.
  virtual std::vector<std::string> inputs() const = 0;
  /// Called before the module is divided into stages, none of which holds all of it. In evaluation `forward` must then omit computation on the full module
  /// beyond the trained forward pass.
  virtual void cut_into_stages() {}
  /// Computes the forward pass and the loss, in the module's mode and in any front end.
  virtual Outcome forward(const Inputs& batch) = 0;
  /// Returns the divisor of the batch's summed loss, to be added over the step; by default the number of samples.
  virtual double weight(const datasets::Batch& batch) const { return static_cast<double>(batch.samples); }
  /// Returns counts for metrics.
  /// @param outputs  the numbers of each of the outcome's outputs
  virtual std::vector<double> count(const datasets::Batch& batch, std::span<const std::vector<double>> outputs) const;
  /// Computes the metrics from sums over all batches, the most important one first.
  virtual std::vector<Metric> metrics(const Sums& sums) const;
};

/// Options of a classification task.
struct ClassificationOptions {
  std::vector<std::string> tensors = {"images"};  // of a batch, which the module takes
  std::string first_metric = "accuracy";          // with two classes any name of metrics(), or "matthews"
  double label_smoothing = 0;                     // of the loss, in training and evaluation; 0..1
};

/// Classification with one class a sample, the tensor "labels". Metrics are accuracy and, for two classes, of which 1 is the positive one, precision, recall
/// and f1; also Matthews' correlation if requested.
/// Source: B. W. Matthews, Comparison of the predicted and observed secondary structure of T4 phage lysozyme, 1975
class ClassificationTask : public Task {
 public:
  ClassificationTask(nn::Module& module, std::int64_t classes, ClassificationOptions options = {})
      : module_(module), classes_(classes), options_(std::move(options)) {}
  nn::Module& module() override { return module_; }
  std::vector<std::string> inputs() const override;
  Outcome forward(const Inputs& batch) override;
  std::vector<double> count(const datasets::Batch& batch, std::span<const std::vector<double>> outputs) const override;
  std::vector<Metric> metrics(const Sums& sums) const override;

 private:
  nn::Module& module_;
  std::int64_t classes_;
  ClassificationOptions options_;
};

}  // namespace gemel::train
