#include "frontends/cli/run/planned_step.h"

#include <algorithm>
#include <vector>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/device/dispatch.h"
#include "engine/gradients/autograd.h"
#include "engine/graph/run/memory_plan.h"
#include "engine/ops/ops.h"
#include "engine/parameters/parameter_slab.h"
#include "frontends/nn/state/symbolic_state.h"
#include "frontends/train/step.h"

namespace gemel::cli {
Program capture_step(Session& session, train::Task& task, const Specs& inputs, Work work) {
  nn::Module& model = task.module();
  nn::StateNames state(model);
  Specs specs = inputs;
  specs.insert(specs.end(), {i64({4}), f32({})});  // random state, 1 / the weight
  const std::size_t first = specs.size();
  specs.insert(specs.end(), state.specs().begin(), state.specs().end());
  const auto training = [&](const Values& in) -> Values {
    model.train();
    const Values wanting = state.fill(std::span(in).subspan(first));
    train::Differentiated step = train::differentiate(session, task, std::span(in).first(first), wanting);
    Values out = step.results();
    for (Value& g : step.gradients)
      if (g) out.push_back(std::move(g));
    return out;
  };
  const auto infer = [&](const Values& in) -> Values {
    model.eval();
    state.fill(std::span(in).subspan(first));
    const GradientMode no_gradients(session, GradientMode::Mode::off);
    return model(Values(in.begin(), in.begin() + std::ssize(inputs) - 1));
  };
  return work == Work::train ? capture(session, specs, training) : capture(session, specs, infer);
}

bool trains_on(train::Task& task, const Specs& inputs) {
  const auto session = Session::reference();
  try {
    capture_step(*session, task, inputs, Work::train);
    return true;
  } catch (const ShapeError&) {
    return false;
  }
}

void build_step(Session& session, train::Task& task, const Specs& inputs, Work work) {
  try {
    session.interpreter().expect(problems_of(capture_step(*Session::reference(), task, inputs, work)));
  } catch (const ShapeError&) {
    // Of the batch alone: batch normalisation over all ranks takes a single sample of each. The kernels are then built as they are met.
  }
}

PlannedStep plan_step(train::Task& task, const Specs& inputs, Work work, const opencl::Device* device) {
  const auto session = Session::reference();
  const Program program = capture_step(*session, task, inputs, work);
  constexpr std::int64_t kAlignment = 128, kNoLimit = std::int64_t{1} << 50;
  const bool shares = !device || device->settings().memory_plan;
  PlannedStep step{.arena_bytes = (shares ? plan_memory(program, kAlignment, kNoLimit) : plan_own_memory(program)).arena_bytes};
  for (const OwnedProblem& owned : problems_of(program)) {
    const Problem p = owned.problem();
    if (p.op.cost) step.flops += p.op.cost(p).flops;
    if (!device || p.op.variants.empty()) continue;
    const opencl::DeviceProfile& profile = device->profile();
    if (const Variant& v = choose(p, profile); v.workspace_bytes) step.workspace_bytes = std::max(step.workspace_bytes, v.workspace_bytes(p, profile));
  }
  return step;
}

std::int64_t slab_bytes(const nn::Module& model) {
  std::int64_t pages = 0;
  model.visit([&pages](const std::string&, const nn::Module& m) {
    for (const auto& p : m.own_parameters()) pages += p->tied_to ? 0 : Slab::pages_for(p->spec);
  });
  return f32({pages * Slab::kPageElements}).bytes();
}

std::int64_t state_bytes(nn::Module& model) {
  std::int64_t sum = 0;
  const nn::StateNames state(model);
  for (const Spec& s : state.specs()) sum += s.bytes();
  return sum;
}

}  // namespace gemel::cli
