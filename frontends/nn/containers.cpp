#include "frontends/nn/containers.h"

#include "engine/base/error.h"

namespace gemel::nn {

Module& ModuleDict::operator[](std::string_view name) {
  std::string known;
  for (const auto& child : children()) {
    if (child->name() == name) return *child;
    known += (known.empty() ? "" : ", ") + child->name();
  }
  throw UsageError("ModuleDict: it has no " + std::string(name) + "; accepted: " + known);
}

}  // namespace gemel::nn
