#include "frontends/cli/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontends/cli/workloads.h"
#include "frontends/models/texts.h"

namespace gemel::cli {

bool takes_texts(std::string_view model) {
  const auto names = models::text_names();
  return std::ranges::find(names, model) != names.end();
}

std::string Workload::extent() const { return fmt::format("{} samples, {} classes", train_data().size(), train_data().classes()); }

std::unique_ptr<Workload> make_workload(const WorkloadOptions& options) {
  if (options.ratings) return ratings_workload(options);
  return options.text ? text_workload(options) : picture_workload(options);
}

}  // namespace gemel::cli
