// What stands before all names of a state dict that comes from a module inside another.
#pragma once
#include <algorithm>
#include <array>
#include <string_view>

namespace gemel::nn {

/// PyTorch's DataParallel and DistributedDataParallel, torch.compile, and a member of a module around the model.
inline constexpr std::array<std::string_view, 3> kWrappers{"module.", "_orig_mod.", "model."};

/// The length of the wrapper at the beginning of a name; 0: there is none.
inline std::size_t wrapper_of(std::string_view name) {
  const auto* found = std::ranges::find_if(kWrappers, [name](std::string_view w) { return name.starts_with(w); });
  return found == kWrappers.end() ? 0 : found->size();
}

/// The name without any of them.
inline std::string_view without_wrappers(std::string_view name) {
  while (const std::size_t n = wrapper_of(name)) name.remove_prefix(n);
  return name;
}

}  // namespace gemel::nn
