// Tasks: what a model is trained and judged by, over batches of named tensors. Everything is a sum, so that masks, uneven shards and
// micro-batches are exact: losses and their weight, and the counts that metrics are made of.
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
  /// @throws UsageError where the task does not name it
  const Value& operator[](std::string_view name) const;

 private:
  std::span<const std::string> names_;
  std::span<const Value> values_;
};

/// What a forward pass gives.
struct Outcome {
  Value loss;           // float32 []: the sum of the batch's losses
  Values outputs = {};  // what `count` looks at on the host, without history
};

/// Sums over batches. They merge by addition.
struct Sums {
  std::int64_t samples = 0;
  double loss = 0, weight = 0;
  std::vector<double> counts = {};  // the task's own; none: all 0

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
  /// Told before the module is cut into stages, of which none holds all of it: what takes the whole module besides the pass that is trained, `forward` then
  /// leaves out of evaluation.
  virtual void cut_into_stages() {}
  /// Forward pass and loss, in the module's mode, in whatever front end.
  virtual Outcome forward(const Inputs& batch) = 0;
  /// What the batch's summed loss is to be divided by, with that of the rest of its step: here the samples.
  virtual double weight(const datasets::Batch& batch) const { return static_cast<double>(batch.samples); }
  /// What metrics are made of. @param outputs  the numbers of each of the outcome's outputs
  virtual std::vector<double> count(const datasets::Batch& batch, std::span<const std::vector<double>> outputs) const;
  /// From sums over all batches, the one that matters most first.
  virtual std::vector<Metric> metrics(const Sums& sums) const;
};

/// What a classification reads, and is trained and judged by.
struct ClassificationOptions {
  std::vector<std::string> tensors = {"images"};  // of a batch, that the module takes
  std::string first_metric = "accuracy";          // with two classes any that metrics() gives, and "matthews"
  double label_smoothing = 0;                     // of the loss, in training and evaluation alike; 0..1
};

/// One class a sample, the tensor "labels". Its metrics are accuracy and, for two classes, of which 1 is the one looked for, precision, recall
/// and f1; Matthews' correlation where it is asked for.
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
