// What the tests of the watch over ranks share.
#pragma once
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <vector>

namespace gemel::parallel {

inline constexpr auto kPatience = std::chrono::seconds(30);  // for what comes within a second, on a machine with other work
inline constexpr double kNoHeartbeat = 3600;                 // what is named within the patience was not named for its silence
inline const std::string kClosed = "was lost: its connection closed";
inline const std::string kStep = "step 12, gradient of layer4.1.conv2.weight";

inline std::vector<std::string> host_names(int ranks) {
  std::vector<std::string> names;
  for (int rank = 0; rank < ranks; ++rank) names.push_back(fmt::format("node-{}", rank));
  return names;
}

}  // namespace gemel::parallel
