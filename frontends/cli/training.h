// One training step and one evaluation step of a classifier, the same function for both front ends.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "datasets/loader.h"
#include "engine/session.h"
#include "frontends/graph/compile.h"
#include "frontends/nn/module.h"
#include "frontends/optim/optimizer.h"
#include "frontends/optim/schedule.h"

namespace gemel::cli {

enum class Frontend { eager, graph };

/// What a step gives, read when it is asked for.
struct StepResult {
  std::function<std::vector<double>()> loss, correct;
};

class Training {
 public:
  /// @param optimizer  null for evaluation only  @param clip_norm  0: none
  Training(Session& session, nn::Module& model, optim::Optimizer* optimizer, Frontend frontend, PassNames passes, double clip_norm);

  /// Enqueues forward, backward and update. @param step  number of the step, from 1: names the random draws
  StepResult train(const datasets::Batch& batch, double rate, std::int64_t step);
  /// Enqueues a forward pass in evaluation mode.
  StepResult evaluate(const datasets::Batch& batch);

  /// Bytes of the planned arenas; 0 for the eager front end.
  std::int64_t arena_bytes() const;

 private:
  Values train_step(const Values& in);
  Values evaluation_step(const Values& in);
  Values run(graph::Compiled& compiled, Values (Training::*step)(const Values&), Values in);
  Values to_device(const datasets::Batch& batch);
  Session& session_;
  nn::Module& model_;
  optim::Optimizer* optimizer_;
  Frontend frontend_;
  double clip_norm_;
  graph::Compiled train_graph_, evaluation_graph_;
};

}  // namespace gemel::cli
