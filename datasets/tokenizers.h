// The tokenizers, by the files of their vocabularies.
#pragma once
#include <filesystem>
#include <memory>

#include "datasets/tokenizer.h"

namespace gemel::datasets {

/// @param vocabulary  BERT's vocab.txt, or a folder with it, or with GPT-2's vocab.json and merges.txt
/// @param letters     of vocab.txt: byte pairs keep them
/// @throws DataError where none of these is there, or it cannot be read
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& vocabulary, Letters letters = Letters::lower);

}  // namespace gemel::datasets
