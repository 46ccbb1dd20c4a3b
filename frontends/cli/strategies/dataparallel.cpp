// --parallel dataparallel: as mirrored, but the first device alone updates, and its parameters are copied to the others before each step.
#include "engine/base/error.h"
#include "frontends/cli/strategies/data_parallel_strategy.h"

namespace gemel::cli {
namespace {

class CopiedEachStep : public DataParallelStrategy {
 public:
  using DataParallelStrategy::DataParallelStrategy;
  void check(Purpose purpose, std::int64_t batch_size, int ranks) const override {
    if (purpose == Purpose::infer)
      throw UsageError("bench: --parallel dataparallel is given with infer, where no update is there to be copied; accepted: train, --parallel mirrored");
    Strategy::check(purpose, batch_size, ranks);
  }

 protected:
  distributed::Replicas replicas() const override { return distributed::Replicas::copied_each_step; }
};

}  // namespace

extern const Style kDataparallel{
    .name = "dataparallel",
    .about = "as mirrored, and the first device alone updates",
    .in_threads = true,
    .make = make_any<CopiedEachStep>,
};

}  // namespace gemel::cli
