// Private to opencl/: what a run goes on in spite of.
#pragma once
#include <string>

namespace gemel::opencl {

/// One line on standard error, `gemel: warning: TEXT`; the same text once a process.
void warn(const std::string& text);

}  // namespace gemel::opencl
