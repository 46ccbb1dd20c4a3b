// Whether a matrix lies with its last two axes exchanged.
#pragma once

namespace gemel {

enum class Transpose { no, yes };

}  // namespace gemel
