// Precision of the factors of products: float32, or TF32, which has float32's range and 11 bits of its digits. Sums are float32 in either.
#pragma once

namespace gemel {

enum class Precision { float32, tf32 };

/// "float32", "tf32"
inline const char* to_string(Precision precision) { return precision == Precision::tf32 ? "tf32" : "float32"; }

}  // namespace gemel
