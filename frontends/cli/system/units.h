// Units for output.
#pragma once
#include <cstdint>

namespace gemel::cli {

inline double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

}  // namespace gemel::cli
