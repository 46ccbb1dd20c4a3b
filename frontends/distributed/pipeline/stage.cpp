#include "frontends/distributed/pipeline/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"
#include "engine/ops/ops.h"
#include "engine/parameters/parameter_slab.h"
#include "frontends/distributed/exposed_communication.h"
#include "frontends/nn/evaluation_mode.h"
#include "parallel/collectives/host_reduce.h"

namespace gemel::distributed {

using parallel::Action;

/// A step under way, or an evaluation.
struct PipelineStage::Step {
  Step(PipelineStage& stage, parallel::Schedule made, std::span<const datasets::Batch> micro_batches, std::int64_t step)
      : schedule(std::move(made)), messages(stage.session_, stage.communication_, schedule, stage.first_rank_), batches(micro_batches), number(step) {}

  const parallel::Schedule schedule;
  StageMessages messages;
  std::span<const datasets::Batch> batches;  // [micro-batch]
  std::int64_t number;
  std::vector<Pieces*> pieces;                   // [micro-batch]
  Value scale;                                   // 1 / the weight: the gradient of each loss
  std::map<std::pair<int, int>, Values> passed;  // [piece that needs it, micro-batch] from a piece of this stage or from a message
  std::map<std::pair<int, int>, Values> wanted;  // the same of gradients
  std::set<const Storage*> reached;              // parameters that have a gradient in their place
  double exposed_s = 0;                          // beside the messages'
  std::vector<Values> results;                   // [micro-batch] of the last piece
};

bool PipelineStage::has_before(const Value& parameter) const {
  return std::ranges::any_of(tied_, [&](const Tied& t) { return t.value.storage() == parameter.storage() && t.stages.front() < stage(); });
}

graph::ArenaUse PipelineStage::arena() const {
  graph::ArenaUse most;
  for (const Captured* all : {&trained_, &evaluated_})
    for (const auto& [specs, pieces] : *all)
      for (const auto& [p, piece] : pieces)
        if (const graph::ArenaUse use = piece->arena(); use.bytes > most.bytes) most = use;
  return most;
}

Specs PipelineStage::specs_of_batch(const datasets::Batch& batch) const {
  Specs out;
  for (const std::string& name : names_) out.push_back(batch[name].spec);
  out.push_back(i64({4 + std::ssize(batch.positions)}));  // the random state
  return out;
}

/// In the module's mode.
PipelineStage::Pieces& PipelineStage::find(const Specs& inputs) {
  Captured& all = captured();
  const auto known = std::ranges::find(all, inputs, &Captured::value_type::first);
  if (known != all.end()) return known->second;
  const bool trains = task_.module().training();
  std::vector<Piece> pieces = trains ? pieces_for(inputs) : evaluated_pieces_for(inputs);
  if (trains) pack_trained();  // one may have been frozen before
  Pieces mine;
  for (int p = stage(); p < shape_.pieces(); p += shape_.stages) {
    Piece own = bound(std::move(pieces[at(p)]));
    mine.emplace(p, trains ? make_stage_piece(session_, std::move(own), options_) : make_evaluated_piece(session_, std::move(own), options_));
  }
  return all.emplace_back(inputs, std::move(mine)).second;
}

void PipelineStage::begin(Step& step) {
  std::erase_if(captured(), [](const auto& entry) {  // a parameter was frozen since, or a module changed its mode
    return std::ranges::any_of(entry.second, [](const auto& piece) { return !still_holds(piece.second->piece().program); });
  });
  for (const datasets::Batch& batch : step.batches) step.pieces.push_back(&find(specs_of_batch(batch)));
  step.results.resize(step.batches.size());
}

template <class Work>
void PipelineStage::or_end_all(const Work& work) {
  try {
    work();
  } catch (const std::exception& e) {
    communication_.abort(fmt::format("stage {} failed: {}", stage(), worded(e)));
    throw;
  }
}

PipelineStage::Results PipelineStage::run(std::span<const datasets::Batch> micro_batches, double weight, std::int64_t number) {
  if (!trains_) throw UsageError("pipeline: a stage that is for evaluation was asked to train; accepted: one that was made to train");
  parallel::PipelineShape shape = shape_;
  shape.micro_batches = static_cast<int>(micro_batches.size());
  std::optional<parallel::Schedule> made;
  or_end_all([&] { made = parallel::make_schedule(shape); });
  Step step(*this, std::move(*made), micro_batches, number);
  try {
    or_end_all([&] {
      task_.module().train();
      begin(step);
      const float scale = weight > 0 ? static_cast<float>(1 / weight) : 0;
      step.scale = session_.tensor(f32({}), std::as_bytes(std::span(&scale, 1)));
      carry_out(step);
      finish(step);
      add_tied(step);
    });
  } catch (...) {
    for (const auto& [specs, pieces] : trained_)
      for (const auto& [p, piece] : pieces) piece->forget();
    throw;
  }
  Results out;
  if (is_last()) out.micro_batches = std::move(step.results);
  for (const NamedValue& n : parameters_) out.gradients.push_back(step.reached.contains(n.value.storage().get()) ? dense_gradient_place(n.value) : Value());
  out.exposed_s = step.exposed_s + step.messages.exposed_s();
  return out;
}

std::vector<Values> PipelineStage::evaluate(std::span<const datasets::Batch> micro_batches) {
  const nn::Evaluating evaluating(task_.module());
  parallel::PipelineShape shape = shape_;
  shape.micro_batches = static_cast<int>(micro_batches.size());
  Step step(*this, parallel::make_forward_schedule(shape), micro_batches, 0);
  or_end_all([&] {
    begin(step);
    carry_out(step);
  });
  return is_last() ? std::move(step.results) : std::vector<Values>();
}

void PipelineStage::carry_out(Step& step) {
  const std::vector<Action>& actions = step.schedule.actions[at(stage())];
  std::set<int> tags;
  for (const Action& a : actions)
    if (a.is_receive() && tags.insert(step.schedule.tag(a)).second) expect_next(step, 0, step.schedule.tag(a));
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& a = actions[i];
    switch (a.kind) {
      case Action::Kind::forward:
        forward(step, a);
        break;
      case Action::Kind::backward:
        backward(step, a);
        break;
      case Action::Kind::receive_activation:
      case Action::Kind::receive_gradient: {
        expect_next(step, i + 1, step.schedule.tag(a));  // the next one comes while this one is computed with
        auto& arrived = a.kind == Action::Kind::receive_activation ? step.passed : step.wanted;
        arrived[{a.piece, a.micro_batch}] = step.messages.take(a);
        break;
      }
      case Action::Kind::send_activation:
        step.messages.send(a, std::move(step.passed.extract({a.piece + 1, a.micro_batch}).mapped()));
        break;
      case Action::Kind::send_gradient:
        step.messages.send(a, std::move(step.wanted.extract({a.piece - 1, a.micro_batch}).mapped()));
        break;
      case Action::Kind::update:
        break;  // the caller's, of the gradients that are returned
    }
  }
  step.messages.finish();
  if (options_.keeps_spans) spans_.insert(spans_.end(), step.messages.spans().begin(), step.messages.spans().end());
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
  if (p + 1 == shape_.pieces())
    step.results[at(k)] = std::move(out);
  else
    step.passed[{p + 1, k}] = std::move(out);
}

