// What the styles share whose ranks hold the whole model each and train their shards of every batch.
#pragma once
#include <string>
#include <vector>

#include "frontends/cli/strategies/whole_model.h"
#include "frontends/distributed/data_parallel.h"

namespace gemel::cli {

class DataParallelModel : public WholeModel {
 public:
  DataParallelModel(Session& session, Job& job, train::Task& task, ModelUse use, distributed::DataParallelOptions options);
  void attach(std::unique_ptr<optim::Optimizer> optimizer) override;
  std::vector<parallel::Span> take_spans() override;
  Json tell_ranks() override;

 protected:
  void join() override;

  Job& job_;
  distributed::DataParallelOptions options_;

 private:
  distributed::DataParallel* shared_ = nullptr;  // joined_
};

class DataParallelStrategy : public Strategy {
 public:
  using Strategy::Strategy;
  std::unique_ptr<RankModel> model(Session& session, Job& job, train::Task& task, ModelUse use) const override;

 protected:
  distributed::DataParallelOptions options_for(const Job& job, const ModelUse& use) const;
  virtual distributed::Buffers buffers() const { return distributed::Buffers::of_rank_0; }
  virtual distributed::Replicas replicas() const { return distributed::Replicas::kept; }
};

/// Makes a style's strategy of options that it has no word against.
template <class Made>
std::shared_ptr<const Strategy> make_any(const Style& style, const po::variables_map&, const ParallelOptions&) {
  return std::make_shared<Made>(style);
}

}  // namespace gemel::cli
