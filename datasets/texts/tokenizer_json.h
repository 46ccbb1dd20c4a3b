// Reads tokenizer.json, a complete tokenizer as Hugging Face's tokenizers save it.
// Source: https://huggingface.co/docs/tokenizers, the Tokenizer's parts: normalizer, pre_tokenizer, model, post_processor, added tokens.
#pragma once
#include <filesystem>
#include <memory>
#include <string_view>

#include "datasets/texts/byte_pair_encoding.h"
#include "datasets/texts/tokenizer.h"

namespace gemel::datasets {

/// Tells if a vocabulary's file is a JSON object rather than a list of tokens.
bool is_json_object(std::string_view text);

/// Reads the WordPiece or byte-pair tokenizer that a file describes, if its tokens would equal Hugging Face's. The file's truncation and padding are ignored.
/// @param letters  kept is refused if the file says lower case
/// @throws DataError `tokenizer: FILE: ...` if the file is damaged, or describes anything but BERT's WordPiece or GPT-2's byte pairs
std::unique_ptr<Tokenizer> read_tokenizer_json(const std::filesystem::path& file, Letters letters);
/// Reads a byte-pair tokenizer.
/// @throws DataError as above, and for WordPiece
std::unique_ptr<BytePairs> read_byte_pairs_json(const std::filesystem::path& file);

}  // namespace gemel::datasets
