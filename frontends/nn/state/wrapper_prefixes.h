// Prefixes of all names in the state dict of a wrapped module.
#pragma once
#include <algorithm>
#include <array>
#include <string_view>

namespace gemel::nn {

/// Prefixes of PyTorch's DataParallel and DistributedDataParallel, of torch.compile, and of a module with the model as member.
inline constexpr std::array<std::string_view, 3> kWrappers{"module.", "_orig_mod.", "model."};

/// Returns the length of the wrapper's prefix of a name; 0: none.
inline std::size_t wrapper_of(std::string_view name) {
  const auto* found = std::ranges::find_if(kWrappers, [name](std::string_view w) { return name.starts_with(w); });
  return found == kWrappers.end() ? 0 : found->size();
}

/// Removes all wrappers' prefixes from a name.
inline std::string_view without_wrappers(std::string_view name) {
  while (const std::size_t n = wrapper_of(name)) name.remove_prefix(n);
  return name;
}

}  // namespace gemel::nn
