#include "frontends/train/inference.h"

#include <utility>

namespace gemel::train {

Inference::Inference(Session& session, nn::Module& module, Frontend frontend, PassNames passes)
    : frontend_(frontend),
      forward_([&session, &module](const Values& in) -> Values {
        const GradientMode no_gradients(session, GradientMode::Mode::off);
        return module(in);
      }),
      compiled_(session, forward_, std::move(passes)) {
  module.eval();
}

Values Inference::operator()(const Values& inputs) { return frontend_ == Frontend::graph ? compiled_(inputs) : forward_(inputs); }

}  // namespace gemel::train
