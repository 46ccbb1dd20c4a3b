#include "frontends/domains/workload.h"

#include <fmt/format.h>

namespace gemel::domains {

std::string Workload::extent() const { return fmt::format("{} samples, {} classes", train_data().size(), train_data().classes()); }

}  // namespace gemel::domains
