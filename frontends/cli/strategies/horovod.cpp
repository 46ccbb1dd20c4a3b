// --parallel horovod: as ddp, but gradients are named tensors, which Horovod's cycles fuse and reduce; see the HOROVOD_ variables.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "frontends/cli/strategies/data_parallel_strategy.h"
#include "frontends/cli/system/console.h"
#include "parallel/horovod/operations.h"

namespace gemel::cli {
namespace {

/// A base, so that they end after the gradients that they carry.
struct Cycles {
  std::unique_ptr<parallel::horovod::NamedCollectives> horovod;
};

class HorovodModel : private Cycles, public DataParallelModel {
 public:
  HorovodModel(Session& session, Job& job, train::Task& task, ModelUse use, std::pair<distributed::DataParallelOptions, parallel::horovod::Options> options)
      : DataParallelModel(session, job, task, std::move(use), std::move(options.first)), cycles_(std::move(options.second)) {}

  Json tell_ranks() override {
    Json out = DataParallelModel::tell_ranks();
    if (const auto unread = parallel::horovod::unread_variables(); !unread.empty())
      say("horovod: {} in the environment: nothing reads it here\n", fmt::join(unread, ", "));
    return out;
  }
  void end() override {
    if (horovod) horovod->shutdown();
  }

 protected:
  void join() override {
    if (use_.purpose == Purpose::train) {
      horovod = std::make_unique<parallel::horovod::NamedCollectives>(*job_.communication(), cycles_, tell);
      options_.horovod = horovod.get();
    }
    DataParallelModel::join();
  }

 private:
  parallel::horovod::Options cycles_;
};

class HorovodStrategy : public DataParallelStrategy {
 public:
  HorovodStrategy(const Style& style) : DataParallelStrategy(style), cycles_(parallel::horovod::options_from_environment()) {}
  std::unique_ptr<RankModel> model(Session& session, Job& job, train::Task& task, ModelUse use) const override {
    auto options = options_for(job, use);
    return std::make_unique<HorovodModel>(session, job, task, std::move(use), std::pair(std::move(options), cycles_));
  }

 private:
  parallel::horovod::Options cycles_;
};

std::shared_ptr<const Strategy> make_horovod(const Style& style, const po::variables_map& v, const ParallelOptions& common) {
  refuse_given(v, std::array{"bucket-mb", "first-bucket-mb"},
               "with --parallel horovod, which fuses what is there in a cycle; accepted: HOROVOD_FUSION_THRESHOLD and HOROVOD_CYCLE_TIME");
  refuse_top_k(common, style);
  return std::make_shared<HorovodStrategy>(style);
}

}  // namespace

extern const Style kHorovod{
    .name = "horovod",
    .about = "as ddp, and gradients are reduced in cycles (HOROVOD_CYCLE_TIME and its kin)",
    .in_processes = true,
    .make = make_horovod,
};

}  // namespace gemel::cli
