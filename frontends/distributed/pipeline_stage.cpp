#include "frontends/distributed/pipeline_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>

#include "engine/base/error.h"
#include "engine/base/span.h"
#include "engine/device_access.h"
#include "engine/ops/ops.h"
#include "engine/slab.h"
#include "frontends/nn/evaluating.h"
#include "parallel/collectives/reduce.h"

namespace gemel::distributed {

using parallel::Action;

/// A step under way.
struct PipelineStage::Step {
  const parallel::Schedule& schedule;
  StageMessages messages;
  std::span<const datasets::Batch> batches;      // [micro-batch]
  std::int64_t number;
  std::vector<Pieces*> pieces;                   // [micro-batch]
  Value scale;                                   // 1 / the weight: the gradient of each loss
  std::map<std::pair<int, int>, Values> passed;  // [piece that needs it, micro-batch] from a piece of this stage or from a message
  std::map<std::pair<int, int>, Values> wanted;  // the same of gradients
  std::set<const Storage*> reached;              // parameters that have a gradient in their place
  Results results;
};

bool PipelineStage::has_before(const Value& parameter) const {
  return std::ranges::any_of(tied_, [&](const Tied& t) { return t.value.storage() == parameter.storage() && t.stages.front() < stage(); });
}

graph::ArenaUse PipelineStage::arena() const {
  graph::ArenaUse most;
  for (const auto& [specs, pieces] : captured_)
    for (const auto& [p, piece] : pieces)
      if (const graph::ArenaUse use = piece->arena(); use.bytes > most.bytes) most = use;
  return most;
}

Specs PipelineStage::specs_of_batch(const datasets::Batch& batch, std::int64_t random_numbers) const {
  Specs out;
  for (const std::string& name : names_) out.push_back(batch[name].spec);
  out.push_back(i64({random_numbers}));
  return out;
}

PipelineStage::Pieces& PipelineStage::find(const Specs& inputs) {
  const auto known = std::ranges::find(captured_, inputs, &std::pair<Specs, Pieces>::first);
  if (known != captured_.end()) return known->second;
  std::vector<Piece> pieces = pieces_for(inputs);
  Pieces mine;
  for (int p = stage(); p < shape_.pieces(); p += shape_.stages) mine.emplace(p, make_stage_piece(session_, bound(std::move(pieces[at(p)])), options_));
  return captured_.emplace_back(inputs, std::move(mine)).second;
}

PipelineStage::Forwards& PipelineStage::find_evaluated(const Specs& inputs) {
  const auto known = std::ranges::find(evaluated_, inputs, &std::pair<Specs, Forwards>::first);
  if (known != evaluated_.end()) return known->second;
  std::vector<Piece> pieces = evaluated_pieces_for(inputs);
  Forwards mine;
  for (int p = stage(); p < shape_.pieces(); p += shape_.stages) mine.emplace(p, make_forward_piece(session_, bound(std::move(pieces[at(p)])), options_));
  return evaluated_.emplace_back(inputs, std::move(mine)).second;
}

/// A parameter was frozen since, or a module changed its mode.
void PipelineStage::forget_what_no_longer_holds() {
  const auto holds_no_longer = [](const auto& entry) {
    return std::ranges::any_of(entry.second, [](const auto& piece) { return !still_holds(piece.second->piece().program); });
  };
  if (task_.module().training()) std::erase_if(captured_, holds_no_longer);
  else std::erase_if(evaluated_, holds_no_longer);
}

/// [micro-batch]
std::vector<PipelineStage::Pieces*> PipelineStage::pieces_of(std::span<const datasets::Batch> micro_batches) {
  std::vector<Specs> specs;
  for (const datasets::Batch& batch : micro_batches) find(specs.emplace_back(specs_of_batch(batch, 4 + std::ssize(batch.positions))));
  std::vector<Pieces*> out;
  for (const Specs& of : specs) out.push_back(&find(of));  // none moves any more
  return out;
}

template <class Work>
void PipelineStage::or_end_all(const Work& work) {
  try {
    work();
  } catch (const std::exception& e) {
    communication_.abort(fmt::format("stage {} failed: {}", stage(), e.what()));
    throw;
  }
}

PipelineStage::Results PipelineStage::run(std::span<const datasets::Batch> micro_batches, double weight, std::int64_t step) {
  parallel::PipelineShape shape = shape_;
  shape.micro_batches = static_cast<int>(micro_batches.size());
  std::optional<parallel::Schedule> made;
  or_end_all([&] { made = parallel::make_schedule(shape); });
  const parallel::Schedule& schedule = *made;
  Step now{.schedule = schedule, .messages = {session_, communication_, schedule, first_rank_}, .batches = micro_batches, .number = step,
           .pieces = {}, .scale = {}, .passed = {}, .wanted = {}, .reached = {}, .results = {}};
  try {
    or_end_all([&] {
      task_.module().train();
      forget_what_no_longer_holds();
      now.pieces = pieces_of(micro_batches);
      now.results.micro_batches.resize(micro_batches.size());
      const float scale = weight > 0 ? static_cast<float>(1 / weight) : 0;
      now.scale = session_.tensor(f32({}), std::as_bytes(std::span(&scale, 1)));
      carry_out(now);
      now.messages.finish();
      add_tied(now);
    });
  } catch (...) {
    for (const auto& [specs, pieces] : captured_)
      for (const auto& [p, piece] : pieces) piece->forget();
    throw;
  }
  for (const NamedValue& n : parameters_) now.results.gradients.push_back(now.reached.contains(n.value.storage().get()) ? dense_gradient_place(n.value) : Value());
  if (!is_last()) now.results.micro_batches.clear();
  now.results.waited_s = now.messages.waited_s();
  return std::move(now.results);
}

void PipelineStage::carry_out(Step& step) {
  const std::vector<Action>& actions = step.schedule.actions[at(stage())];
  std::set<int> tags;
  for (const Action& a : actions)
    if (a.is_receive() && tags.insert(step.schedule.tag(a)).second) expect_next(step, 0, step.schedule.tag(a));
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& a = actions[i];
    switch (a.kind) {
      case Action::Kind::forward: forward(step, a); break;
      case Action::Kind::backward: backward(step, a); break;
      case Action::Kind::receive_activation:
      case Action::Kind::receive_gradient: {
        expect_next(step, i + 1, step.schedule.tag(a));  // the next one comes while this one is computed with
        auto& arrived = a.kind == Action::Kind::receive_activation ? step.passed : step.wanted;
        arrived[{a.piece, a.micro_batch}] = step.messages.take(a);
        break;
      }
      case Action::Kind::send_activation: step.messages.send(a, std::move(step.passed.extract({a.piece + 1, a.micro_batch}).mapped())); break;
      case Action::Kind::send_gradient: step.messages.send(a, std::move(step.wanted.extract({a.piece - 1, a.micro_batch}).mapped())); break;
      case Action::Kind::update: break;  // the caller's, of the gradients that are returned
    }
  }
}

