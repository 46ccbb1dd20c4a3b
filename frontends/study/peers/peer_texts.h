// Texts for peers: Gemel tokenizes and pads them, and a peer reads the numbers, so that both train on the same tokens in batches of the same length.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "frontends/study/study.h"

namespace gemel::study {

/// Keys of a spec that decide which texts it reads.
inline constexpr std::array kTextKeys{"dataset", "data", "vocab", "cased", "max-length"};

/// Models that `studies/peers/text_models.py` has, all of them classifiers of texts.
inline constexpr std::array<std::string_view, 3> kTextModels{"bert", "lstm_classifier", "gru_classifier"};

/// Whether the spec's model is one of these.
bool takes_texts(const Json& spec);
/// The spec of a benchmark, whose texts are made up, with the keys by which `train` reads the same ones; one of `train` as it is.
/// @throws UsageError where `input` is no number of tokens
Json with_text_keys(Json spec);
/// Writes the texts of a spec: ids.npy and types.npy, int64 [N, T], with padding behind a text up to the longest of them, and labels.npy, int64 [N]; those of
/// validation as val_ids.npy and so on.
/// @param limit  most texts of either; 0: all  @throws DataError, UsageError where they cannot be read
void write_texts(const Json& spec, std::int64_t limit, const std::filesystem::path& folder);

}  // namespace gemel::study
