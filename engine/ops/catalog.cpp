#include "engine/ops/catalog.h"

#include <vector>

#include "engine/ops/ops.h"

namespace gemel {

std::span<const OpDef* const> catalog() {
  static const std::vector<const OpDef*> all = [] {
    std::vector<const OpDef*> out;
    for (const auto family :
         {shape_operators, index_operators, elementwise_operators, reduce_operators, matmul_operators, convolution_operators, pooling_operators,
          normalisation_operators, loss_operators, attention_operators, recurrent_operators, random_operators, update_operators, control_operators})
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
