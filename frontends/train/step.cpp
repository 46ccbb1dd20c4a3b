#include "frontends/train/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "datasets/loading/shard.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/gradients/autograd.h"
#include "engine/gradients/row_gradient.h"
#include "engine/graph/capture/program.h"
#include "engine/ops/ops.h"
#include "engine/parameters/parameter_slab.h"
#include "frontends/nn/evaluation_mode.h"

namespace gemel::train {

const char* to_string(Frontend frontend) { return frontend == Frontend::eager ? "eager" : "graph"; }

void Pending::add(const datasets::Batch& part, const Values& results) { parts_.push_back({part, read_later(results)}); }

Sums Pending::get() {
  if (elsewhere_) return elsewhere_();
  Sums sums;
  try {
    for (Part& part : parts_) {
      const std::vector<std::vector<double>> results = part.results();
      sums += {part.batch.samples, results[0][0], task_->weight(part.batch), task_->count(part.batch, std::span(results).subspan(1))};
    }
  } catch (const DataError& e) {
    throw DataError(fmt::format("{}: {}", what_, e.what()));
  }
  return sums;
}

Values Differentiated::results() const {
  Values out{outcome.loss.detached()};
  for (const Value& v : outcome.outputs) out.push_back(v.detached());
  return out;
}

Differentiated differentiate(Session& session, Task& task, std::span<const Value> in, const Values& parameters, const GradientOptions& options) {
  const std::vector<std::string> names = task.inputs();
  const std::size_t n = names.size();
  session.random().begin(in[n]);
  Differentiated out{task.forward(Inputs(names, in.first(n))), {}};
  out.gradients = gradient({out.outcome.loss}, parameters, {in[n + 1]}, options);
  return out;
}

BackwardOutline backward_outline(Session& session, Task& task, const Specs& inputs) {
  const std::vector<std::string> names = task.inputs();
  const Values parameters = values_of(task.module().parameters().trainable());
  Specs specs = inputs;
  specs.push_back(i64({4}));
  BackwardOutline out;
  task.module().train();
  try {
    capture(session, specs, [&](const Values& in) -> Values {
      session.random().begin(in.back());
      const Outcome outcome = task.forward(Inputs(names, std::span(in).first(names.size())));
      out = {gradient_order({outcome.loss}, parameters), looked_up_rows({outcome.loss}, parameters)};
      return {outcome.loss.detached()};
    });
  } catch (const UsageError&) {  // it reads a value on its way
    for (std::size_t i = parameters.size(); i-- > 0;) out.order.push_back(i);
    out.looked_up.assign(parameters.size(), 0);
  }
  return out;
}

void pack_parameters(nn::Module& module, std::span<const std::size_t> order, const PackOptions& options) {
  const Values parameters = values_of(module.parameters().trainable());
  Values ordered;
  for (const std::size_t i : order) ordered.push_back(parameters[i]);
  ParameterSlab::pack(ordered, options);
}

void pack_parameters(Session& session, Task& task, const Specs& inputs) { pack_parameters(task.module(), backward_outline(session, task, inputs).order); }

graph::Compiled Step::compiled(Function function) {
  return {session_, [this, function](const Values& in) { return (this->*function)(in); }, options_.passes};
}

Step::Step(Session& session, Task& task, optim::Optimizer* optimizer, StepOptions options)
    : session_(session),
      task_(task),
      optimizer_(optimizer),
      options_(std::move(options)),
      names_(task.inputs()),
      whole_(compiled(&Step::whole_step)),
      first_(compiled(&Step::first_part)),
      further_(compiled(&Step::further_part)),
      update_(compiled(&Step::update)),
      evaluation_(compiled(&Step::evaluation)) {
  if (options_.accumulate < 1) throw UsageError(fmt::format("step: {} micro-batches; accepted: one or more", options_.accumulate));
}

void Step::before_update(Hook hook) {
  if (has_trained_) throw UsageError("step: a hook is given after a training step; accepted: before the first one");
  hooks_.push_back(std::move(hook));
}

void Step::clip_norm(double most) {
  before_update([this, most](Values& gradients) { optimizer_->clip_norm(gradients, most); });
}

Values Step::run(graph::Compiled& compiled, Function function, const Values& in) {
  return options_.frontend == Frontend::graph ? compiled(in) : (this->*function)(in);
}

// Inputs of what follows: the task's tensors; random state; 1 / the weight of the whole step; the optimizer's numbers.

Differentiated Step::differentiated(const Values& in, GradientOptions options) {
  optimizer_->assume_as_frozen(session_);
  if (options_.ranks) options.rows = options_.ranks->by_rows();
  return differentiate(session_, task_, in, values_of(optimizer_->parameters()), options);
}

/// As the micro-batches give them that are computed, or were captured, with the parameters that are frozen now.
std::vector<bool>& Step::reached() { return reached_[optimizer_->hyperparameters()->frozen()]; }

/// The parameters whose gradients may be rows.
std::vector<std::size_t> Step::by_rows() const {
  const std::vector<bool> of_ranks = options_.ranks ? options_.ranks->by_rows() : std::vector<bool>();
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < optimizer_->parameters().size(); ++i)
    if (optimizer_->parameters()[i].value.node()->gradient_form == GradientForm::rows || (!of_ranks.empty() && of_ranks[i])) out.push_back(i);
  return out;
}

