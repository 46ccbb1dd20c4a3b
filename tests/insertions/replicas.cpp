// --parallel replicas: a style that `tests/insertions/run` adds to a copy of the sources. As mirrored, with the statistics of the first replica.
#include "frontends/cli/strategies/data_parallel_strategy.h"

namespace gemel::cli {

extern const Style kReplicas{
    .name = "replicas",
    .about = "as mirrored, with the first replica's statistics",
    .in_threads = true,
    .make = make_any<DataParallelStrategy>,
};

}  // namespace gemel::cli
