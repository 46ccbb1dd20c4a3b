#include "datasets/formats/wav.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/git_lfs.h"
#include "engine/base/files/steady_file.h"

namespace gemel::datasets {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kHeader = 12, kChunkHeader = 8;  // RIFF, size, WAVE; kind, size
constexpr int kPcm = 1, kFloat = 3, kExtensible = 0xFFFE;

[[noreturn]] void refuse(const std::string& name, const std::string& what) { throw DataError("wav: " + name + ": " + what); }

/// A little-endian number without sign of 2, 4 or 8 bytes.
template <class T>
T number(Bytes bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string_view text(Bytes bytes, std::size_t offset) { return {reinterpret_cast<const char*>(bytes.data()) + offset, 4}; }

/// Four bytes as an error shows them: letters as they are.
std::string shown(std::string_view kind) {
  std::string out;
  for (const char c : kind) out += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

/// A file of which pieces are read: one in memory, or one of which the sound is not wanted.
struct Source {
  std::size_t size;
  std::function<void(std::size_t offset, std::span<std::byte> out)> read;
};

template <std::size_t N>
std::array<std::byte, N> piece_of(const Source& file, std::size_t offset) {
  std::array<std::byte, N> out;
  file.read(offset, out);
  return out;
}

/// Of a file's bytes.
struct Range {
  std::size_t begin, size;
};

/// The two chunks that matter.
struct Chunks {
  std::optional<Range> format, data;
  bool data_to_the_end = false;  // nobody knew how much there would be
};

/// Whether a size stands for "unknown", as one does that is written before what it counts, into a pipe: 0xFFFFFFFF (ffmpeg), 0x7FFFF000 (sox, which adds its
/// header's bytes, and takes whole samples of all channels), 0x7FFFFFFF and 0x80000000 (arecord), or 0.
bool is_unknown(std::size_t size) {
  constexpr std::size_t kHalf = 0x80000000, kAll = 0xFFFFFFFF, kNear = 0x2000;  // 0x1000 is sox's, and a sample of all channels has up to that many bytes
  return size == 0 || (size >= kHalf - kNear && size <= kHalf + kNear) || size >= kAll - kNear;
}

/// Walks a file's chunks.
class Walk {
 public:
  Walk(const Source& file, const std::string& name) : file_(file), name_(name) {
    if (file.size < kHeader) refuse(name, fmt::format("no WAV file of {} bytes: it is too short; expected: RIFF, a size and WAVE", file.size));
    const auto header = piece_of<kHeader>(file, 0);
    is_long_ = text(header, 0) == "RF64" || text(header, 0) == "BW64";
    if ((text(header, 0) != "RIFF" && !is_long_) || text(header, 8) != "WAVE") {
      std::vector<std::byte> begin(std::min<std::size_t>(file.size, 512));
      file.read(0, begin);
      if (const std::string pointer = git_lfs_pointer(as_text(begin)); !pointer.empty()) refuse(name, pointer);
      refuse(name, fmt::format("no WAV file of {} bytes: it starts with {} and {}; expected: RIFF, a size and WAVE", file.size, shown(text(header, 0)),
                               shown(text(header, 8))));
    }
    const std::size_t size = number<std::uint32_t>(header, 4);
    is_piped_ = is_unknown(size);
    whole_ = is_piped_ ? file.size : std::size_t{8} + size;
    // Recorders count wrongly here, some bytes too many or too few; what is said of the sound itself tells whether it is whole.
    end_ = std::min(whole_, file.size);
  }
  Chunks chunks() {
    for (std::size_t at = kHeader; at < end_;) {
      if (end_ - at < kChunkHeader) {
        if (found_.format && found_.data) break;
        refuse(name_, fmt::format("{} bytes follow its last chunk; expected: none, or a chunk", end_ - at));
      }
      const auto begin = piece_of<kChunkHeader>(file_, at);
      at += kChunkHeader;
      const std::size_t size = take(std::string(text(begin, 0)), at, number<std::uint32_t>(begin, 4));
      if (found_.data_to_the_end) break;
      at += size + size % 2;  // chunks begin at even bytes
    }
    return found_;
  }

 private:
  /// @return its size
  std::size_t take(const std::string& kind, std::size_t at, std::size_t size) {
    const bool is_data = kind == "data";
    if (is_data && is_long_ && size == kLong && long_data_ != 0 && long_data_ != kUnknownLong) {
      size = long_data_;
    } else if (is_data && found_.format && is_open(at, size)) {
      found_.data_to_the_end = true;
      end_ = file_.size;
      size = end_ - at;
    }
    if (size > end_ - at) {
      if (found_.format && found_.data) return end_ - at;  // what follows the sound is broken, and nothing of it
      if (whole_ > file_.size) refuse(name_, fmt::format("the file is truncated: it has {} bytes; expected: {}", file_.size, std::max(whole_, at + size)));
      refuse(name_, fmt::format("its chunk '{}' at byte {} has {} bytes; accepted: the {} that are left", shown(kind), at - kChunkHeader, size, end_ - at));
    }
    if (kind == "ds64" && is_long_ && size >= 16) long_data_ = number<std::uint64_t>(piece_of<8>(file_, at + 8), 0);
    if (is_data || kind == "fmt ") {
      std::optional<Range>& chunk = is_data ? found_.data : found_.format;
      if (chunk) refuse(name_, fmt::format("its chunk '{}' stands twice", kind));
      chunk = Range{at, size};
    }
    return size;
  }
  /// Whether sound goes on to the end of the file, whatever its size says: that is unknown and, where it is 0, the file's size is too, or counts none.
  bool is_open(std::size_t at, std::size_t size) const {
    if (!is_unknown(size)) return false;
    return size == 0 ? is_piped_ || whole_ <= at : size > end_ - at;
  }

  const Source& file_;
  const std::string& name_;
  static constexpr std::size_t kLong = 0xFFFFFFFF, kUnknownLong = ~std::size_t{0};
  bool is_long_ = false;       // sizes of 64 bits stand in a chunk of their own
  std::size_t long_data_ = 0;  // that it gives
  bool is_piped_ = false;      // the file's size is unknown
  std::size_t whole_ = 0;      // what the file should have
  std::size_t end_ = 0;        // of the chunks
  Chunks found_;
};

struct Format {
  int encoding, channels, bits;
  std::int64_t sample_rate;
};

Format format_of(const Source& file, const Range& range, const std::string& name) {
  constexpr std::size_t kShort = 16, kLong = 40;  // bytes of a plain one, and of one that says more
  std::vector<std::byte> chunk(std::min(range.size, kLong));
  file.read(range.begin, chunk);
  if (chunk.size() < kShort) refuse(name, fmt::format("its chunk 'fmt ' has {} bytes; expected: {} or more", chunk.size(), kShort));
  Format f{number<std::uint16_t>(chunk, 0), number<std::uint16_t>(chunk, 2), number<std::uint16_t>(chunk, 14), number<std::uint32_t>(chunk, 4)};
  const int block = number<std::uint16_t>(chunk, 12);
  if (f.encoding == kExtensible) {
    if (chunk.size() < kLong) refuse(name, fmt::format("its chunk 'fmt ' has {} bytes; expected: {} or more for an extensible format", chunk.size(), kLong));
    f.encoding = number<std::uint16_t>(chunk, 24);  // the first two bytes of what identifies it
  }
  const bool known = f.encoding == kFloat ? f.bits == 32 || f.bits == 64 : f.encoding == kPcm && (f.bits == 8 || f.bits == 16 || f.bits == 24 || f.bits == 32);
  if (!known)
    refuse(name, fmt::format("its format is {} with {} bits a sample; accepted: 1 (PCM) with 8, 16, 24 or 32, and 3 (floating point) with 32 or 64", f.encoding,
                             f.bits));
  if (f.channels == 0 || f.sample_rate == 0)
    refuse(name, fmt::format("it has {} channels and {} samples a second; accepted: 1 or more of each", f.channels, f.sample_rate));
  if (block != f.channels * f.bits / 8)
    refuse(name, fmt::format("{} bytes hold a sample of its {} channels of {} bits; expected: {}", block, f.channels, f.bits, f.channels * f.bits / 8));
  return f;
}

/// Sample i of all channels.
float sample_at(Bytes data, const Format& f, std::size_t i) {
  const std::byte* from = data.data() + i * static_cast<std::size_t>(f.bits / 8);
  if (f.encoding == kFloat && f.bits == 64) {
    double value;
    std::memcpy(&value, from, sizeof value);
    return static_cast<float>(value);
  }
  if (f.encoding == kFloat) {
    float value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  if (f.bits == 8) return static_cast<float>(static_cast<int>(*from) - 128) / 128.0f;
  std::uint32_t word = 0;  // in its highest bytes, so that the sign is the number's
  std::memcpy(reinterpret_cast<std::byte*>(&word) + (4 - f.bits / 8), from, static_cast<std::size_t>(f.bits / 8));
  return static_cast<float>(static_cast<std::int32_t>(word)) * 0x1p-31f;
}

/// What a file holds.
struct Recording {
  Format format;
  Range data;
  std::size_t count;  // samples of each channel
};

Recording recording_of(const Source& file, const std::string& name, std::optional<std::int64_t> expected_rate) {
  Chunks chunks = Walk(file, name).chunks();
  if (!chunks.format || !chunks.data)
    refuse(name, fmt::format("it has no chunk '{}'; expected: one of 'fmt ' and one of 'data'", chunks.format ? "data" : "fmt "));
  const Format f = format_of(file, *chunks.format, name);
  if (expected_rate && *expected_rate != f.sample_rate) refuse(name, fmt::format("it has {} samples a second; expected: {}", f.sample_rate, *expected_rate));
  const std::size_t block = static_cast<std::size_t>(f.channels) * static_cast<std::size_t>(f.bits / 8);
  if (chunks.data_to_the_end) chunks.data->size -= chunks.data->size % block;  // a pipe that was closed may end within a sample
  if (chunks.data->size % block != 0)
    refuse(name, fmt::format("it has {} bytes of sound; accepted: a multiple of {}, of {} channels of {} bits", chunks.data->size, block, f.channels, f.bits));
  return {f, *chunks.data, chunks.data->size / block};
}

}  // namespace

Sound parse_wav(std::span<const std::byte> file, const std::string& name, std::optional<std::int64_t> expected_rate) {
  const auto read = [file](std::size_t offset, std::span<std::byte> out) { std::ranges::copy(file.subspan(offset, out.size()), out.begin()); };
  const Recording r = recording_of({file.size(), read}, name, expected_rate);
  const Bytes data = file.subspan(r.data.begin, r.data.size);
  const auto channels = static_cast<std::size_t>(r.format.channels);
  Sound out{r.format.sample_rate, std::vector<float>(r.count)};
  for (std::size_t i = 0; i < r.count; ++i) {
    float sum = 0;
    for (std::size_t c = 0; c < channels; ++c) sum += sample_at(data, r.format, i * channels + c);
    if (!std::isfinite(sum)) refuse(name, fmt::format("sample {} (from 0) is {}; accepted: finite numbers", i, sum));
    out.samples[i] = channels == 1 ? sum : sum / static_cast<float>(channels);
  }
  return out;
}

Sound read_wav(const std::filesystem::path& path, std::optional<std::int64_t> expected_rate) {
  return parse_wav(read_whole(path), path.string(), expected_rate);
}

std::int64_t count_samples(const std::filesystem::path& path, std::optional<std::int64_t> expected_rate) {
  const SteadyFile file(path);
  const auto read = [&file](std::size_t offset, std::span<std::byte> out) { file.read(static_cast<std::int64_t>(offset), out); };
  return static_cast<std::int64_t>(recording_of({static_cast<std::size_t>(file.bytes()), read}, path.string(), expected_rate).count);
}

}  // namespace gemel::datasets
