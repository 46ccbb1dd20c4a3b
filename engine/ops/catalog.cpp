#include "engine/ops/catalog.h"

#include <vector>

/// All families, a line each.
#define GEMEL_FAMILIES(FAMILY) \
  FAMILY(shape)                \
  FAMILY(index)                \
  FAMILY(elementwise)          \
  FAMILY(reduce)               \
  FAMILY(matmul)               \
  FAMILY(convolution)          \
  FAMILY(pooling)              \
  FAMILY(normalisation)        \
  FAMILY(loss)                 \
  FAMILY(attention)            \
  FAMILY(recurrent)            \
  FAMILY(random)               \
  FAMILY(update)               \
  FAMILY(control)

namespace gemel {

inline namespace ops {

#define GEMEL_DECLARE(family) std::span<const OpDef* const> family##_operators();
GEMEL_FAMILIES(GEMEL_DECLARE)
#undef GEMEL_DECLARE

}  // namespace ops

std::span<const OpDef* const> catalog() {
  static const std::vector<const OpDef*> all = [] {
    std::vector<const OpDef*> out;
#define GEMEL_LIST(family) family##_operators,
    for (const auto family : {GEMEL_FAMILIES(GEMEL_LIST)})
#undef GEMEL_LIST
      out.insert(out.end(), family().begin(), family().end());
    return out;
  }();
  return all;
}

const OpDef* find_op(std::string_view name) {
  for (const OpDef* def : catalog())
    if (def->name == name) return def;
  return nullptr;
}

}  // namespace gemel
