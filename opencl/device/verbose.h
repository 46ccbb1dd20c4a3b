// Private to the engine: topics of GEMEL_VERBOSE.
#pragma once
#include <string_view>

namespace gemel::opencl {

/// True if GEMEL_VERBOSE, a comma-separated list of `dispatch` and `kernels`, names the topic. Reads the variable once.
/// @throws UsageError if it names an unknown topic
bool is_told(std::string_view topic);

}  // namespace gemel::opencl
