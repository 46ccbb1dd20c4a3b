#include "datasets/tokenizers.h"

#include <fmt/format.h>

#include "datasets/wordpiece.h"
#include "engine/base/error.h"
#include "engine/base/file.h"

namespace gemel::datasets {

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& vocabulary, Letters letters) {
  if (!is_folder(vocabulary)) return std::make_unique<WordPiece>(vocabulary, letters);
  const auto lines = vocabulary / "vocab.txt", json = vocabulary / "vocab.json", merges = vocabulary / "merges.txt";
  if (is_there(lines)) return std::make_unique<WordPiece>(lines, letters);
  if (is_there(json) && is_there(merges)) return std::make_unique<BytePairs>(json, merges);
  throw DataError(fmt::format("vocabulary: {} has neither vocab.txt nor vocab.json with merges.txt; accepted: a folder that has, or the file vocab.txt", vocabulary.string()));
}

std::unique_ptr<BytePairs> open_byte_pairs(const std::filesystem::path& folder) {
  const auto json = folder / "vocab.json", merges = folder / "merges.txt";
  if (!is_there(json) || !is_there(merges))
    throw DataError(fmt::format("vocabulary: {} has no vocab.json with merges.txt; accepted: a folder that has, as GPT-2's are", folder.string()));
  return std::make_unique<BytePairs>(json, merges);
}

}  // namespace gemel::datasets
