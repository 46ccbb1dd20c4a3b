#include "frontends/distributed/pipeline/stage_piece.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/gradients/autograd.h"
#include "engine/graph/cut/split_backward.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/ops.h"
#include "engine/parameters/parameter_slab.h"

namespace gemel::distributed {
namespace {

/// [Piece::parameters] Empty for what is frozen.
Values places_of(const Piece& piece) {
  Values out;
  for (const Value& p : piece.parameters()) out.push_back(p.wants_gradient() ? dense_gradient_place(p) : Value());
  return out;
}

/// Where a gradient left^T right has many more elements than its factors.
bool leaves_products(const Spec& left, const Spec& right) {
  constexpr std::int64_t kTimes = 8;
  const std::int64_t columns = left.shape[1], others = right.shape[1];
  return left.dtype == DType::float32 && columns * others >= kTimes * left.shape[0] * (columns + others);
}

/// Elements of factors up to which they are left for the end of the step.
std::int64_t most_left(const Shape& left, const Shape& right) {
  constexpr std::int64_t kPartOfResult = 2;
  return left[1] * right[1] / kPartOfResult;
}

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

  Values backward(int micro_batch, const Values& leaving, std::vector<bool>& has) override {
    const Held held = std::move(held_.extract(micro_batch).mapped());
    const std::size_t arrived = held.arrived.size();
    Values targets = held.arrived;
    if (leaving.empty()) return {};
    for (const Value& p : piece().parameters()) targets.push_back(p);
    if (targets.empty()) return {};
    Values seeds;
    auto next = leaving.begin();
    for (const auto& u : piece().program.outputs) seeds.push_back(u.tracked ? *next++ : Value());
    const GradientPlaces places{places_of(piece()), has, leaves_products};
    Values found = gradient(held.outputs, targets, std::move(seeds), places.behind(arrived, [&](std::size_t parameter, const Value& left, const Value& right) {
      leave_product(parameter, left.detached(), right.detached(), has);
    }));
    for (std::size_t i = 0; i < has.size(); ++i) has[i] = has[i] || found[arrived + i];
    found.resize(arrived);
    for (std::size_t i = 0; i < arrived; ++i)
      if (!found[i]) found[i] = full(session_, targets[i].spec(), 0);
    return found;
  }

  void forget() override {
    held_.clear();
    StagePiece::forget();
  }

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

/// Two planned programs, and others of the backward pass that add to the gradients of micro-batches before.
class GraphPiece : public StagePiece {
 public:
  GraphPiece(Session& session, Piece piece, const StageOptions& options) : StagePiece(std::move(piece)), session_(session), options_(options) {
    ForwardBackward halves = halves_for(std::vector<bool>(places_of(StagePiece::piece()).size(), false));
    own_ = std::move(halves.forward.own);
    saved_ = halves.saved;
    forward_ = executor_of(session, halves.forward.program, options.passes);
    keep_backward(std::vector<bool>(halves.reached.size(), false), std::move(halves));
  }

  Values forward(int micro_batch, Values inputs) override {
    Values given;
    for (const std::size_t i : own_) given.push_back(inputs[i]);
    Values out = forward_->run(given);
    const auto saved = out.begin() + std::ssize(piece().program.outputs);
    Held held{std::move(inputs), Values(saved, out.end())};
    const std::vector<std::size_t>& own = backward_.begin()->second.own;
    for (std::size_t i = 0; i < held.inputs.size(); ++i)
      if (std::ranges::find(own, i) == own.end()) held.inputs[i] = {};
    held_.emplace(micro_batch, std::move(held));
    out.erase(saved, out.end());
    return out;
  }

  Values backward(int micro_batch, const Values& leaving, std::vector<bool>& has) override {
    const Held held = std::move(held_.extract(micro_batch).mapped());
    if (leaving.empty()) return {};
    const Backward& backward = backward_adding_to(has);
    if (!backward.executor) return {};
    Values given;
    for (const std::size_t i : backward.own) given.push_back(i < held.inputs.size() ? held.inputs[i] : leaving.at(i - held.inputs.size()));
    given.insert(given.end(), held.saved.begin(), held.saved.end());
    for (std::size_t i = 0; i < has.size(); ++i) has[i] = has[i] || backward.reached[i];
    Values out = backward.executor->run(given);
    const auto factors = out.end() - 2 * std::ssize(backward.postponed);
    auto next = factors;
    for (const std::size_t parameter : backward.postponed) {
      Value &left = *next++, &right = *next++;
      leave_product(parameter, std::move(left), std::move(right), has);
    }
    out.erase(factors, out.end());
    return out;
  }

