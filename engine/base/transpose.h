// Transpose: whether the last two axes of a stored matrix are exchanged.
#pragma once

namespace gemel {

enum class Transpose { no, yes };

}  // namespace gemel
