#include "tests/support/models/split_case.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/base/numbers.h"
#include "engine/gradients/autograd.h"
#include "engine/gradients/row_gradient.h"
#include "engine/graph/cut/split_backward.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/ops.h"
#include "engine/passes/passes.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "frontends/nn/loss.h"
#include "tests/support/models/residual_block.h"

namespace gemel::testing {
namespace {

using List = std::vector<double>;

/// What the pieces' parameters get, summed from the last piece on.
class Sums {
 public:
  void add(const Piece& piece, const Values& gradients, std::size_t first) {
    const Values parameters = piece.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (gradients[first + i]) accumulate(sums_[parameters[i].storage().get()], gradients[first + i]);
  }
  Values of(const Values& parameters) {
    Values out;
    for (const Value& p : parameters) out.push_back(sums_[p.storage().get()]);
    return out;
  }

 private:
  std::map<const Storage*, Value> sums_;
};

Values inputs_of(const Piece& piece, const Values& own, const Values& arrived) {
  Values out;
  for (std::size_t i : piece.own) out.push_back(own[i]);
  for (std::size_t k = 0; k < arrived.size(); ++k) out.push_back(piece.arrives[k].tracked ? leaf(arrived[k].detached()) : arrived[k].detached());
  return out;
}

/// The gradients of what left a piece, from those of the same values as they arrived.
Values seeds_of(const Piece& piece, const Values& gradients) {
  Values out;
  std::size_t next = 0;
  for (const auto& u : piece.leaves) out.push_back(u.tracked ? gradients[next++] : Value());
  return out;
}

/// A section, optimised and run. @param given  all that its inputs are chosen from  @param saved  its last inputs
Values execute(Session& session, const Section& half, const Values& given, const Values& saved) {
  Values inputs;
  for (std::size_t i : half.own) inputs.push_back(given[i]);
  inputs.insert(inputs.end(), saved.begin(), saved.end());
  return Executor(session, std::make_shared<const Program>(optimise(session, half.program, parse_passes("all")))).run(inputs);
}

/// One piece, from its forward to its backward pass.
struct Stage {
  ForwardBackward halves;
  Values inputs, saved;
};

/// @param arrived  what the piece before gave; becomes what this one gives
Stage forwards(Session& session, const Piece& piece, const Values& in, Values& arrived, Kept kept) {
  Stage stage{split_backward(session, piece, kept), inputs_of(piece, in, arrived), {}};
  const Values out = execute(session, stage.halves.forward, stage.inputs, {});
  const auto results = static_cast<std::ptrdiff_t>(piece.program.outputs.size());
  arrived.assign(out.begin(), out.begin() + results);
  stage.saved.assign(out.begin() + results, out.end());
  return stage;
}

/// @param gradients  of the piece's outputs; become those of what arrived
void backwards(Session& session, const Piece& piece, const Stage& stage, Values& gradients, Sums& sums) {
  Values given = stage.inputs;
  given.insert(given.end(), gradients.begin(), gradients.end());
  Values found = execute(session, stage.halves.backward, given, stage.saved);
  const auto wanted = std::ranges::count_if(piece.arrives, [](const auto& u) { return u.tracked; });
  gradients.assign(found.begin(), found.begin() + wanted);
  for (std::size_t i = 0; i < stage.halves.reached.size(); ++i)
    if (!stage.halves.reached[i]) found.insert(found.begin() + wanted + static_cast<std::ptrdiff_t>(i), Value());
  sums.add(piece, found, at(wanted));
}

}  // namespace

Value waves(Session& session, const Shape& shape, double step) {
  List numbers(at(shape.elements()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<double>(i + 1) * step);
  return session.tensor({shape, DType::float32}, std::span<const double>(numbers));
}

std::unique_ptr<nn::Module> residual_net() {
  auto model = std::make_unique<nn::Sequential>();
  model->emplace<ResidualBlock>(3);
  model->emplace<ResidualBlock>(3);
  model->emplace<nn::Dropout>(0.1);
  model->emplace<nn::AdaptiveAvgPool2d>(Pair{1, 1});
  model->emplace<nn::Flatten>();
  model->emplace<nn::Linear>(3, 2);
  return model;
}

SplitCase::SplitCase(Session& in_session, std::unique_ptr<nn::Module> made, const Shape& pictures, std::int64_t classes)
    : session(in_session), model(std::move(made)) {
  session.manual_seed(session.seed());  // cases that are compared start alike
  model->materialise(session);
  parameters = values_of(model->parameters().trainable());
  List labels;
  for (std::int64_t i = 0; i < pictures[0]; ++i) labels.push_back(static_cast<double>(i % classes));
  in = {waves(session, pictures, 0.1), session.tensor(i64({pictures[0]}), std::span<const double>(labels)), random_state(session, 1)};
}

Values SplitCase::forward(const Values& x) {
  session.random().begin(x[2]);
  const Value logits = (*model)(x[0]);
  return {nn::classification_loss(*model, logits, x[1], LossReduction::sum), argmax(logits.detached(), 1)};
}

Values SplitCase::whole(const Values& x) {
  Values out = forward(x);
  for (Value& g : gradient({out[0]}, parameters)) out.push_back(std::move(g));
  out[0] = out[0].detached();
  return out;
}

Program SplitCase::captured() {
  return capture(
      session, specs_of(in), [this](const Values& x) { return forward(x); }, Outside::bound_for_replay);
}

Values in_pieces(Session& session, const std::vector<Piece>& pieces, const Values& in, const Values& parameters, Kept kept) {
  std::vector<Values> given, made;
  for (const Piece& piece : pieces) {
    given.push_back(inputs_of(piece, in, made.empty() ? Values() : made.back()));
    made.push_back(run(session, piece, given.back(), kept));
  }
  Values results = made.back(), gradients;
  results[0] = results[0].detached();
  Sums sums;
  for (std::size_t p = pieces.size(); p-- > 0;) {
    Values targets;
    for (std::size_t k = 0; k < pieces[p].arrives.size(); ++k)
      if (pieces[p].arrives[k].tracked) targets.push_back(given[p][pieces[p].own.size() + k]);
    const std::size_t arrived = targets.size();
    for (const Value& v : pieces[p].parameters()) targets.push_back(v);
    const Values found = gradient(made[p], targets, p + 1 == pieces.size() ? Values() : seeds_of(pieces[p], gradients));
    sums.add(pieces[p], found, arrived);
    gradients.assign(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(arrived));
  }
  for (Value& g : sums.of(parameters)) results.push_back(std::move(g));
  return results;
}

Values in_halves(Session& session, const std::vector<Piece>& pieces, const Values& in, const Values& parameters, Kept kept) {
  std::vector<Stage> stages;
  Values arrived;
  for (const Piece& piece : pieces) stages.push_back(forwards(session, piece, in, arrived, kept));
  Values results = arrived, gradients{full(session, f32({}), 1)};
  Sums sums;
  for (std::size_t p = pieces.size(); p-- > 0;) backwards(session, pieces[p], stages[p], gradients, sums);
  for (Value& g : sums.of(parameters)) results.push_back(std::move(g));
  return results;
}

}  // namespace gemel::testing
