// A small task of copying of a test's own, and a configuration of a transformer that learns it in seconds.
#pragma once
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "tests/support/program/command_line_words.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {

/// Writes vocab.txt, config.json, train.tsv and dev.tsv: two to five of eight words, and the same again. No source is there twice.
inline void write_translations(const std::filesystem::path& folder, int train = 1024, int dev = 64) {
  constexpr std::uint32_t kWords = 8, kShortest = 2, kLengths = 4;
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (std::uint32_t w = 0; w < kWords; ++w) vocabulary += std::string(1, static_cast<char>('a' + w)) + "\n";
  write_text(folder / "vocab.txt", vocabulary);
  write_text(folder / "config.json",
             R"({"d_model": 32, "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "dim_feedforward": 64, "vocab_size": 13, "dropout": 0})");
  PhiloxStream draws(3, stream_hash("copies"));
  std::set<std::string> seen;
  for (const auto& [name, count] : {std::pair{"train.tsv", train}, {"dev.tsv", dev}}) {
    std::string text;
    for (int i = 0; i < count;) {
      std::string words;
      for (std::uint32_t n = kShortest + draws.below(kLengths); n > 0; --n)
        words += std::string(words.empty() ? "" : " ") + static_cast<char>('a' + draws.below(kWords));
      if (!seen.insert(words).second) continue;
      text += words + "\t" + words + "\n";
      ++i;
    }
    write_text(folder / name, text);
  }
}

/// What `gemel COMMAND` is told of them.
inline Words with_translations(const std::filesystem::path& folder, const Words& command, const Words& more = {}) {
  return joined(joined(command, {"--model", "transformer", "--config", (folder / "config.json").string(), "--vocab", (folder / "vocab.txt").string(),
                                 "--dataset", "translation", "--data", folder.string(), "--max-length", "8"}),
                more);
}

}  // namespace gemel::testing
