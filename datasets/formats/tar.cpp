#include "datasets/formats/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/git_lfs.h"
#include "engine/base/numbers.h"

namespace gemel::datasets {
namespace {

/// Names and attributes of a member; the longest path that Linux accepts has 4 096 bytes.
constexpr std::int64_t kMaxText = 65536;
constexpr std::int64_t kMaxMember = std::int64_t{1} << 40;

using Block = std::span<const std::byte>;

/// A field of the header, up to its first NUL.
std::string_view field(Block block, std::size_t offset, std::size_t size) {
  const std::string_view whole(reinterpret_cast<const char*>(block.data()) + offset, size);
  return whole.substr(0, whole.find('\0'));
}

/// An octal number between spaces, or nothing.
std::optional<std::int64_t> octal(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find(' '));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// The sum of the header's bytes, its own field counted as spaces.
std::int64_t checksum(Block block) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<std::int64_t>(block[i]);
  return sum;
}

/// What comes before a header to replace fields that are too short for it.
struct Overrides {
  std::optional<std::string> name;
  std::optional<std::int64_t> bytes;
};

/// Takes over the attributes of the pax format, records "LENGTH key=value\n"; false where they are malformed.
bool take_pax(std::string_view records, Overrides& overrides) {
  while (!records.empty()) {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(end - records.data());
    if (error != std::errc() || length > records.size() || length < digits + 3 || records[digits] != ' ' || records[length - 1] != '\n') return false;
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    records.remove_prefix(length);
    if (record.starts_with("path=")) overrides.name = record.substr(5);
    if (record.starts_with("size=")) {
      std::int64_t value = 0;
      const auto [last, wrong] = std::from_chars(record.data() + 5, record.data() + record.size(), value);
      if (wrong != std::errc() || last != record.data() + record.size() || value < 0) return false;
      overrides.bytes = value;
    }
  }
  return true;
}

/// Headers of these types describe the member that follows, and their data are text.
bool describes_next(char type) { return type == 'L' || type == 'K' || type == 'x' || type == 'g'; }

}  // namespace

TarReader::TarReader(const std::filesystem::path& path, std::int64_t limit) : path_(path), source_(opened(path, limit)) {}

std::variant<GzipReader, TarReader::Plain> TarReader::opened(const std::filesystem::path& path, std::int64_t limit) {
  SteadyFile file(path);
  if (file.bytes() == 0) throw DataError(fmt::format("tar: {}: no archive of 0 bytes", path.string()));
  std::byte first{};
  file.read(0, {&first, 1});
  if (first == std::byte{0x1f}) return GzipReader(path, limit);
  return Plain{std::move(file)};
}

std::size_t TarReader::Plain::read(std::span<std::byte> out) {
  const std::size_t count = std::min(out.size(), at(file.bytes() - given));
  file.read(given, out.first(count));
  given += static_cast<std::int64_t>(count);
  return count;
}

std::size_t TarReader::read_some(std::span<std::byte> out) {
  return std::visit([&](auto& source) { return source.read(out); }, source_);
}

void TarReader::fail(const std::string& what) const { throw DataError(fmt::format("tar: {}: {}", path_.string(), what)); }

void TarReader::read_exactly(std::span<std::byte> out, const std::string& what) {
  const std::size_t done = read_some(out);
  if (done != out.size()) fail(fmt::format("the archive ends inside {}: {} bytes were found; expected: {}", what, done, out.size()));
}

void TarReader::read(std::span<std::byte> out) {
  if (static_cast<std::int64_t>(out.size()) != unread_) throw InternalError("tar: a member is read as a whole, exactly once");
  read_exactly(out, member_);
  unread_ = 0;
}

void TarReader::skip() {
  std::array<std::byte, 16384> scratch;
  for (std::int64_t left = unread_ + padding_; left > 0;) {
    const std::size_t part = std::min<std::size_t>(at(left), scratch.size());
    read_exactly(std::span(scratch).first(part), member_);
    left -= static_cast<std::int64_t>(part);
  }
  unread_ = padding_ = 0;
}

std::string TarReader::read_text() {
  if (unread_ > kMaxText) fail(fmt::format("a name takes {} bytes; accepted: up to {}", unread_, kMaxText));
  std::string text(at(unread_), '\0');
  read(std::as_writable_bytes(std::span(text)));
  return text;
}

bool TarReader::read_header(std::span<std::byte, kBlock> block) {
  const std::size_t found = read_some(block);
  const bool zeros = std::ranges::all_of(block, [](std::byte b) { return b == std::byte{0}; });
  if (found == 0 || (found == block.size() && zeros)) {
    // Padding follows; reading it lets the source verify its checksum.
    std::array<std::byte, 16384> rest;
    while (read_some(rest) == rest.size()) continue;
    return false;
  }
  const bool is_whole = found == block.size();
  const auto sum = is_whole ? octal(field(block, 148, 8)) : std::nullopt;
  const bool is_header = sum && *sum == checksum(block), is_first = member_ == kNoMember;
  if (!is_header && is_first && std::holds_alternative<Plain>(source_)) {
    const std::string pointer = git_lfs_pointer(as_text(std::span(block).first(found)));
    fail(pointer.empty() ? "no tar archive, nor one compressed by gzip" : pointer);
  }
  if (!is_whole) fail(fmt::format("the archive ends inside a header, after {} of 512 bytes", found));
  if (!is_header) fail(fmt::format("the checksum of the header after {} is wrong", member_));
  return true;
}

void TarReader::begin_member(const std::string& name, std::int64_t bytes) {
  if (bytes > kMaxMember) fail(fmt::format("{} is given as {} bytes; accepted: up to {}", name, bytes, kMaxMember));
  member_ = name;
  unread_ = bytes;
  padding_ = round_up(bytes, kBlock) - bytes;
}

std::optional<TarMember> TarReader::next() {
  Overrides overrides;
  for (;;) {
    skip();
    std::array<std::byte, kBlock> block;
    if (!read_header(block)) return std::nullopt;
    const auto size = octal(field(block, 124, 12));
    if (!size) fail(fmt::format("the size in the header after {} is no octal number", member_));
    std::string name(field(block, 0, 100));
    const std::string_view prefix = field(block, 345, 155);
    if (std::memcmp(block.data() + 257, "ustar", 6) == 0 && !prefix.empty()) name = fmt::format("{}/{}", prefix, name);
    const char type = static_cast<char>(block[156]);
    if (!describes_next(type)) {
      // Links, devices and folders may give a size, but no data follow.
      const bool has_data = type < '1' || type > '6';
      begin_member(overrides.name.value_or(name), has_data ? overrides.bytes.value_or(*size) : 0);
      return TarMember{member_, unread_, type == '0' || type == '\0' || type == '7'};
    }
    begin_member(name, *size);
    const std::string text = read_text();
    if (type == 'L') overrides.name = text.substr(0, text.find('\0'));
    if (type == 'x' && !take_pax(text, overrides)) fail(fmt::format("the attributes in {} are malformed", name));
  }
}

}  // namespace gemel::datasets
