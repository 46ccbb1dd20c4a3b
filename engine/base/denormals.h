// Subnormal numbers (float32: below 2^-126) are kept or flushed to 0. Some processors spend a hundred cycles on each.
#pragma once

namespace gemel {

enum class Denormals { keep, flush };

/// Sets the mode of the calling thread and of threads that it starts later. Has no effect on a processor without such a mode.
void set_denormals(Denormals denormals);

/// "keep", "flush"
const char* to_string(Denormals denormals);

}  // namespace gemel
