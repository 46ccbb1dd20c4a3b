// Subnormal numbers, those of float32 below 2^-126: computed as they are, or taken for 0. Some processors take a hundred cycles over each.
#pragma once

namespace gemel {

enum class Denormals { keep, flush };

/// Of all that this thread computes from now on, and the threads that it starts. Where the processor has no such switch, nothing changes.
void set_denormals(Denormals denormals);

/// "keep", "flush"
const char* to_string(Denormals denormals);

}  // namespace gemel
