// All that reads what others wrote: files, messages between ranks, options. Each reads or refuses: nothing else may happen.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gemel::testing {

struct FuzzTarget {
  std::vector<std::string> corpus;  // small ones that are read
  /// @throws Error where it refuses the bytes: any other exception, a signal or a hang is a defect
  std::function<void(std::string_view)> read;
};
std::span<const std::string_view> fuzz_target_names();
FuzzTarget fuzz_target(std::string_view name);

}  // namespace gemel::testing
