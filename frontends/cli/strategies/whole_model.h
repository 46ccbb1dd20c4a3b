// A rank that holds the whole model: alone, or beside others that train their shards of each batch.
#pragma once
#include <memory>
#include <optional>

#include "frontends/cli/strategies/strategy.h"
#include "frontends/train/inference.h"

namespace gemel::cli {

class WholeModel : public RankModel {
 public:
  WholeModel(Session& session, train::Task& task, ModelUse use);
  void build(const std::function<void(nn::Extent)>& load) override;
  std::vector<optim::Group> groups(const optim::Grouping& grouping) const override;
  void attach(std::unique_ptr<optim::Optimizer> optimizer) override;
  optim::Optimizer& optimizer() override { return *optimizer_; }
  train::Ranks& ranks() override { return joined_ ? *joined_ : alone_; }
  train::Stepper& stepper() override { return *step_; }
  std::function<Values()> inference(const datasets::Batch& shard) override;
  graph::ArenaUse arena() const override { return step_ ? step_->arena() : inference_->arena(); }
  std::vector<nn::StateEntry> whole_state() override;

 protected:
  /// Joins the other ranks, where there are some, and packs what is trained.
  virtual void join();

  Session& session_;
  train::Task& task_;
  const ModelUse use_;
  std::unique_ptr<train::Ranks> joined_;  // null: alone

 private:
  void make_step();
  train::Ranks alone_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<train::Step> step_;  // its captured graphs end before what they tell of gradients
  std::optional<train::Inference> inference_;
};

}  // namespace gemel::cli
