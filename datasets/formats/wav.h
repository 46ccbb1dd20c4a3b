// Reads WAV files.
// Source: Microsoft and IBM, Multimedia programming interface and data specifications 1.0, 1991; Microsoft, Multiple channel audio data, 2007; EBU Tech 3306,
// RF64, 2009.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gemel::datasets {

/// One channel of sound. The channels of a file are averaged.
struct Sound {
  std::int64_t sample_rate = 0;  // samples a second
  std::vector<float> samples;    // integers of b bits are divided by 2^(b - 1), hence -1..1; floating-point samples are unchanged
};

/// Parses PCM of 8 (unsigned), 16, 24 or 32 bits, or floating point of 32 or 64 bits (rounded to 32), with any number of channels. Chunks may come in any
/// order; unknown ones are skipped. Where the size of the data is unknown, as in files written to a pipe, they extend to the end of the file. RF64 is accepted.
/// @param file           contents of the whole file
/// @param name           path for error messages
/// @param expected_rate  sample rate that the file must have
/// @throws DataError if the file is invalid, names the file and the fault
Sound parse_wav(std::span<const std::byte> file, const std::string& name, std::optional<std::int64_t> expected_rate = {});
/// Reads and parses a file, as parse_wav.
Sound read_wav(const std::filesystem::path& path, std::optional<std::int64_t> expected_rate = {});
/// Returns the number of samples of each channel, from the chunks' headers alone; the sound is not read.
/// @throws DataError as read_wav, except for samples that are not finite
std::int64_t count_samples(const std::filesystem::path& path, std::optional<std::int64_t> expected_rate = {});

}  // namespace gemel::datasets
