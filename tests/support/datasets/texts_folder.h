// A small GLUE of a test's own: a vocabulary, sentences that two words tell apart, and a configuration with which classifiers learn them in seconds.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/philox.h"
#include "tests/support/program/command_line_words.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {

inline constexpr std::array<std::string_view, 12> kNeutralWords{"the", "film", "is", "a", "story", "of", "two", "people", "and", "their", "dog", "."};

/// Writes vocab.txt, config.json, train.tsv and dev.tsv of SST-2's form.
inline void write_texts(const std::filesystem::path& folder, int train = 96, int dev = 31) {
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\n";
  for (const std::string_view word : kNeutralWords) vocabulary += std::string(word) + "\n";
  write_text(folder / "vocab.txt", vocabulary);
  write_text(folder / "config.json",
             R"({"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 48, "vocab_size": 19,
                 "initializer_range": 0.1})");
  PhiloxStream draws(7, stream_hash("sentences"));
  for (const auto& [name, count] : {std::pair{"train.tsv", train}, {"dev.tsv", dev}}) {
    std::string text = "sentence\tlabel\n";
    for (int i = 0; i < count; ++i) {
      const bool good = draws.below(2) == 1;
      const std::uint32_t words = 3 + draws.below(30), told = draws.below(words);
      for (std::uint32_t w = 0; w < words; ++w) {
        const std::string_view word = w == told ? (good ? "good" : "bad") : kNeutralWords[draws.below(kNeutralWords.size())];
        text += std::string(w ? " " : "") + std::string(word);
      }
      text += good ? "\t1\n" : "\t0\n";
    }
    write_text(folder / name, text);
  }
}

/// What `gemel COMMAND` is told of them. @param model  a classifier of texts
inline Words with_texts(const std::filesystem::path& folder, const std::string& model, const Words& command, const Words& more = {}) {
  return joined(joined(command, {"--model", model, "--config", (folder / "config.json").string(), "--vocab", (folder / "vocab.txt").string(), "--dataset",
                                 "sst2", "--data", folder.string(), "--max-length", "40"}),
                more);
}

}  // namespace gemel::testing
