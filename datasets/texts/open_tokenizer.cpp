#include "datasets/texts/open_tokenizer.h"

#include <fmt/format.h>

#include "datasets/texts/tokenizer_json.h"
#include "datasets/texts/wordpiece.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/git_lfs.h"

namespace gemel::datasets {
namespace {

/// In a folder.
struct Places {
  explicit Places(const std::filesystem::path& folder)
      : lines(folder / "vocab.txt"), json(folder / "vocab.json"), merges(folder / "merges.txt"), whole(folder / "tokenizer.json") {}
  bool has_pairs() const { return is_there(json) && is_there(merges); }
  std::filesystem::path lines, json, merges, whole;
};

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& vocabulary, Letters letters) {
  if (!is_folder(vocabulary)) {
    if (vocabulary.extension() == ".json") return read_tokenizer_json(vocabulary, letters);
    const std::vector<std::byte> content = read_fetched(vocabulary);
    if (is_json_object(as_text(content))) return read_tokenizer_json(vocabulary, letters);
    return std::make_unique<WordPiece>(vocabulary, letters);
  }
  const Places at(vocabulary);
  if (is_there(at.lines)) return std::make_unique<WordPiece>(at.lines, letters);
  if (at.has_pairs()) return std::make_unique<BytePairs>(at.json, at.merges);
  if (is_there(at.whole)) return read_tokenizer_json(at.whole, letters);
  throw DataError(
      fmt::format("vocabulary: {} has no vocab.txt, no vocab.json with merges.txt and no tokenizer.json; accepted: a folder that has one of these, or the file "
                  "vocab.txt or tokenizer.json",
                  vocabulary.string()));
}

std::unique_ptr<BytePairs> open_byte_pairs(const std::filesystem::path& vocabulary) {
  if (!is_folder(vocabulary)) return read_byte_pairs_json(vocabulary);
  const Places at(vocabulary);
  if (at.has_pairs()) return std::make_unique<BytePairs>(at.json, at.merges);
  if (is_there(at.whole)) return read_byte_pairs_json(at.whole);
  throw DataError(
      fmt::format("vocabulary: {} has no vocab.json with merges.txt and no tokenizer.json; accepted: a folder that has, as GPT-2's are", vocabulary.string()));
}

}  // namespace gemel::datasets
