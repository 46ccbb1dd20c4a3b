#include "datasets/tokenizer.h"

#include <algorithm>
#include <utility>

namespace gemel::datasets {

KeptTokens longest_first(std::int64_t first, std::int64_t second, std::int64_t most) {
  if (first + second <= most) return {first, second};
  std::int64_t shorter = std::min(first, second), longer = shorter > most ? shorter : std::max(shorter, most - shorter);
  if (shorter + longer > most) {
    shorter = most / 2;
    longer = shorter + most % 2;
  }
  return first <= second ? KeptTokens{shorter, longer} : KeptTokens{longer, shorter};
}

}  // namespace gemel::datasets
