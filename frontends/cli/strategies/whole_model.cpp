#include "frontends/cli/strategies/whole_model.h"

#include <string>
#include <utility>

namespace gemel::cli {

WholeModel::WholeModel(Session& session, train::Task& task, ModelUse use) : session_(session), task_(task), use_(std::move(use)) {}

void WholeModel::build(const std::function<void(nn::Extent)>& load) {
  if (load) load(nn::Extent::whole);
  task_.module().materialise(session_);
  if (use_.purpose == Purpose::infer) {  // each rank for itself
    inference_.emplace(session_, task_.module(), use_.frontend, use_.passes);
    return;
  }
  join();
  if (use_.purpose == Purpose::evaluate) make_step();
}

void WholeModel::join() {
  if (use_.purpose == Purpose::train) train::pack_parameters(session_, task_, use_.shard);
}

std::vector<optim::Group> WholeModel::groups(const optim::Grouping& grouping) const { return grouping(task_.module().parameters()); }

void WholeModel::attach(std::unique_ptr<optim::Optimizer> optimizer) {
  optimizer_ = std::move(optimizer);
  make_step();
}

void WholeModel::make_step() {
  step_.emplace(session_, task_, optimizer_.get(),
                train::StepOptions{.frontend = use_.frontend, .passes = use_.passes, .accumulate = use_.micro_batches, .ranks = joined_.get()});
}

std::function<Values()> WholeModel::inference(const datasets::Batch& shard) {
  std::vector<std::string> names = task_.inputs();
  names.pop_back();  // the labels
  Values in;
  for (const std::string& name : names) in.push_back(session_.tensor(shard[name].spec, *shard[name].bytes));
  return [this, in = std::move(in)] { return (*inference_)(in); };
}

std::vector<nn::StateEntry> WholeModel::whole_state() { return ranks().rank() == 0 ? nn::state_dict(task_.module()) : std::vector<nn::StateEntry>(); }

}  // namespace gemel::cli
