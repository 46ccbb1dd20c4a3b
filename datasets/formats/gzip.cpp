#include "datasets/formats/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/files/steady_file.h"

namespace gemel::datasets {

struct GzipReader::State {
  SteadyFile file;
  std::vector<std::byte> part;  // that zlib reads
  std::int64_t limit, produced = 0, given = 0;
  z_stream stream{};
  bool ended = false;

  State(const std::filesystem::path& path, std::int64_t most) : file(path), part(std::size_t{1} << 20), limit(most) {
    constexpr std::array<std::byte, 2> kBegin{std::byte{0x1f}, std::byte{0x8b}};
    std::array<std::byte, 2> begin{};
    if (file.bytes() >= std::ssize(begin)) file.read(0, begin);
    if (begin != kBegin) throw DataError(fmt::format("gzip: {}: no gzip file of {} bytes: it does not start with 1f 8b", path.string(), file.bytes()));
    if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) throw DataError("gzip: not enough memory to inflate");
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { inflateEnd(&stream); }

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("gzip: {}: {} after {} bytes of output", file.path().string(), what, produced));
  }
  void refill() {
    const std::int64_t bytes = std::min(file.bytes() - given, std::ssize(part));
    file.read(given, std::span(part).first(static_cast<std::size_t>(bytes)));
    stream.next_in = reinterpret_cast<Bytef*>(part.data());
    stream.avail_in = static_cast<uInt>(bytes);
    given += bytes;
  }
};

GzipReader::GzipReader(const std::filesystem::path& path, std::int64_t limit) : state_(std::make_unique<State>(path, limit)) {}
GzipReader::~GzipReader() = default;
GzipReader::GzipReader(GzipReader&&) noexcept = default;

const std::filesystem::path& GzipReader::path() const { return state_->file.path(); }

std::size_t GzipReader::read(std::span<std::byte> out) {
  State& s = *state_;
  std::size_t filled = 0;
  while (filled < out.size() && !s.ended) {
    if (s.stream.avail_in == 0) s.refill();
    const auto room = static_cast<uInt>(std::min<std::size_t>(out.size() - filled, std::size_t{1} << 30));
    s.stream.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    s.stream.avail_out = room;
    const int status = inflate(&s.stream, Z_NO_FLUSH);
    const std::size_t done = room - s.stream.avail_out;
    filled += done;
    s.produced += static_cast<std::int64_t>(done);
    if (s.produced > s.limit) s.fail(fmt::format("the file inflates to more than {} bytes; refused", s.limit));
    if (status == Z_BUF_ERROR) s.fail(fmt::format("the file is truncated: it ends at its byte {}", s.given));
    if (status == Z_STREAM_END) {
      if (s.stream.avail_in != 0 || s.given != s.file.bytes()) s.fail("bytes follow the end of the gzip stream");
      s.ended = true;
    } else if (status != Z_OK) {
      s.fail(fmt::format("the file is corrupt ({})", s.stream.msg ? s.stream.msg : "zlib gives no reason"));
    }
  }
  return filled;
}

}  // namespace gemel::datasets
