// --parallel mirrored: as ddp, over the devices of one process; statistics of normalisation are the replicas' mean.
#include "frontends/cli/strategies/data_parallel_strategy.h"

namespace gemel::cli {
namespace {

class Mirrored : public DataParallelStrategy {
 public:
  using DataParallelStrategy::DataParallelStrategy;

 protected:
  distributed::Buffers buffers() const override { return distributed::Buffers::mean; }
};

}  // namespace

extern const Style kMirrored{
    .name = "mirrored",
    .about = "the devices of this process share each batch",
    .in_threads = true,
    .make = make_any<Mirrored>,
};

}  // namespace gemel::cli
