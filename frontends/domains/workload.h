// Workload: a model, the data that it is given, and the task over both. Commands know no kind of model.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datasets/loading/dataset.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/optim/optimizer.h"
#include "frontends/train/checkpoint/run_identity.h"
#include "frontends/train/tasks/task.h"

namespace gemel::domains {

/// Changes to a model that its data do not ask for.
struct ModelChanges {
  std::optional<double> dropout{};
  models::RecomputedParts recompute = models::RecomputedParts::none;
};

class Workload {
 public:
  virtual ~Workload() = default;
  /// Name of the model with its configuration, where it has several: "resnet18", "bert-tiny".
  virtual std::string title() const = 0;
  virtual const datasets::Dataset& train_data() const = 0;
  /// Null where the data set has none.
  virtual const datasets::Dataset* validation_data() const = 0;
  /// Size of the training data, as a line of the log has it: "4096 samples, 10 classes".
  virtual std::string extent() const;
  /// Makes a model for these data, without memory.
  virtual std::unique_ptr<nn::Module> model(const ModelChanges& changes = {}) const = 0;
  /// Makes the task that trains and judges a module. The module must outlive it.
  virtual std::unique_ptr<train::Task> task(nn::Module& module) const = 0;
  /// Specs of the task's inputs for a batch of so many samples, at its largest.
  virtual Specs batch(std::int64_t samples) const = 0;
  /// Tokens of a sample at most; 0: it has none.
  virtual std::int64_t tokens() const { return 0; }
  /// Groups of parameters that share their hyperparameters.
  virtual std::vector<optim::Group> groups(const ParameterSet& parameters) const { return optim::all_in_one(parameters); }
  /// Parts of a run's identity that the data and the model's sizes decide.
  virtual train::RunIdentity identity() const = 0;
};

/// Opens the data. @throws what data sets throw
using OpenWorkload = std::function<std::unique_ptr<Workload>()>;

}  // namespace gemel::domains
