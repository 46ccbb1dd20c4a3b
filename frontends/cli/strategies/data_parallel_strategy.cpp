#include "frontends/cli/strategies/data_parallel_strategy.h"

#include <utility>

#include "frontends/cli/system/console.h"

namespace gemel::cli {

DataParallelModel::DataParallelModel(Session& session, Job& job, train::Task& task, ModelUse use, distributed::DataParallelOptions options)
    : WholeModel(session, task, std::move(use)), job_(job), options_(std::move(options)) {}

void DataParallelModel::join() {
  auto shared = std::make_unique<distributed::DataParallel>(session_, *job_.communication(), options_);
  shared_ = shared.get();
  joined_ = std::move(shared);
  if (use_.purpose == Purpose::train) shared_->pack(task_, use_.batch);
}

void DataParallelModel::attach(std::unique_ptr<optim::Optimizer> optimizer) {
  shared_->attach(task_.module(), *optimizer);
  WholeModel::attach(std::move(optimizer));
}

std::vector<parallel::Span> DataParallelModel::take_spans() {
  return use_.purpose == Purpose::train ? shared_->reducer().take_spans() : std::vector<parallel::Span>();
}

Json DataParallelModel::tell_ranks() {
  const std::string collective = shared_->collective();
  say("{}: {} ranks; gradients: {}\n", job_.strategy().name(), job_.size(), collective);
  return {{"collective", collective}};
}

distributed::DataParallelOptions DataParallelStrategy::options_for(const Job& job, const ModelUse& use) const {
  if (use.purpose != Purpose::train) return {};
  parallel::ReducerOptions reducer = job.options().reducer;
  reducer.check_finite = use.check_finite;
  reducer.keeps_spans = use.keeps_spans;
  return {.reducer = reducer,
          .buffers = buffers(),
          .replicas = replicas(),
          .norm = use.sync_bn ? distributed::NormOver::batch : distributed::NormOver::shard,
          .balance = use.balance};
}

std::unique_ptr<RankModel> DataParallelStrategy::model(Session& session, Job& job, train::Task& task, ModelUse use) const {
  auto options = options_for(job, use);
  return std::make_unique<DataParallelModel>(session, job, task, std::move(use), std::move(options));
}

}  // namespace gemel::cli