  void forget() override {
    held_.clear();
    StagePiece::forget();
  }

  graph::ArenaUse arena() const override {
    graph::ArenaUse most;
    const auto see = [&](const Executor* e) {
      if (e && e->plan().arena_bytes > most.bytes) most = {e->plan().arena_bytes, e->plan().lower_bound};
    };
    see(forward_.get());
    for (const auto& [has, backward] : backward_) see(backward.executor.get());
    return most;
  }

 private:
  struct Held {
    Values inputs;  // empty values where the backward pass does not read them
    Values saved;
  };
  struct Backward {
    std::vector<std::size_t> own;
    std::vector<bool> reached;
    std::vector<std::size_t> postponed;
    std::unique_ptr<Executor> executor;  // null: nothing wants a gradient
  };

  ForwardBackward halves_for(const std::vector<bool>& has) const {
    return split_backward(session_, piece(), options_.kept, {places_of(piece()), has, leaves_products});
  }

  const Backward& keep_backward(const std::vector<bool>& has, ForwardBackward halves) {
    Backward made{std::move(halves.backward.own), std::move(halves.reached), std::move(halves.postponed), nullptr};
    if (!halves.backward.program.code.empty()) made.executor = executor_of(session_, halves.backward.program, options_.passes);
    return backward_.emplace(has, std::move(made)).first->second;
  }

  /// Of another forward pass captured alike: what it saves is the same.
  const Backward& backward_adding_to(std::vector<bool> has) {
    for (const std::size_t parameter : backward_.begin()->second.postponed) has[parameter] = false;  // it adds nothing to them
    if (const auto known = backward_.find(has); known != backward_.end()) return known->second;
    ForwardBackward halves = halves_for(has);
    if (halves.saved != saved_) throw InternalError("pipeline: two captures of one piece save other values");
    return keep_backward(has, std::move(halves));
  }

  Session& session_;
  StageOptions options_;
  std::vector<std::size_t> own_;  // inputs of the piece that its forward pass reads
  std::vector<Program::Use> saved_;
  std::unique_ptr<Executor> forward_;
  std::map<std::vector<bool>, Backward> backward_;  // [which parameters have a gradient already]
  std::map<int, Held> held_;                        // [micro-batch]
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

void StagePiece::leave_product(std::size_t parameter, Value left, Value right, std::vector<bool>& has) {
  Product& product = products_[parameter];
  product.elements += left.elements() + right.elements();
  const std::int64_t most = most_left(left.shape(), right.shape());
  product.left.push_back(std::move(left));
  product.right.push_back(std::move(right));
  if (product.elements <= most) return;
  add_product(parameter, std::move(product), has);
  products_.erase(parameter);
}

void StagePiece::add_product(std::size_t parameter, Product product, std::vector<bool>& has) {
  const auto rows_of_all = [](Values& parts) { return parts.size() == 1 ? std::move(parts[0]) : concatenate(std::exchange(parts, {}), 0); };
  const Value place = dense_gradient_place(piece_.parameters()[parameter]);
  Value left = rows_of_all(product.left), right = rows_of_all(product.right);
  if (has[parameter])
    add_matmul(place, std::move(left), std::move(right), Transpose::yes);
  else
    matmul(std::move(left), std::move(right), Transpose::yes, Transpose::no, place);
  has[parameter] = true;
}

void StagePiece::finish(std::vector<bool>& has) {
  for (auto& [parameter, product] : products_) add_product(parameter, std::move(product), has);
  products_.clear();
}

std::int64_t left_bytes(const Spec& left, const Spec& right, int micro_batches) {
  if (!leaves_products(left, right)) return 0;
  return static_cast<std::int64_t>(size_of(left.dtype)) *
         std::min(micro_batches * (left.shape.elements() + right.shape.elements()), most_left(left.shape, right.shape));
}

Values StagePiece::backward(int, const Values&, std::vector<bool>&) { throw InternalError("pipeline: a piece of an evaluation has no backward pass"); }

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
