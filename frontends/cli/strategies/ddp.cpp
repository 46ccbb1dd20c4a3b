// --parallel ddp: each process that mpirun started has the whole model, and gradients are summed in buckets while the backward pass goes on.
#include "frontends/cli/strategies/data_parallel_strategy.h"

namespace gemel::cli {

extern const Style kDdp{
    .name = "ddp",
    .about = "the processes that mpirun started share each batch",
    .in_processes = true,
    .make = make_any<DataParallelStrategy>,
};

}  // namespace gemel::cli
