// Without --parallel: one device computes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "engine/base/error.h"
#include "frontends/cli/strategies/pipeline_plan.h"
#include "frontends/cli/strategies/whole_model.h"

namespace gemel::cli {
namespace {

/// Stages of a pipeline on devices that are alike. None: no number of them has room, or the model takes no micro-batches.
std::optional<int> stages_with_room(train::Task& task, const ModelUse& use, std::int64_t micro_batches) {
  ModelUse cut = use;
  cut.micro_batches = micro_batches;
  for (Spec& spec : cut.batch) spec.shape[0] /= micro_batches;
  try {
    const distributed::PipelineMeans means = means_of(cut);
    return parallel::stages_that_would_do(distributed::partition_problem(distributed::pipeline_costs(task, cut.batch, means), means), 2);
  } catch (const Error&) {  // batch statistics of one value a channel, for one
    return std::nullopt;
  }
}

class Alone : public Strategy {
 public:
  using Strategy::Strategy;
  int copies(int) const override { return 1; }
  int copy(int, int) const override { return 0; }
  const char* normalised_over(bool) const override { return "the whole batch"; }
  std::unique_ptr<RankModel> model(Session& session, Job&, train::Task& task, ModelUse use) const override {
    return std::make_unique<WholeModel>(session, task, std::move(use));
  }
  std::string where_there_is_room(train::Task& task, const ModelUse& use) const override {
    constexpr std::int64_t kMicroBatches = 8;
    const auto stages = stages_with_room(task, use, std::min(kMicroBatches, use.batch[0].shape[0]));
    if (!stages) return "";
    return fmt::format("--parallel pipeline with {} stages on as many devices of this size, and --microbatches {}, would do", *stages, kMicroBatches);
  }
};

std::shared_ptr<const Strategy> make_alone(const Style& style, const po::variables_map& v, const ParallelOptions&) {
  refuse_given(v, std::array{"devices"}, "without --parallel; accepted: --device for one device");
  refuse_given(v, std::array{"sync-bn"}, "without --parallel, where the whole batch is normalised together; accepted: with --parallel");
  refuse_given(v, std::array{"balance", "bucket-mb", "first-bucket-mb", "compression", "collective", "heartbeat", "stall-warning", "interface"},
               "without --parallel, where one device computes; accepted: with --parallel ddp");
  return std::make_shared<Alone>(style);
}

}  // namespace

extern const Style kAlone{
    .name = "",
    .about = "one device",
    .make = make_alone,
};

}  // namespace gemel::cli
