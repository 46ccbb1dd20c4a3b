#include "datasets/texts/tokenizer.h"

#include <algorithm>
#include <utility>

#include "engine/base/numbers.h"

namespace gemel::datasets {

std::vector<std::int64_t> between_ends(const Tokenizer& tokenizer, std::string_view text, std::int64_t longest) {
  const TextEnds ends = tokenizer.ends();
  std::vector<std::int64_t> out = tokenizer.encode(text);
  if (std::ssize(out) > longest - 2) out.resize(at(longest - 2));
  out.insert(out.begin(), ends.begin);
  out.push_back(ends.end);
  return out;
}

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
