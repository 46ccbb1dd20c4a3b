// Words of command lines.
#pragma once
#include <string>
#include <vector>

namespace gemel::testing {

using Words = std::vector<std::string>;

inline Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace gemel::testing
