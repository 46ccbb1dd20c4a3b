// JSON values as text for messages.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace gemel {

/// Text of a scalar, or "an array" or "an object": structured values may be nested too deeply for a recursive printer.
inline std::string message_text(const nlohmann::json& value) {
  return value.is_structured() ? std::string("an ") + value.type_name() : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace gemel
