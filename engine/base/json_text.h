// JSON values in messages.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace gemel {

/// A number, a string or the like as it stands; of an array or an object its kind alone, for it may be nested deeper than a stack is.
inline std::string message_text(const nlohmann::json& value) {
  return value.is_structured() ? std::string("an ") + value.type_name() : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace gemel
