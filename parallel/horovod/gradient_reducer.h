// GradientReducer: reduces each gradient of a step as a named tensor of Horovod, requested when it is computed and fused with others of the cycle.
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
    NamedCollectives& horovod;           // reduces the gradients; must outlive this object
    ReducerOptions reducer;              // compression may be none, float16 or bfloat16; each bucket has one parameter
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

  NamedCollectives& horovod_;
  Reduce how_{.reduction = Reduction::sum};
  bool asks_ = true;            // false: one rank alone already has the sum of all gradients
  std::shared_ptr<Step> step_;  // the current one; null: none
};

}  // namespace gemel::parallel::horovod
