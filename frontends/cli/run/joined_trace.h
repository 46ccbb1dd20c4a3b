// The trace of a job: what all its ranks did, in the one file that rank 0 writes.
#pragma once
#include <vector>

#include "frontends/cli/job/job.h"
#include "frontends/cli/run/run_scope.h"
#include "parallel/communication_span.h"

namespace gemel::cli {

/// On a track of its own of this rank's trace.
void add_communication(RunScope& run, const std::vector<parallel::Span>& spans);

/// With --profile: rank 0 gets the traces of all ranks, on its own clock. Collective; in a process of its own nothing.
void join_traces(RunScope& run, Job& job);

}  // namespace gemel::cli
