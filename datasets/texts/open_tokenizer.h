// Opens the tokenizer that a vocabulary's files describe.
#pragma once
#include <filesystem>
#include <memory>

#include "datasets/texts/byte_pair_encoding.h"
#include "datasets/texts/tokenizer.h"

namespace gemel::datasets {

/// @param vocabulary  BERT's vocab.txt, or a tokenizer.json, or a folder with the first of vocab.txt, GPT-2's vocab.json and merges.txt, tokenizer.json
/// @param letters     for vocab.txt only: byte-pair encoding keeps the case, and tokenizer.json states it
/// @throws DataError if none of these exists, or it cannot be read
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& vocabulary, Letters letters = Letters::lower);
/// Opens a byte-pair encoding, whose tokens decode to the exact text.
/// @param vocabulary  folder with vocab.json and merges.txt or with tokenizer.json, or a tokenizer.json
/// @throws DataError if none of these exists, or it cannot be read
std::unique_ptr<BytePairs> open_byte_pairs(const std::filesystem::path& vocabulary);

}  // namespace gemel::datasets
