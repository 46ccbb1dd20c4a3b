#include "opencl/device/verbose.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "engine/base/error.h"
#include "opencl/device/device.h"

namespace gemel::opencl {
namespace {

constexpr std::array<std::string_view, 2> kTopics{"dispatch", "kernels"};

std::set<std::string, std::less<>> topics() {
  const std::string text = from_environment("GEMEL_VERBOSE");
  std::set<std::string, std::less<>> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const auto& topic = *out.insert(text.substr(at, end - at)).first;
    if (std::ranges::find(kTopics, topic) == kTopics.end()) throw UsageError(fmt::format("GEMEL_VERBOSE: '{}' is unknown; accepted: dispatch, kernels", topic));
    at = end + 1;
  }
  return out;
}

}  // namespace

bool is_told(std::string_view topic) {
  static const auto told = topics();
  return told.contains(topic);
}

}  // namespace gemel::opencl
