// Inference: computes a module's outputs in evaluation mode, in either front end.
#pragma once
#include "frontends/graph/compile.h"
#include "frontends/nn/module.h"
#include "frontends/train/step.h"

namespace gemel::train {

class Inference {
 public:
  /// Puts the module, which must outlive this object, into evaluation mode.
  Inference(Session& session, nn::Module& module, Frontend frontend, PassNames passes = parse_passes("all"));
  /// Enqueues a forward pass without history.
  /// @param inputs  of the module
  Values operator()(const Values& inputs);
  /// Arena of the largest plan; 0 in the eager front end.
  graph::ArenaUse arena() const { return compiled_.arena(); }

 private:
  Frontend frontend_;
  graph::Function forward_;
  graph::Compiled compiled_;
};

}  // namespace gemel::train
