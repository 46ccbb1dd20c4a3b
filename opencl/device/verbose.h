// Private to the engine: what GEMEL_VERBOSE asks to be told.
#pragma once
#include <string_view>

namespace gemel::opencl {

/// Whether GEMEL_VERBOSE, read once, names the topic: `dispatch`, `kernels`, or both with a comma. @throws UsageError where it names another
bool is_told(std::string_view topic);

}  // namespace gemel::opencl