void Step::apply(Values gradients, const Value& hyper) {
  if (options_.ranks) options_.ranks->join_gradients(gradients);
  if (options_.ranks && !options_.ranks->updates()) return;
  for (const Hook& hook : hooks_) hook(gradients);
  optimizer_->apply_updates(std::move(gradients), {hyper});
}

Values Step::whole_step(const Values& in) {
  GradientOptions options{.into = optimizer_->gradient_places()};
  if (options_.ranks) {
    options_.ranks->take_parameters();
    options.ready = options_.ranks->gradient_ready();
  }
  Differentiated all = differentiated(in, options);
  Values results = all.results();
  apply(std::move(all.gradients), in[names_.size() + 2]);
  return results;
}

Values Step::first_part(const Values& in) {
  if (options_.ranks) options_.ranks->take_parameters();
  reached().assign(optimizer_->parameters().size(), false);
  return gathered(differentiated(in, {.into = optimizer_->gradient_places()}));
}

Values Step::further_part(const Values& in) {
  Values places = optimizer_->gradient_places();
  const std::vector<bool>& reached = this->reached();
  std::vector<bool> adds;
  for (std::size_t i = 0; i < places.size(); ++i) adds.push_back(reached[i] && places[i]);
  return gathered(differentiated(in, {.into = std::move(places), .adds = std::move(adds)}));
}

/// Adds a micro-batch's dense gradients to those before it, in their places. @return its results, then indices and values of each gradient
/// that may be rows: none where it is not
Values Step::gathered(Differentiated part) {
  std::vector<bool>& reached = this->reached();
  for (std::size_t i = 0; i < part.gradients.size(); ++i) {
    Value& g = part.gradients[i];
    if (!g || row_values(g)) continue;
    const Value place = dense_gradient_place(optimizer_->parameters()[i].value);
    if (g.storage() != place.storage()) {
      if (reached[i])
        gemel::apply(add_def(), list(place, std::move(g)), {}, std::span(&place, 1));
      else
        gemel::apply(copy_def(), list(std::move(g)), {}, std::span(&place, 1));
    }
    reached[i] = true;
  }
  Values out = part.results();
  for (const std::size_t i : by_rows()) {
    const RowValues* rows = row_values(part.gradients[i]);
    const std::int64_t width = optimizer_->parameters()[i].value.shape()[1];
    out.push_back(rows ? rows->indices : full(session_, i64({0}), 0));
    out.push_back(rows ? rows->values : full(session_, f32({0, width}), 0));
  }
  return out;
}

/// @param in  the optimizer's numbers, then the rows of each micro-batch
Values Step::update(const Values& in) {
  const std::vector<bool>& reached = this->reached();
  const std::vector<std::size_t> by_rows = this->by_rows();
  Values gradients(optimizer_->parameters().size());
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (reached[i]) gradients[i] = dense_gradient_place(optimizer_->parameters()[i].value);
  for (std::size_t next = 1, k = 0; next < in.size(); next += 2, ++k) {
    const std::size_t i = by_rows[k % by_rows.size()];
    if (in[next].elements() > 0) accumulate(gradients[i], table_of({in[next], in[next + 1]}, optimizer_->parameters()[i].value.spec()));
  }
  apply(std::move(gradients), in[0]);
  return {};
}

