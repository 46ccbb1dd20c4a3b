// The list of all operators, which joins the lists of the families.
#pragma once
#include <span>
#include <string_view>

#include "engine/core/op.h"

namespace gemel {

std::span<const OpDef* const> catalog();
/// Returns the record of that name, or nullptr.
const OpDef* find_op(std::string_view name);

}  // namespace gemel
