// Private to opencl/: warnings on standard error.
#pragma once
#include <string>

namespace gemel::opencl {

/// Prints `gemel: warning: TEXT` on standard error, each text once in a process.
void warn(const std::string& text);

}  // namespace gemel::opencl
