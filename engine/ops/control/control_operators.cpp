#include "engine/ops/control/control_operators.h"

#include <array>

namespace gemel::inline ops {

std::span<const OpDef* const> control_operators() {
  static const std::array records{
      &conditional_def(),
      &while_def(),
      &scan_def(),
  };
  return records;
}

}  // namespace gemel::inline ops
