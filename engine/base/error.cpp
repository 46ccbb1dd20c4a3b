#include "engine/base/error.h"

namespace gemel {
namespace {

std::string without_nul(std::string text) {
  for (auto at = text.find('\0'); at != std::string::npos; at = text.find('\0', at)) text.replace(at, 1, "\\x00");
  return text;
}

}  // namespace

Error::Error(const std::string& text) : std::runtime_error(without_nul(text)) {}

}  // namespace gemel
