// The list of all operators. Each record is defined in the source of its family.
#pragma once
#include <span>
#include <string_view>

#include "engine/core/op.h"

namespace gemel {

std::span<const OpDef* const> catalog();
/// Returns the record of that name, or nullptr.
const OpDef* find_op(std::string_view name);

}  // namespace gemel