void PipelineStage::backward(Step& step, const Action& action) {
  const int p = action.piece, k = action.micro_batch;
  StagePiece& piece = *step.pieces[at(k)]->at(p);
  Values leaving;
  if (auto wanted = step.wanted.extract({p, k}))
    leaving = std::move(wanted.mapped());
  else if (piece.piece().program.outputs[0].tracked)
    leaving = {step.scale};
  Values arrived;
  with_reached(step, piece, [&](std::vector<bool>& has) { arrived = piece.backward(k, leaving, has); });
  if (p > 0) step.wanted[{p - 1, k}] = std::move(arrived);
}

/// @param work  is given which parameters of the piece have a gradient in their place, and says of more
template <class Work>
void PipelineStage::with_reached(Step& step, const StagePiece& piece, const Work& work) {
  const Values parameters = piece.piece().parameters();
  std::vector<bool> has;
  for (const Value& v : parameters) has.push_back(step.reached.contains(v.storage().get()));
  work(has);
  for (std::size_t i = 0; i < has.size(); ++i)
    if (has[i]) step.reached.insert(parameters[i].storage().get());
}

/// What micro-batches of each shape left to the end of the step.
void PipelineStage::finish(Step& step) {
  std::set<const Pieces*> done;
  for (const Pieces* pieces : step.pieces)
    if (done.insert(pieces).second)
      for (const auto& [p, piece] : *pieces) with_reached(step, *piece, [&](std::vector<bool>& has) { piece->finish(has); });
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
    const auto exchange = [&](parallel::Collectives& c) {
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
    };
    step.exposed_s += exposed_seconds(session_, [&] { communication_.run(exchange); });
    write(place, sum);
  }
}

}  // namespace gemel::distributed
