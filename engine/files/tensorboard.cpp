#include "engine/files/tensorboard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/files/file.h"

namespace gemel {
namespace {

constexpr std::array<std::uint32_t, 256> crc32c_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82F63B78u : 0u);
    table[i] = value;
  }
  return table;
}

// Protocol buffers: a field is (number << 3 | wire type), then its value.
enum class Wire : std::uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void put_tag(std::string& out, std::uint32_t field, Wire wire) { put_varint(out, field << 3 | static_cast<std::uint32_t>(wire)); }
template <class T>
void put_fixed(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little, "records are little-endian");
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  out.append(raw, sizeof(T));
}
void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_tag(out, field, Wire::bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

/// The fields that every event begins with: wall_time = 1 in seconds, step = 2.
std::string event_at(std::int64_t step) {
  std::string event;
  put_tag(event, 1, Wire::fixed64);
  put_fixed(event, std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  put_tag(event, 2, Wire::varint);
  put_varint(event, static_cast<std::uint64_t>(step));
  return event;
}

constexpr std::string_view kName = "events.out.tfevents.";

/// Seconds that begin the name of a new file: TensorBoard reads a folder's files in the order of their names, and another run of this second, or of
/// a machine whose clock is ahead, may have written there.
std::int64_t seconds_behind_all(const std::filesystem::path& folder) {
  std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator(folder, error); !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::int64_t other = 0;
    if (!name.starts_with(kName)) continue;
    const auto [rest, wrong] = std::from_chars(name.data() + kName.size(), name.data() + name.size(), other);
    constexpr std::int64_t kMost = 9'999'999'998;  // of ten digits
    if (wrong == std::errc() && *rest == '.' && other <= kMost) seconds = std::max(seconds, other + 1);
  }
  return seconds;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

std::uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  static constexpr auto kTable = crc32c_table();
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const std::byte b : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint32_t>(b)) & 0xFFu];
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw DataError(fmt::format("tensorboard: cannot create the folder {}: {}", folder.string(), error.message()));
  const std::string stem = fmt::format("{}{:010}.{}.{}", kName, seconds_behind_all(folder), host_name(), ::getpid());
  // Several threads may open a writer at once.
  for (int attempt = 0; !file_; ++attempt) {
    std::filesystem::path path = folder / fmt::format("{}.{}", stem, attempt);
    Descriptor opened(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    if (opened.get() < 0 && errno != EEXIST) throw DataError(fmt::format("tensorboard: cannot create {}: {}", path.string(), system_message(errno)));
    if (opened.get() >= 0) file_.emplace(std::move(opened), std::move(path));
  }
  std::string event = event_at(0);
  put_bytes(event, 3, "brain.Event:2");
  write_record(event);
}

void TensorBoardWriter::scalar(std::string_view tag, float value, std::int64_t step) {
  std::string point;
  put_bytes(point, 1, tag);
  put_tag(point, 2, Wire::fixed32);
  put_fixed(point, value);
  std::string summary;
  put_bytes(summary, 1, point);
  std::string event = event_at(step);
  put_bytes(event, 5, summary);
  write_record(event);
}

void TensorBoardWriter::begin_at(std::int64_t step) {
  constexpr std::uint64_t kStart = 1;  // of SessionLog.SessionStatus
  std::string session;
  put_tag(session, 1, Wire::varint);
  put_varint(session, kStart);
  std::string event = event_at(step);
  put_bytes(event, 7, session);
  write_record(event);
}

void TensorBoardWriter::write_record(std::string_view event) {
  std::string record;
  put_fixed(record, std::uint64_t{event.size()});
  put_fixed(record, masked_crc32c(std::as_bytes(std::span(record))));
  record += event;
  put_fixed(record, masked_crc32c(std::as_bytes(std::span(event))));
  file_->append(record);
}

}  // namespace gemel
