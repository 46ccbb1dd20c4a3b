#include "datasets/tokenizers.h"

#include <fmt/format.h>

#include "datasets/wordpiece.h"
#include "engine/base/error.h"

namespace gemel::datasets {

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& vocabulary, Letters letters) {
  if (!std::filesystem::is_directory(vocabulary)) return std::make_unique<WordPiece>(vocabulary, letters);
  const auto lines = vocabulary / "vocab.txt", json = vocabulary / "vocab.json", merges = vocabulary / "merges.txt";
  if (std::filesystem::exists(lines)) return std::make_unique<WordPiece>(lines, letters);
  if (std::filesystem::exists(json) && std::filesystem::exists(merges)) return std::make_unique<BytePairs>(json, merges);
  throw DataError(fmt::format("vocabulary: {} has neither vocab.txt nor vocab.json with merges.txt; accepted: a folder that has, or the file vocab.txt", vocabulary.string()));
}

std::unique_ptr<BytePairs> open_byte_pairs(const std::filesystem::path& folder) {
  const auto json = folder / "vocab.json", merges = folder / "merges.txt";
  if (!std::filesystem::exists(json) || !std::filesystem::exists(merges))
    throw DataError(fmt::format("vocabulary: {} has no vocab.json with merges.txt; accepted: a folder that has, as GPT-2's are", folder.string()));
  return std::make_unique<BytePairs>(json, merges);
}

}  // namespace gemel::datasets
