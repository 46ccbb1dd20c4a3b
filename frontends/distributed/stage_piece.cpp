#include "frontends/distributed/stage_piece.h"

#include <map>
#include <utility>

#include "engine/autograd.h"
#include "engine/base/error.h"
#include "engine/base/span.h"
#include "engine/graph/executor.h"
#include "engine/graph/split_backward.h"
#include "engine/ops/ops.h"
#include "engine/rows.h"

namespace gemel::distributed {
namespace {

/// Applies the piece with histories, which begin at what arrives.
class EagerPiece : public StagePiece {
 public:
  EagerPiece(Session& session, Piece piece, Kept kept) : StagePiece(std::move(piece)), session_(session), kept_(kept) {}

  Values forward(int micro_batch, Values inputs) override {
    Held held;
    const auto& arrives = piece().arrives;
    for (std::size_t k = 0; k < arrives.size(); ++k) {
      if (!arrives[k].tracked) continue;
      Value& value = inputs[piece().own.size() + k];
      held.arrived.push_back(value = leaf(value));
    }
    held.outputs = run(session_, piece(), std::move(inputs), kept_);
    Values out;
    for (const Value& v : held.outputs) out.push_back(v.detached());
    held_.emplace(micro_batch, std::move(held));
    return out;
  }

  Gradients backward(int micro_batch, const Values& leaving) override {
    const Held held = std::move(held_.extract(micro_batch).mapped());
    const std::size_t arrived = held.arrived.size();
    Values targets = held.arrived;
    for (const Value& p : piece().parameters()) targets.push_back(p);
    if (leaving.empty() || targets.empty()) return {{}, Values(targets.size() - arrived)};
    Values seeds;
    auto next = leaving.begin();
    for (const auto& u : piece().program.outputs) seeds.push_back(u.tracked ? *next++ : Value());
    Values found = gradient(held.outputs, targets, std::move(seeds));
    Gradients out;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (i < arrived) out.arrived.push_back(found[i] ? std::move(found[i]) : full(session_, targets[i].spec(), 0));
      else out.parameters.push_back(found[i] ? to_dense(std::move(found[i])) : Value());
    }
    return out;
  }

  void forget() override { held_.clear(); }

 private:
  struct Held {
    Values arrived;  // leaves
    Values outputs;  // with their histories, which hold the rest
  };
  Session& session_;
  Kept kept_;
  std::map<int, Held> held_;  // [micro-batch]
};

std::unique_ptr<Executor> executor_of(Session& session, const Program& program, const PassNames& passes) {
  return std::make_unique<Executor>(session, std::make_shared<const Program>(optimise(session, program, passes)));
}

/// Two planned programs.
class GraphPiece : public StagePiece {
 public:
  GraphPiece(Session& session, Piece piece, const StageOptions& options)
      : StagePiece(std::move(piece)), halves_(split_backward(session, StagePiece::piece(), options.kept)),
        forward_(executor_of(session, halves_.forward.program, options.passes)) {
    if (!halves_.backward.program.outputs.empty()) backward_ = executor_of(session, halves_.backward.program, options.passes);
  }

  Values forward(int micro_batch, Values inputs) override {
    Values given;
    for (const std::size_t i : halves_.forward.own) given.push_back(inputs[i]);
    Values out = forward_->run(given);
    const auto saved = out.begin() + std::ssize(piece().program.outputs);
    Held held{Values(inputs.size()), Values(saved, out.end())};
    for (const std::size_t i : halves_.backward.own)
      if (i < inputs.size()) held.inputs[i] = inputs[i];
    held_.emplace(micro_batch, std::move(held));
    out.erase(saved, out.end());
    return out;
  }

  Gradients backward(int micro_batch, const Values& leaving) override {
    const Held held = std::move(held_.extract(micro_batch).mapped());
    Gradients out{{}, Values(halves_.reached.size())};
    if (!backward_ || leaving.empty()) return out;
    Values given;
    for (const std::size_t i : halves_.backward.own) given.push_back(i < held.inputs.size() ? held.inputs[i] : leaving.at(i - held.inputs.size()));
    given.insert(given.end(), held.saved.begin(), held.saved.end());
    Values found = backward_->run(given);
    auto next = found.begin();
    for (const auto& u : piece().arrives)
      if (u.tracked) out.arrived.push_back(std::move(*next++));
    for (std::size_t i = 0; i < halves_.reached.size(); ++i)
      if (halves_.reached[i]) out.parameters[i] = std::move(*next++);
    return out;
  }

  void forget() override { held_.clear(); }

  graph::ArenaUse arena() const override {
    graph::ArenaUse most;
    for (const Executor* e : {forward_.get(), backward_.get()})
      if (e && e->plan().arena_bytes > most.bytes) most = {e->plan().arena_bytes, e->plan().lower_bound};
    return most;
  }

 private:
  struct Held {
    Values inputs;  // empty values where the backward pass does not read them
    Values saved;
  };
  ForwardBackward halves_;
  std::unique_ptr<Executor> forward_, backward_;  // null: nothing wants a gradient
  std::map<int, Held> held_;                      // [micro-batch]
};

class EagerEvaluation : public StagePiece {
 public:
  EagerEvaluation(Session& session, Piece piece) : StagePiece(std::move(piece)), session_(session) {}
  Values forward(int, Values inputs) override {
    const GradientMode no_gradients(session_, GradientMode::Mode::off);
    return run(session_, piece(), std::move(inputs));
  }

 private:
  Session& session_;
};

class GraphEvaluation : public StagePiece {
 public:
  GraphEvaluation(Session& session, Piece piece, const PassNames& passes) : StagePiece(std::move(piece)) {
    const Program& whole = StagePiece::piece().program;
    Specs inputs = specs_of(whole.inputs);
    inputs.resize(inputs.size() - whole.captured.size());
    const Program program = capture(session, inputs, [&](const Values& in) {
      const GradientMode no_gradients(session, GradientMode::Mode::off);
      return run(session, StagePiece::piece(), in);
    });
    executor_ = executor_of(session, program, passes);
  }
  Values forward(int, Values inputs) override { return executor_->run(inputs); }

 private:
  std::unique_ptr<Executor> executor_;
};

}  // namespace

StagePiece::Gradients StagePiece::backward(int, const Values&) { throw InternalError("pipeline: a piece of an evaluation has no backward pass"); }

std::unique_ptr<StagePiece> make_stage_piece(Session& session, Piece piece, const StageOptions& options) {
  if (options.frontend == train::Frontend::graph) return std::make_unique<GraphPiece>(session, std::move(piece), options);
  return std::make_unique<EagerPiece>(session, std::move(piece), options.kept);
}

std::unique_ptr<StagePiece> make_evaluated_piece(Session& session, Piece piece, const StageOptions& options) {
  if (options.frontend == train::Frontend::graph) return std::make_unique<GraphEvaluation>(session, std::move(piece), options.passes);
  return std::make_unique<EagerEvaluation>(session, std::move(piece));
}

Specs specs_of(const std::vector<Program::Use>& uses) {
  Specs out;
  for (const auto& u : uses) out.push_back(u.spec);
  return out;
}

Specs tracked_specs(const std::vector<Program::Use>& uses) {
  Specs out;
  for (const auto& u : uses)
    if (u.tracked) out.push_back(u.spec);
  return out;
}

}  // namespace gemel::distributed
