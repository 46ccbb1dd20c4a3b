#include "frontends/cli/planned_step.h"

#include <algorithm>
#include <vector>

#include "engine/autograd.h"
#include "engine/dispatch.h"
#include "engine/graph/plan.h"
#include "engine/ops/ops.h"
#include "engine/session.h"
#include "engine/slab.h"
#include "frontends/train/step.h"

namespace gemel::cli {
namespace {

/// Parameters and buffers of a model, as places that symbolic tensors can be put in.
struct Places {
  Specs specs;
  std::vector<nn::Parameter*> parameters;
  std::vector<nn::Buffer*> buffers;

  explicit Places(nn::Module& model) {
    model.visit([&](const std::string&, nn::Module& m) {
      for (const auto& p : m.own_parameters())
        if (!p->tied_to) parameters.push_back(p.get());
      for (const auto& b : m.own_buffers()) buffers.push_back(b.get());
    });
    for (const auto* p : parameters) specs.push_back(p->spec);
    for (const auto* b : buffers) specs.push_back(b->spec);
  }
  /// @return the parameters, wanting gradients
  Values fill(std::span<const Value> values) {
    Values wanting;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i]->bind(values[i]);
      wanting.push_back(parameters[i]->value);
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i]->value = values[parameters.size() + i];
    return wanting;
  }
};

/// Calls visit(problem) for each instruction.
template <typename Visit>
void each_problem(const Program& program, Visit visit) {
  for (const Program::Instruction& i : program.code) {
    Specs in, out;
    for (const auto& use : i.inputs) in.push_back(use.spec);
    for (const auto& use : i.outputs) out.push_back(use.spec);
    visit(Problem{*i.op, i.attributes, in, out});
  }
}

}  // namespace

Program capture_step(Session& session, nn::Module& model, const Spec& input, Work work) {
  Places places(model);
  Specs specs{input, i64({input.shape[0]}), i64({4}), f32({})};  // pictures, labels, random state, 1 / the weight
  const std::size_t first = specs.size();
  specs.insert(specs.end(), places.specs.begin(), places.specs.end());
  const auto training = [&](const Values& in) -> Values {
    model.train();
    const Values wanting = places.fill(std::span(in).subspan(first));
    train::ClassificationTask task(model, 1);  // how many there are is asked when they are counted
    train::Differentiated step = train::differentiate(session, task, std::span(in).first(first), wanting);
    Values out = step.results();
    for (Value& g : step.gradients)
      if (g) out.push_back(std::move(g));
    return out;
  };
  const auto infer = [&](const Values& in) -> Values {
    model.eval();
    places.fill(std::span(in).subspan(first));
    const GradientMode no_gradients(session, GradientMode::Mode::off);
    return {model(in[0])};
  };
  return work == Work::train ? capture(session, specs, training) : capture(session, specs, infer);
}

PlannedStep plan_step(nn::Module& model, const Spec& input, Work work, const opencl::DeviceProfile* device) {
  const auto session = Session::reference();
  const Program program = capture_step(*session, model, input, work);
  constexpr std::int64_t kAlignment = 128, kNoLimit = std::int64_t{1} << 50;
  PlannedStep step{.arena_bytes = plan_memory(program, kAlignment, kNoLimit).arena_bytes};
  each_problem(program, [&](const Problem& p) {
    if (p.op.cost) step.flops += p.op.cost(p).flops;
    if (!device || p.op.variants.empty()) return;
    if (const Variant& v = choose(p, *device); v.workspace_bytes) step.workspace_bytes = std::max(step.workspace_bytes, v.workspace_bytes(p, *device));
  });
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
  for (const Spec& s : Places(model).specs) sum += s.bytes();
  return sum;
}

}  // namespace gemel::cli
