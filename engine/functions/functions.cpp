#include "engine/functions/functions.h"

#include <array>

namespace gemel {

std::span<const FunctionDef* const> functions() {
  static const std::array all{&true_divide_def(), &embedding_def(), &conv1d_def()};
  return all;
}

const FunctionDef* find_function(std::string_view name) {
  for (const FunctionDef* def : functions())
    if (def->name == name) return def;
  return nullptr;
}

}  // namespace gemel
