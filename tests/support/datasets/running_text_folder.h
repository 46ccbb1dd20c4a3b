// A small running text of a test's own: one sentence over and over, byte pairs, and a configuration of a GPT-2 that learns it in seconds.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/program/command_line_words.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {

inline constexpr std::string_view kSentence = "The sea is calm – naïve ships sail on, and the wind goes with them.";

/// Writes train.txt, dev.txt, vocab.json, merges.txt and config.json.
inline void write_running_text(const std::filesystem::path& folder, int sentences = 60) {
  std::string text;
  for (int i = 0; i < sentences; ++i) text += std::string(kSentence) + "<|endoftext|>";
  write_text(folder / "train.txt", text);
  write_text(folder / "dev.txt", text.substr(0, 3 * text.size() / static_cast<std::size_t>(sentences)));
  write_text(folder / "config.json", R"({"n_embd": 48, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": 1500, "initializer_range": 0.1})");
  for (const char* file : {"vocab.json", "merges.txt"})
    std::filesystem::copy(std::filesystem::path(GEMEL_SOURCE_DIR) / "tests/data/tokenizers" / file, folder / file);
}

/// What `gemel COMMAND` is told of it.
inline Words with_running_text(const std::filesystem::path& folder, const std::string& command, const Words& more = {}) {
  return joined({command, "--model", "gpt2", "--config", (folder / "config.json").string(), "--dataset", "text", "--data", folder.string(), "--vocab",
                 folder.string(), "--max-length", "32"},
                more);
}

}  // namespace gemel::testing
