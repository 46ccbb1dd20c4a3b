// Backward passes of a user's own loop in the eager front end.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/gradients/row_gradient.h"
#include "engine/ops/ops.h"
#include "engine/parameters/parameter_slab.h"
#include "frontends/distributed/data_parallel.h"
#include "frontends/eager/grad.h"

namespace gemel::distributed {

namespace {

/// What is dense in its place, where it stays.
Value scaled(Value gradient, double scale, const Value& place) {
  const Spec factor = f32({});
  if (const RowValues* rows = row_values(gradient)) return table_of({rows->indices, rows->values * full(place.session(), factor, scale)}, gradient.spec());
  Value sum = to_dense(std::move(gradient), place);
  assign(sum, sum * full(place.session(), factor, scale));
  return sum;
}

}  // namespace

bool DataParallel::holds_gradients() const {
  return std::ranges::any_of(optimizer_->parameters(), [](const NamedValue& p) { return bool(p.value.node()->accumulated); });
}

void DataParallel::backward(const eager::Tensor& loss) {
  if (unsummed_weight_ && holds_gradients())
    throw UsageError("backward: the loss has no weight, and that of a pass under NoSync had one; accepted: a weight in every pass of a step, or in none");
  unsummed_weight_.reset();
  if (syncs_) begin_step();
  reduce_backward(loss, 1.0 / size(), size());
}

void DataParallel::backward(const eager::Tensor& loss_sum, double weight) {
  if (!(weight >= 0)) throw UsageError(fmt::format("backward: the weight is {}; accepted: 0 or more", weight));
  if (!holds_gradients()) unsummed_weight_ = 0;  // the step's first pass
  if (!unsummed_weight_)
    throw UsageError("backward: grad() holds gradients of an earlier step, which were divided by its weight; accepted: zero_grad() before a step's first pass");
  *unsummed_weight_ += weight;
  if (!syncs_) return reduce_backward(loss_sum, 1, 0);
  begin_step();
  const double all = merge({.weight = *std::exchange(unsummed_weight_, std::nullopt)}).weight;
  reduce_backward(loss_sum, all > 0 ? 1 / all : 0, 0);
}

void DataParallel::backward_sum(const eager::Tensor& loss, double scale) {
  if (syncs_) begin_step();
  reduce_backward(loss, scale, 0);
}

/// Under NoSync gradients are as they come; the pass that sums them scales all there are. A rank without samples has no loss.
void DataParallel::reduce_backward(const eager::Tensor& loss, double scale, int divided_by) {
  if (replicator_) throw UsageError("backward: replicas are copied in each step; accepted: a Trainer, or replicas that are kept");
  if (!syncs_) {
    if (loss.defined()) eager::backward({loss});
    return;
  }
  const std::vector<NamedValue>& parameters = optimizer_->parameters();
  for (const NamedValue& p : parameters) {
    Value& sum = p.value.node()->accumulated;
    if (!sum || !p.value.wants_gradient()) continue;
    if (const RowValues* rows = row_values(sum); rows && rows->whole)
      throw UsageError(fmt::format("backward: grad() of {} holds the rows of an earlier step; accepted: zero_grad() before a step's first pass", p.name));
    sum = scaled(std::move(sum), scale, dense_gradient_place(p.value));
  }
  if (loss.defined()) {
    const GradientReady ready = reducer_->gradient_ready();
    eager::BackwardOptions options;
    if (ready)  // with statistics over the batch gradients are summed behind the pass, which waits for other ranks itself
      options.accumulated = [&](const Node& leaf) {
        if (const auto it = index_of_.find(&leaf); it != index_of_.end()) ready(it->second, leaf.accumulated);
      };
    eager::backward({loss}, {eager::Tensor(full(session_, {loss.shape(), loss.dtype()}, scale))}, options);
  }
  Values gradients;
  for (const NamedValue& p : parameters) gradients.push_back(p.value.node()->accumulated);
  reducer_->join(gradients, divided_by);
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].value.node()->accumulated = gradients[i];
}

int DataParallel::join() {
  if (options_.horovod) throw UsageError("join: Horovod carries the gradients; accepted: its own join()");
  if (!reducer_) throw UsageError("join: no model is attached; accepted: behind attach()");
  unsummed_weight_.reset();
  const int last = communication_.run([](parallel::Collectives& c) { return c.join(); });
  for (const NamedValue& v : all_of(module_->parameters())) broadcast(v.value, last);
  for (const NamedValue& v : optimizer_->state()) broadcast(v.value, last);
  broadcast_steps(*optimizer_->hyperparameters(), last);
  return last;
}

}  // namespace gemel::distributed
