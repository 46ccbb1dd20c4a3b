// What a TensorBoard event file says, read by a decoder of its own for the few fields that an event has, and what TensorBoard shows of a folder of them.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/files/tensorboard.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {

struct LoggedEvent {
  double wall_time = 0;
  std::uint64_t step = 0;
  std::string file_version, tag;
  std::optional<float> value;
  std::optional<std::uint64_t> session_status;
};

class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}
  bool next() {
    if (bytes_.empty()) return false;
    const std::uint64_t key = varint();
    number = key >> 3;
    switch (key & 7) {
      case 0:
        integer = varint();
        break;
      case 1:
        text = take(8);
        break;
      case 2:
        text = take(varint());
        break;
      case 5:
        text = take(4);
        break;
      default:
        throw std::runtime_error("an unknown wire type");
    }
    return true;
  }
  template <class T>
  T fixed() const {
    T value{};
    std::memcpy(&value, text.data(), sizeof value);
    return value;
  }
  std::uint64_t number = 0, integer = 0;
  std::string_view text;

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view take(std::size_t n) {
    if (n > bytes_.size()) throw std::runtime_error("a field ends beyond its message");
    const std::string_view taken = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return taken;
  }
  std::string_view bytes_;
};

inline LoggedEvent decode(std::string_view bytes) {
  LoggedEvent event;
  for (Fields f(bytes); f.next();) {
    if (f.number == 1) event.wall_time = f.fixed<double>();
    if (f.number == 2) event.step = f.integer;
    if (f.number == 3) event.file_version = f.text;
    if (f.number == 7)
      for (Fields session(f.text); session.next();)
        if (session.number == 1) event.session_status = session.integer;
    if (f.number != 5) continue;
    for (Fields summary(f.text); summary.next();)
      for (Fields value(summary.text); value.next();) {
        if (value.number == 1) event.tag = value.text;
        if (value.number == 2) event.value = value.fixed<float>();
      }
  }
  return event;
}

inline std::vector<LoggedEvent> read_events(const std::filesystem::path& path) {
  const std::string file = read_text(path);
  std::string_view rest = file;
  const auto number = [&](std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, rest.data() + at, size);
    return value;
  };
  std::vector<LoggedEvent> events;
  while (!rest.empty()) {
    if (rest.size() < 16) throw std::runtime_error("a record is truncated");
    const std::uint64_t length = number(0, 8);
    EXPECT_EQ(number(8, 4), masked_crc32c(std::as_bytes(std::span(rest.substr(0, 8)))));
    const std::string_view data = rest.substr(12, length);
    EXPECT_EQ(number(12 + length, 4), masked_crc32c(std::as_bytes(std::span(data))));
    events.push_back(decode(data));
    rest.remove_prefix(16 + length);
  }
  return events;
}

/// [tag] its points in the order of the files' names and of the events in them, without those that the start of a session purges:
/// of its step and later ones. Source: tensorboard/backend/event_processing/event_accumulator.py, _Purge
inline std::map<std::string, std::vector<std::pair<std::uint64_t, float>>> points_shown(const std::filesystem::path& folder) {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().rfind("events.out.tfevents.", 0) == 0) files.insert(entry.path());
  std::map<std::string, std::vector<std::pair<std::uint64_t, float>>> out;
  for (const auto& file : files)
    for (const LoggedEvent& e : read_events(file)) {
      if (e.value) out[e.tag].emplace_back(e.step, *e.value);
      if (e.session_status != 1) continue;
      for (auto& [tag, points] : out) std::erase_if(points, [&](const auto& point) { return point.first >= e.step; });
    }
  return out;
}

}  // namespace gemel::testing