Values Step::evaluation(const Values& in) {
  const GradientMode no_gradients(session_, GradientMode::Mode::off);
  return Differentiated{task_.forward(Inputs(names_, in)), {}}.results();
}

DeviceBatch Step::to_device(const datasets::Batch& batch) {
  DeviceBatch out{{}, batch};
  for (const std::string& name : names_) out.tensors.push_back(session_.tensor(batch[name].spec, batch[name].bytes));
  return out;
}

Values Step::inputs_of(const DeviceBatch& batch, double weight, std::int64_t step) {
  Values in = batch.tensors;
  in.push_back(random_state(session_, step, batch.host.first_position, batch.host.positions));
  const float scale[1] = {weight > 0 ? static_cast<float>(1 / weight) : 0};
  in.push_back(session_.tensor(f32({}), std::as_bytes(std::span(scale))));
  return in;
}

/// Of a step of which this rank has no samples: the gradients that the others have are its own, too.
void Step::update_from_others(double rate) {
  options_.ranks->take_parameters();
  apply(Values(optimizer_->parameters().size()), optimizer_->hyper(rate)[0]);
  optimizer_->advance();
}

Pending Step::train(const DeviceBatch& batch, double rate, std::int64_t step, std::optional<double> weight) {
  if (options_.accumulate != 1) throw UsageError("step: a batch on the device is not cut into micro-batches; accepted: a batch on the host");
  task_.module().train();
  has_trained_ = true;
  Pending pending(task_, fmt::format("step {}", step));
  if (batch.host.samples == 0 && options_.ranks) {
    update_from_others(rate);
    return pending;
  }
  Values in = inputs_of(batch, weight.value_or(task_.weight(batch.host)), step);
  in.push_back(optimizer_->hyper(rate)[0]);
  pending.add(batch.host, run(whole_, &Step::whole_step, in));
  optimizer_->advance();
  return pending;
}

Pending Step::train(const datasets::Batch& batch, double rate, std::int64_t step, std::optional<double> weight) {
  if (options_.accumulate == 1) return train(to_device(batch), rate, step, weight);
  std::vector<std::int64_t> counts = batch.micro_batches;
  if (counts.empty())
    for (const datasets::SampleRun& run : datasets::shard_of(batch.samples, options_.accumulate, 0, 1)) counts.push_back(run.count);
  if (options_.ranks) std::erase(counts, 0);  // the shard of a small micro-batch
  task_.module().train();
  has_trained_ = true;
  Pending pending(task_, fmt::format("step {}", step));
  if (counts.empty()) {
    update_from_others(rate);
    return pending;
  }
  Values last = optimizer_->hyper(rate);  // what the update reads
  for (std::int64_t begin = 0; const std::int64_t count : counts) {
    const DeviceBatch part = to_device(batch.part(begin, count));
    const Values in = inputs_of(part, weight.value_or(task_.weight(batch)), step);
    Values results = pending.empty() ? run(first_, &Step::first_part, in) : run(further_, &Step::further_part, in);
    const auto rows = results.end() - std::ssize(by_rows()) * 2;
    last.insert(last.end(), rows, results.end());
    results.erase(rows, results.end());
    pending.add(part.host, results);
    begin += count;
  }
  run(update_, &Step::update, last);
  optimizer_->advance();
  return pending;
}

Pending Step::evaluate(const DeviceBatch& batch) {
  const nn::Evaluating evaluating(task_.module());
  Pending pending(task_, fmt::format("batch {}", batch.host.index + 1));
  if (batch.host.samples > 0 || !options_.ranks) pending.add(batch.host, run(evaluation_, &Step::evaluation, batch.tensors));
  return pending;
}

graph::ArenaUse Step::arena() const {
  graph::ArenaUse most;
  for (const graph::Compiled* c : {&whole_, &first_, &further_, &update_, &evaluation_})
    if (const graph::ArenaUse use = c->arena(); use.bytes > most.bytes) most = use;
  return most;
}

}  // namespace gemel::train
