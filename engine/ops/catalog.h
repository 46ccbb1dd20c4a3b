// Every operator: the families' records in one list.
#pragma once
#include <span>
#include <string_view>

#include "engine/core/op.h"

namespace gemel {

std::span<const OpDef* const> catalog();
/// nullptr where there is none of that name.
const OpDef* find_op(std::string_view name);

}  // namespace gemel
