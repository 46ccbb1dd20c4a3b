// One training step and one evaluation step of a classifier, the same function for both front ends.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "datasets/loader.h"
#include "engine/session.h"
#include "frontends/cli/common_options.h"
#include "frontends/graph/compile.h"
#include "frontends/nn/module.h"
#include "frontends/optim/optimizer.h"

namespace gemel::cli {

struct StepResult {
  double loss = 0;                            // the mean over the batch
  std::vector<std::int64_t> labels, guesses;  // of each sample; a guess is the class with the largest logit
  std::int64_t correct() const;
};

/// A step's results on their way to the host.
class PendingStep {
 public:
  /// Enqueues the reads. @param what  names the step in errors: "step 3"
  PendingStep(const Value& loss, const Value& guesses, datasets::BatchBytes labels, std::string what);
  /// Waits for this step and for nothing that was enqueued after it.
  /// @throws DataError where a kernel met a label or an index out of range
  StepResult get();

 private:
  std::function<std::vector<double>()> loss_, guesses_;
  datasets::BatchBytes labels_;
  std::string what_;
};

/// A batch whose pictures and labels lie on the device.
struct DeviceBatch {
  Value images, labels;
  datasets::BatchBytes host_labels;
  std::int64_t index = 0, first_position = 0;  // as in datasets::Batch
};

class Training {
 public:
  /// @param optimizer  null for evaluation only  @param clip_norm  0: none
  Training(Session& session, nn::Module& model, optim::Optimizer* optimizer, Frontend frontend, PassNames passes, double clip_norm);

  /// Enqueues the transfers.
  DeviceBatch to_device(const datasets::Batch& batch);
  /// Enqueues forward, backward and update. @param step  number of the step, from 1: names the random draws
  PendingStep train(const DeviceBatch& batch, double rate, std::int64_t step);
  PendingStep train(const datasets::Batch& batch, double rate, std::int64_t step) { return train(to_device(batch), rate, step); }
  /// Enqueues a forward pass in evaluation mode.
  PendingStep evaluate(const DeviceBatch& batch);
  PendingStep evaluate(const datasets::Batch& batch) { return evaluate(to_device(batch)); }

  /// Of the larger of both graphs; 0 for the eager front end.
  graph::ArenaUse arena() const;

 private:
  Values train_step(const Values& in);
  Values evaluation_step(const Values& in);
  Values run(graph::Compiled& compiled, Values (Training::*step)(const Values&), Values in);
  Session& session_;
  nn::Module& model_;
  optim::Optimizer* optimizer_;
  Frontend frontend_;
  double clip_norm_;
  graph::Compiled train_graph_, evaluation_graph_;
};

}  // namespace gemel::cli
