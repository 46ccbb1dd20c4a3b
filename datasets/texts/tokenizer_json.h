// tokenizer.json: a tokenizer whole, as Hugging Face's tokenizers save it.
// Source: https://huggingface.co/docs/tokenizers, the Tokenizer's parts: normalizer, pre_tokenizer, model, post_processor, added tokens.
#pragma once
#include <filesystem>
#include <memory>
#include <string_view>

#include "datasets/texts/byte_pair_encoding.h"
#include "datasets/texts/tokenizer.h"

namespace gemel::datasets {

/// Whether a vocabulary's file is an object of JSON, and no list of tokens.
bool is_json_object(std::string_view text);

/// The WordPiece or the byte pairs that the file describes, where they give the same numbers as there: its truncation and padding are left to whoever asks.
/// @param letters  kept is refused where the file says lower case
/// @throws DataError `tokenizer: FILE: ...` with what the file describes that is neither BERT's WordPiece nor GPT-2's byte pairs, or is damaged
std::unique_ptr<Tokenizer> read_tokenizer_json(const std::filesystem::path& file, Letters letters);
/// Byte pairs alone. @throws DataError as above, and for WordPiece
std::unique_ptr<BytePairs> read_byte_pairs_json(const std::filesystem::path& file);

}  // namespace gemel::datasets
