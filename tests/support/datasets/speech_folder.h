// Speech of a test's own: words that are tones, which a small model learns in seconds.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <numbers>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/philox.h"
#include "tests/support/formats/wav_bytes.h"
#include "tests/support/program/command_line_words.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {

struct Tone {
  std::string_view word;
  double hertz;
};
inline constexpr std::array<Tone, 3> kTones{{{"low", 400}, {"mid", 1200}, {"high", 3000}}};

/// 16-bit samples of words one behind the other: each a tone of 240 to 320 ms, and a gap of 80 ms.
inline std::vector<std::int64_t> spoken(const std::vector<std::uint32_t>& words, PhiloxStream& draws, int rate = 16000) {
  std::vector<std::int64_t> out;
  for (const std::uint32_t word : words) {
    const int tone = rate * static_cast<int>(240 + draws.below(81)) / 1000, gap = rate * 80 / 1000;
    for (int i = 0; i < tone + gap; ++i) {
      const double sound = i < tone ? 8000 * std::sin(2 * std::numbers::pi * kTones[word].hertz * i / rate) : 0;
      out.push_back(static_cast<std::int64_t>(sound) + draws.below(400) - 200);
    }
  }
  return out;
}

inline std::string wav_of(const std::vector<std::int64_t>& samples, int rate = 16000) {
  return riff(format({.rate = rate}) + chunk("data", whole(samples, 2)));
}

/// Writes train.tsv, dev.tsv, their WAV files of one to three words each, and a config.json of a model that learns them.
inline void write_speech(const std::filesystem::path& folder, int train = 96, int dev = 16) {
  write_text(folder / "config.json", R"({"model_type": "speech", "bands": 20, "stride": 4, "channels": 24, "hidden_size": 24, "num_layers": 1, "dropout": 0})");
  PhiloxStream draws(11, stream_hash("speech"));
  for (const auto& [split, count] : {std::pair{std::string("train"), train}, {std::string("dev"), dev}}) {
    std::filesystem::create_directories(folder / split);
    std::string lines;
    for (int i = 0; i < count; ++i) {
      std::vector<std::uint32_t> words(1 + draws.below(3));
      std::string text;
      for (std::uint32_t& word : words) {
        word = draws.below(kTones.size());
        text += (text.empty() ? "" : " ") + std::string(kTones[word].word);
      }
      const std::string name = split + "/" + std::to_string(i) + ".wav";
      write_text(folder / name, wav_of(spoken(words, draws)));
      lines += name + "\t" + text + "\n";
    }
    write_text(folder / (split + ".tsv"), lines);
  }
}

/// What `gemel COMMAND` is told of them.
inline Words with_speech(const std::filesystem::path& folder, const Words& command, const Words& more = {}) {
  return joined(joined(command, {"--model", "speech", "--config", (folder / "config.json").string(), "--dataset", "speech", "--data", folder.string()}), more);
}

}  // namespace gemel::testing