/// One message of each tag is expected ahead: memory for two, whatever the number of micro-batches.
void PipelineStage::expect_next(Step& step, std::size_t from, int tag) {
  const std::vector<Action>& actions = step.schedule.actions[at(stage())];
  const auto next = std::find_if(actions.begin() + static_cast<std::ptrdiff_t>(from), actions.end(),
                                 [&](const Action& a) { return a.is_receive() && step.schedule.tag(a) == tag; });
  if (next == actions.end()) return;
  const Piece& piece = step.pieces[at(next->micro_batch)]->at(next->piece)->piece();
  step.messages.expect(*next, next->kind == Action::Kind::receive_gradient ? tracked_specs(piece.leaves) : specs_of(piece.arrives));
}

/// Of the whole program's inputs, the task's tensors and then the random state, those that a piece reads. Brought to the device when they
/// are wanted, so that no more micro-batches are there than the schedule holds.
Values PipelineStage::own_inputs(const Piece& piece, const datasets::Batch& batch, std::int64_t step) const {
  Values out;
  for (const std::size_t i : piece.own)
    out.push_back(i == names_.size() ? random_state(session_, step, batch.first_position, batch.positions)
                                     : session_.tensor(batch[names_[i]].spec, batch[names_[i]].bytes));
  return out;
}

