// Private to the workloads: one of each kind.
#pragma once
#include <memory>

#include "frontends/domains/workload.h"

namespace gemel::cli {

std::unique_ptr<Workload> picture_workload(const WorkloadOptions& options);
std::unique_ptr<Workload> text_workload(const WorkloadOptions& options);
std::unique_ptr<Workload> language_workload(const WorkloadOptions& options);
std::unique_ptr<Workload> translation_workload(const WorkloadOptions& options);
std::unique_ptr<Workload> ratings_workload(const WorkloadOptions& options);
std::unique_ptr<Workload> speech_workload(const WorkloadOptions& options);

}  // namespace gemel::cli
