#include "frontends/distributed/pipeline_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <set>

#include "engine/base/error.h"
#include "engine/base/span.h"
#include "engine/ops/ops.h"
#include "engine/slab.h"

namespace gemel::distributed {

using parallel::Action;

namespace {

Values values_of_all(std::span<const NamedValue> named) {
  Values out;
  for (const NamedValue& n : named) out.push_back(n.value);
  return out;
}

std::set<const Storage*> memory_of(const Values& values) {
  std::set<const Storage*> out;
  for (const Value& v : values) out.insert(v.storage().get());
  return out;
}

}  // namespace

/// A step under way.
struct PipelineStage::Step {
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

PipelineStage::PipelineStage(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& micro_batch, PipelinePlan plan)
    : session_(session), communication_(communication), task_(task), names_(task.inputs()), cuts_(std::move(plan.cuts)), schedule_(std::move(plan.schedule)),
      options_(plan.options) {
  if (communication.size() != schedule_.stages)
    throw UsageError(fmt::format("pipeline: {} stages on {} ranks; accepted: a rank for each stage", schedule_.stages, communication.size()));
  const std::size_t count = std::visit([](const auto& c) { return c.size(); }, cuts_) + 1;
  if (count != at(schedule_.pieces()))
    throw UsageError(fmt::format("pipeline: the model is cut into {} pieces; accepted: {}, as the schedule has", count, schedule_.pieces()));
  task_.module().train();
  Specs inputs = micro_batch;
  inputs.push_back(i64({4}));  // the random state of samples that follow each other
  const std::vector<Piece> pieces = pieces_for(inputs);
  refuse_shared(pieces);
  std::set<const Storage*> mine;
  for (std::size_t p = 0; p < pieces.size(); ++p)
    if (schedule_.stage_of(static_cast<int>(p)) == stage()) mine.merge(memory_of(pieces[p].parameters()));
  Values leaves;
  const ParameterSet all = task_.module().parameters();
  for (const NamedValue& n : all.parameters())
    if (mine.erase(n.value.storage().get())) {
      parameters_.push_back(n);
      leaves.push_back(n.value);
    }
  ParameterSlab::pack(leaves);
}

std::vector<Piece> PipelineStage::pieces_for(const Specs& inputs) {
  const Program program = capture(session_, inputs, [this](const Values& in) {
    session_.random().begin(in.back());
    const train::Outcome outcome = task_.forward(train::Inputs(names_, std::span(in).first(names_.size())));
    Values out{outcome.loss};
    for (const Value& v : outcome.outputs) out.push_back(v.detached());
    return out;
  }, Outside::bound_for_replay);
  const auto* modules = std::get_if<std::vector<std::string>>(&cuts_);
  const std::vector<std::size_t> cuts = modules ? cuts_before(program, *modules) : std::get<std::vector<std::size_t>>(cuts_);
  const ParameterSet all = task_.module().parameters();
  return split(program, cuts, values_of_all(all.parameters()));
}

/// Each stage would hold a part of the gradient, or move its own copy of the statistics.
void PipelineStage::refuse_shared(const std::vector<Piece>& pieces) const {
  std::set<const Storage*> changing;
  for (const Piece& piece : pieces) {
    changing.merge(memory_of(piece.parameters()));
    changing.merge(memory_of(piece.state()));
  }
  for (const SharedMemory& shared : shared_memory(pieces)) {
    std::set<int> stages;
    for (const std::size_t p : shared.pieces) stages.insert(schedule_.stage_of(static_cast<int>(p)));
    if (stages.size() < 2 || !changing.contains(shared.value.storage().get())) continue;
    std::string name = to_string(shared.value.spec());
    const ParameterSet all = task_.module().parameters();
    for (const std::span<const NamedValue> named : {all.parameters(), all.buffers()})
      for (const NamedValue& n : named)
        if (n.value.storage() == shared.value.storage()) name = n.name;
    throw UsageError(fmt::format("pipeline: stages {} and {} both use '{}'; accepted: cuts that leave each parameter to one stage", *stages.begin(),
                                 *stages.rbegin(), name));
  }
}

PipelineStage::Pieces& PipelineStage::find(const Specs& inputs) {
  const auto known = std::ranges::find(captured_, inputs, &std::pair<Specs, Pieces>::first);
  if (known != captured_.end()) return known->second;
  std::vector<Piece> pieces = pieces_for(inputs);
  Pieces mine;
  for (int p = stage(); p < schedule_.pieces(); p += schedule_.stages) mine.emplace(p, make_stage_piece(session_, std::move(pieces[at(p)]), options_));
  return captured_.emplace_back(inputs, std::move(mine)).second;
}

/// A parameter was frozen since, or a module changed its mode.
void PipelineStage::forget_what_no_longer_holds() {
  std::erase_if(captured_, [](const auto& entry) {
    return std::ranges::any_of(entry.second, [](const auto& piece) { return !still_holds(piece.second->piece().program); });
  });
}

/// [micro-batch]
std::vector<PipelineStage::Pieces*> PipelineStage::pieces_of(std::span<const datasets::Batch> micro_batches) {
  std::vector<Specs> specs;
  for (const datasets::Batch& batch : micro_batches) {
    Specs& of = specs.emplace_back();
    for (const std::string& name : names_) of.push_back(batch[name].spec);
    of.push_back(i64({4 + std::ssize(batch.positions)}));
    find(of);
  }
  std::vector<Pieces*> out;
  for (const Specs& of : specs) out.push_back(&find(of));  // none moves any more
  return out;
}

PipelineStage::Results PipelineStage::run(std::span<const datasets::Batch> micro_batches, double weight, std::int64_t step) {
  if (micro_batches.size() != at(schedule_.micro_batches))
    throw UsageError(fmt::format("pipeline: {} micro-batches; accepted: {}, as the schedule has", micro_batches.size(), schedule_.micro_batches));
  Step now{.messages = {session_, communication_, schedule_}, .batches = micro_batches, .number = step,
           .pieces = {}, .scale = {}, .passed = {}, .wanted = {}, .reached = {}, .results = {}};
  try {
    task_.module().train();
    forget_what_no_longer_holds();
    now.pieces = pieces_of(micro_batches);
    now.results.micro_batches.resize(micro_batches.size());
    const float scale = weight > 0 ? static_cast<float>(1 / weight) : 0;
    now.scale = session_.tensor(f32({}), std::as_bytes(std::span(&scale, 1)));
    carry_out(now);
    now.messages.finish();
  } catch (const std::exception& e) {
    communication_.abort(fmt::format("stage {} failed: {}", stage(), e.what()));
    for (const auto& [specs, pieces] : captured_)
      for (const auto& [p, piece] : pieces) piece->forget();
    throw;
  }
  for (const NamedValue& n : parameters_) now.results.gradients.push_back(now.reached.contains(n.value.storage().get()) ? dense_gradient_place(n.value) : Value());
  if (stage() != schedule_.stage_of(schedule_.pieces() - 1)) now.results.micro_batches.clear();
  return std::move(now.results);
}

void PipelineStage::carry_out(Step& step) {
  const std::vector<Action>& actions = schedule_.actions[at(stage())];
  std::set<int> tags;
  for (const Action& a : actions)
    if (a.is_receive() && tags.insert(schedule_.tag(a)).second) expect_next(step, 0, schedule_.tag(a));
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& a = actions[i];
    switch (a.kind) {
      case Action::Kind::forward: forward(step, a); break;
      case Action::Kind::backward: backward(step, a); break;
      case Action::Kind::receive_activation:
      case Action::Kind::receive_gradient: {
        expect_next(step, i + 1, schedule_.tag(a));  // the next one comes while this one is computed with
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
  const std::vector<Action>& actions = schedule_.actions[at(stage())];
  const auto next = std::find_if(actions.begin() + static_cast<std::ptrdiff_t>(from), actions.end(),
                                 [&](const Action& a) { return a.is_receive() && schedule_.tag(a) == tag; });
  if (next == actions.end()) return;
  const Piece& piece = step.pieces[at(next->micro_batch)]->at(next->piece)->piece();
  Specs specs;
  if (next->kind == Action::Kind::receive_gradient) specs = tracked_specs(piece.leaves);
  else for (const auto& u : piece.arrives) specs.push_back(u.spec);
  step.messages.expect(*next, specs);
}

/// Of the whole program's inputs, the task's tensors and then the random state, those that a piece reads. Brought to the device when they
/// are wanted, so that no more micro-batches are there than the schedule holds.
Values PipelineStage::own_inputs(const Step& step, const Piece& piece, const datasets::Batch& batch) const {
  Values out;
  for (const std::size_t i : piece.own)
    out.push_back(i == names_.size() ? random_state(session_, step.number, batch.first_position, batch.positions)
                                     : session_.tensor(batch[names_[i]].spec, batch[names_[i]].bytes));
  return out;
}

void PipelineStage::forward(Step& step, const Action& action) {
  const int p = action.piece, k = action.micro_batch;
  StagePiece& piece = *step.pieces[at(k)]->at(p);
  Values inputs = own_inputs(step, piece.piece(), step.batches[at(k)]);
  if (auto arrived = step.passed.extract({p, k}))
    for (Value& v : arrived.mapped()) inputs.push_back(std::move(v));
  Values out = piece.forward(k, std::move(inputs));
  if (p + 1 == schedule_.pieces()) step.results.micro_batches[at(k)] = std::move(out);
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

}  // namespace gemel::distributed
