// Gradients of a step as Horovod's named tensors: each is asked for when it is computed, and fused with what else is there in a cycle.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "parallel/ddp/reducer.h"
#include "parallel/horovod/operations.h"

namespace gemel::parallel::horovod {

class GradientReducer : public Reducer {
 public:
  struct Options {
    Horovod& horovod;                    // carries the gradients, and outlives this
    ReducerOptions reducer;              // compression: none or two bytes; buckets are one a parameter
    double prescale = 1, postscale = 1;  // factors of gradients before and after they are summed
  };
  GradientReducer(Session& session, CommunicationThread& communication, std::vector<NamedValue> parameters, const GradientMemory& memory,
                  const Options& options);

 private:
  struct Step;
  class Gradient;
  void submit(std::size_t bucket, const Event& computed) override;
  std::future<std::vector<std::int32_t>> end_step(std::vector<std::int32_t> used, const Ended& ended) override;
  bool in_any_order() const override { return true; }
  std::shared_ptr<GradientReducer> self() { return std::static_pointer_cast<GradientReducer>(shared_from_this()); }

  Horovod& horovod_;
  Reduce how_{.reduction = Reduction::sum};
  bool asks_ = true;            // no: a rank alone has the sum of all gradients already
  std::shared_ptr<Step> step_;  // under way; null: none
};

}  // namespace gemel::parallel::horovod
