// What a stage of a pipeline holds: the model is captured with symbolic state and cut, and the state that the stage's pieces use is materialised.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "frontends/distributed/pipeline/model_cut.h"
#include "frontends/distributed/pipeline/stage.h"
#include "frontends/nn/state/symbolic_state.h"

namespace gemel::distributed {
namespace {

/// [cut] the modules that begin behind it.
std::vector<std::set<std::string>> modules_behind(const Program& program, const std::vector<std::size_t>& cuts) {
  std::vector<std::set<std::string>> out;
  for (const std::size_t cut : cuts) {
    std::set<std::string> before;
    for (std::size_t i = 0; i < cut; ++i) before.insert(program.code[i].scope);
    out.emplace_back();
    for (std::size_t i = cut; i < program.code.size(); ++i)
      if (!before.contains(program.code[i].scope)) out.back().insert(program.code[i].scope);
  }
  return out;
}

/// Of another program of the same model: before the first instruction of such a module.
std::vector<std::size_t> cuts_before_any(const Program& program, const std::vector<std::set<std::string>>& modules) {
  std::vector<std::size_t> out;
  for (const std::set<std::string>& behind : modules) {
    const auto first = std::ranges::find_if(program.code, [&](const auto& step) { return behind.contains(step.scope); });
    const auto place = at(first - program.code.begin());
    if (first == program.code.end() || place == 0 || (!out.empty() && place <= out.back()))
      throw UsageError(fmt::format("pipeline: piece {} computes nothing in evaluation; accepted: cuts around modules that do", out.size()));
    out.push_back(place);
  }
  return out;
}

}  // namespace

PipelineStage::PipelineStage(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& micro_batch, PipelinePlan plan)
    : session_(session),
      communication_(communication),
      task_(task),
      names_(task.inputs()),
      cuts_(std::move(plan.cuts)),
      shape_(plan.shape),
      options_(plan.options),
      trains_(plan.trains),
      first_rank_(plan.first_rank),
      pack_(std::move(plan.pack)) {
  shape_.micro_batches = shape_.stages;  // any that every schedule takes: steps bring their own
  parallel::validate(shape_);
  if (stage() < 0 || stage() >= shape_.stages || first_rank_ + shape_.stages > communication.size())
    throw UsageError(fmt::format("pipeline: {} stages on {} ranks; accepted: a rank for each stage", shape_.stages, communication.size()));
  const std::size_t count = std::visit([](const auto& c) { return c.size(); }, cuts_) + 1;
  if (count != at(shape_.pieces()))
    throw UsageError(fmt::format("pipeline: the model is cut into {} pieces; accepted: {}, as the schedule has", count, shape_.pieces()));
  Specs inputs = micro_batch;
  inputs.push_back(i64({4}));  // the random state of samples that follow each other
  if (trains_) {
    task_.module().train();
    const Program program = trace_over_names(session_, task_, inputs);
    const std::vector<std::size_t> cuts = cuts_of(program);
    modules_behind_ = modules_behind(program, cuts);
    hold(split(program, cuts, {}));
    check_held(evaluated_pieces_for(inputs));
    task_.module().train();
    pack_trained();
  } else {
    hold(evaluated_pieces_for(inputs));
  }
}

/// What is frozen has no memory for a gradient.
void PipelineStage::pack_trained() {
  Values trained;
  for (const NamedValue& p : parameters_)
    if (p.value.wants_gradient()) trained.push_back(p.value);
  ParameterSlab::pack(trained, pack_);
}

/// Better told now than after an epoch.
void PipelineStage::check_held(const std::vector<Piece>& evaluated) const {
  const std::size_t first = names_.size() + 1;
  for (std::size_t p = at(stage()); p < evaluated.size(); p += at(shape_.stages))
    for (const std::size_t i : evaluated[p].own)
      if (i >= first && !state_.contains(i))
        throw UsageError(fmt::format("pipeline: stage {} uses '{}' in evaluation alone, and in training others do; accepted: cuts that leave it to one stage",
                                     stage(), nn::StateNames(task_.module()).paths()[i - first]));
}

/// Of a program that was traced in the mode in which it runs first.
std::vector<std::size_t> PipelineStage::cuts_of(const Program& program) const {
  const auto* modules = std::get_if<std::vector<std::string>>(&cuts_);
  return modules ? cuts_before(program, *modules) : std::get<std::vector<std::size_t>>(cuts_);
}

std::vector<Piece> PipelineStage::pieces_for(const Specs& inputs) {
  task_.module().train();
  const Program program = trace_over_names(session_, task_, inputs);
  return split(program, cuts_of(program), {});
}

std::vector<Piece> PipelineStage::evaluated_pieces_for(const Specs& inputs) {
  task_.module().eval();
  const GradientMode no_gradients(session_, GradientMode::Mode::off);
  const Program program = trace_over_names(session_, task_, inputs);
  return split(program, trains_ ? cuts_before_any(program, modules_behind_) : cuts_of(program), {});
}

Piece PipelineStage::bound(Piece piece) const { return with_bound(std::move(piece), state_); }

/// [input that names state] the stages whose pieces use it.
std::vector<std::set<int>> PipelineStage::stages_of_state(const std::vector<Piece>& pieces) const {
  const std::size_t first = names_.size() + 1, all = nn::StateNames(task_.module()).specs().size();
  std::vector<std::set<int>> out(all);
  for (std::size_t p = 0; p < pieces.size(); ++p)
    for (const std::size_t i : pieces[p].own)
      if (i >= first) out[i - first].insert(shape_.stage_of(static_cast<int>(p)));
  for (std::set<int>& stages : out)
    if (stages.empty()) stages.insert(0);
  return out;
}

void PipelineStage::hold(const std::vector<Piece>& pieces) {
  const std::vector<std::set<int>> stages = stages_of_state(pieces);
  std::vector<std::string> paths;
  std::size_t parameters = 0;
  {
    const nn::StateNames state(task_.module());
    paths = state.paths();
    parameters = state.parameters();
  }
  for (std::size_t i = parameters; i < paths.size(); ++i)
    if (stages[i].size() > 1 && std::ranges::any_of(pieces, [&](const Piece& p) { return p.changes(names_.size() + 1 + i); }))
      throw UsageError(fmt::format("pipeline: stages {} and {} both move '{}'; accepted: cuts that leave it to one stage", *stages[i].begin(),
                                   *stages[i].rbegin(), paths[i]));
  std::set<std::string> mine;
  for (std::size_t i = 0; i < paths.size(); ++i)
    if (stages[i].contains(stage())) mine.insert(paths[i]);
  task_.module().materialise(session_, [&](const std::string& path) { return mine.contains(path); });
  const ParameterSet held = task_.module().materialised();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!mine.contains(paths[i])) continue;
    const Value& value = *held.find(paths[i]);
    state_.emplace(names_.size() + 1 + i, value);
    if (i >= parameters) continue;
    parameters_.push_back({paths[i], value});
    if (stages[i].size() > 1) tied_.push_back({value, {stages[i].begin(), stages[i].end()}});
  }
}

}  // namespace gemel::distributed
