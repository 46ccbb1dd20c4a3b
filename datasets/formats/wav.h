// WAV files: sound as it is stored most, uncompressed.
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

/// One channel of sound. Several in a file are mixed down: their mean.
struct Sound {
  std::int64_t sample_rate = 0;  // samples a second
  std::vector<float> samples;    // whole numbers of b bits over 2^(b - 1), so -1..1; floating ones as they are
};

/// Reads PCM of 8 (unsigned), 16, 24 or 32 bits, or floating point of 32 or 64, which is rounded, of any number of channels. Chunks may come in any order;
/// those of other kinds are skipped. Sound whose size was unknown when the file was written, into a pipe, goes on to its end. RF64 has sizes of 64 bits.
/// @param file           the whole file
/// @param name           the path that errors name
/// @param expected_rate  refused where the file has another
/// @throws DataError naming the file and what is wrong with it
Sound parse_wav(std::span<const std::byte> file, const std::string& name, std::optional<std::int64_t> expected_rate = {});
Sound read_wav(const std::filesystem::path& path, std::optional<std::int64_t> expected_rate = {});
/// Samples of each channel, as the file's chunks tell: the sound itself is not read. @throws DataError as read_wav, but for numbers that are not finite
std::int64_t count_samples(const std::filesystem::path& path, std::optional<std::int64_t> expected_rate = {});

}  // namespace gemel::datasets
