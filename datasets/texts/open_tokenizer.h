// The tokenizers, by the files of their vocabularies.
#pragma once
#include <filesystem>
#include <memory>

#include "datasets/texts/byte_pair_encoding.h"
#include "datasets/texts/tokenizer.h"

namespace gemel::datasets {

/// @param vocabulary  BERT's vocab.txt, or a tokenizer.json, or a folder with the first of vocab.txt, GPT-2's vocab.json and merges.txt, tokenizer.json
/// @param letters     of vocab.txt: byte pairs keep them, tokenizer.json says it
/// @throws DataError where none of these is there, or it cannot be read
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& vocabulary, Letters letters = Letters::lower);
/// Byte pairs alone, of which texts are made again: a folder with vocab.json and merges.txt or with tokenizer.json, or that file.
/// @throws DataError where none of these is there, or it cannot be read
std::unique_ptr<BytePairs> open_byte_pairs(const std::filesystem::path& vocabulary);

}  // namespace gemel::datasets