void PipelineStage::forward(Step& step, const Action& action) {
  const int p = action.piece, k = action.micro_batch;
  StagePiece& piece = *step.pieces[at(k)]->at(p);
  Values inputs = own_inputs(piece.piece(), step.batches[at(k)], step.number);
  if (auto arrived = step.passed.extract({p, k}))
    for (Value& v : arrived.mapped()) inputs.push_back(std::move(v));
  Values out = piece.forward(k, std::move(inputs));
  if (p + 1 == shape_.pieces()) step.results.micro_batches[at(k)] = std::move(out);
  else step.passed[{p + 1, k}] = std::move(out);
}

void PipelineStage::backward(Step& step, const Action& action) {
  const int p = action.piece, k = action.micro_batch;
  StagePiece& piece = *step.pieces[at(k)]->at(p);
  Values leaving;
  if (auto wanted = step.wanted.extract({p, k})) leaving = std::move(wanted.mapped());
  else if (piece.piece().program.outputs[0].tracked) leaving = {step.scale};
  StagePiece::Gradients found = piece.backward(k, leaving);
  leaving.clear();
  if (p > 0) step.wanted[{p - 1, k}] = std::move(found.arrived);
  add_up(step, piece.piece().parameters(), std::move(found.parameters));
}

void PipelineStage::add_up(Step& step, const Values& parameters, Values gradients) const {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!gradients[i]) continue;
    const Value place = dense_gradient_place(parameters[i]);
    if (step.reached.insert(parameters[i].storage().get()).second) apply(copy_def(), list(std::move(gradients[i])), {}, std::span(&place, 1));
    else apply(add_def(), list(place, std::move(gradients[i])), {}, std::span(&place, 1));
  }
}

/// Each stage that has a tied weight sends its gradient to the first of them, which adds them up, the last stage's first, and sends the sum back.
void PipelineStage::add_tied(Step& step) {
  for (const Tied& tied : tied_) {
    if (!tied.value.wants_gradient()) continue;
    const Value place = dense_gradient_place(tied.value);
    if (step.reached.insert(tied.value.storage().get()).second)
      apply(session_, full_def(), {}, {{"shape", place.shape()}, {"dtype", DType::float32}, {"value", 0.0}}, std::span(&place, 1));
    std::vector<std::byte> sum = read_bytes(place);
    const auto rank = [this](int of_stage) { return first_rank_ + of_stage; };
    communication_.run([&](parallel::Collectives& c) {
      parallel::Communicator& to = c.communicator();
      if (stage() != tied.stages.front()) {
        to.send(rank(tied.stages.front()), sum).wait();
        to.receive(rank(tied.stages.front()), sum).wait();
        return;
      }
      std::vector<std::byte> mine = std::move(sum), theirs(mine.size());
      sum.assign(mine.size(), std::byte{});
      const parallel::Elements all{sum.data(), place.elements(), DType::float32};
      for (std::size_t k = tied.stages.size(); k-- > 1;) {
        to.receive(rank(tied.stages[k]), theirs).wait();
        parallel::reduce_into(all, theirs.data(), parallel::Reduction::sum);
      }
      parallel::reduce_into(all, mine.data(), parallel::Reduction::sum);
      for (std::size_t k = 1; k < tied.stages.size(); ++k) to.send(rank(tied.stages[k]), sum).wait();
    });
    write(place, sum);
  }
}

Values PipelineStage::evaluate(const datasets::Batch& batch) {
  const nn::Evaluating evaluating(task_.module());
  const parallel::Schedule schedule = parallel::make_forward_schedule(shape_.stages, shape_.virtual_stages);
  StageMessages messages(session_, communication_, schedule, first_rank_);
  Values passed;
  or_end_all([&] {
    forget_what_no_longer_holds();
    Forwards& pieces = find_evaluated(specs_of_batch(batch, 4));
    for (const Action& a : schedule.actions[at(stage())]) {
      ForwardPiece& piece = *pieces.at(a.piece);
      if (a.kind == Action::Kind::receive_activation) {
        messages.expect(a, specs_of(piece.piece().arrives));
        passed = messages.take(a);
      } else if (a.kind == Action::Kind::send_activation) {
        messages.send(a, std::move(passed));
        passed.clear();
      } else {
        Values inputs = own_inputs(piece.piece(), batch, 0);
        for (Value& v : passed) inputs.push_back(std::move(v));
        passed = piece.forward(std::move(inputs));
      }
    }
    messages.finish();
  });
  return is_last() ? passed : Values();
}

}  // namespace gemel::distributed
