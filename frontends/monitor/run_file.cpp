#include "frontends/monitor/run_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "engine/base/error.h"
#include "engine/base/files/descriptor.h"
#include "engine/base/files/file.h"
#include "engine/base/hash.h"

namespace gemel::monitor {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestLine = 16 << 20;  // a first line with a spec takes some KiB
constexpr std::size_t kMostText = 64 << 10;     // of a first line that is kept
constexpr std::uint64_t kSample = 512;          // bytes at either end that tell files apart

/// Fewer bytes where the file ends. @throws DataError
std::size_t read_record(int descriptor, std::uint64_t offset, std::span<char> to) {
  const std::int64_t got = read_at(descriptor, offset, std::as_writable_bytes(to));
  if (got < 0) throw DataError("monitor: cannot read a run's record: " + system_message(errno));
  return static_cast<std::size_t>(got);
}

std::uint64_t hash_at(int descriptor, std::uint64_t offset, std::uint64_t count) {
  char bytes[kSample];
  return hash_of(std::string_view(bytes, read_record(descriptor, offset, std::span(bytes).first(count))));
}

void sample(int descriptor, ReadSoFar& so_far) {
  const std::uint64_t count = std::min(so_far.bytes, kSample);
  so_far.head = hash_at(descriptor, 0, count);
  so_far.tail = hash_at(descriptor, so_far.bytes - count, count);
}

/// "resumed from c/checkpoint-40.safetensors; lost rank 1 on b: no sign of life"
std::string words_of(const Json& start) {
  std::string out;
  if (start.contains("resumed_from")) out = "resumed from " + (start["resumed_from"].is_string() ? start["resumed_from"].get<std::string>() : "a checkpoint");
  if (start.contains("lost")) {
    const Json& lost = start["lost"];
    const auto said = [&](const char* key) {
      const Json value = lost.is_object() ? lost.value(key, Json()) : Json();
      return value.is_string() ? value.get<std::string>() : value.is_number_integer() ? std::to_string(value.get<std::int64_t>()) : "?";
    };
    out += out.empty() ? "" : "; ";
    out += lost.is_string() ? "lost " + lost.get<std::string>() : fmt::format("lost rank {} on {}: {}", said("rank"), said("host"), said("why"));
  }
  return out.empty() ? "started again" : out;
}

/// How deep arrays and objects are nested; brackets in texts count too, so that it may be less.
std::size_t nesting(std::string_view json) {
  std::size_t now = 0, most = 0;
  for (const char c : json) {
    if (c == '[' || c == '{') most = std::max(most, ++now);
    if ((c == ']' || c == '}') && now > 0) --now;
  }
  return most;
}
constexpr std::size_t kMostNesting = 100;  // what writes JSON calls itself for each

/// Null where there are too many.
RunTable* table_of(Run& run, std::string_view event, int rank) {
  for (RunTable& t : run.tables)
    if (t.rank == rank && t.event == event) return &t;
  if (run.tables.size() >= RunFile::kMostTables) return nullptr;
  RunTable made;
  made.event = event;
  made.rank = rank;
  return &run.tables.emplace_back(std::move(made));
}

}  // namespace

std::string_view cut(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;  // a character goes on there
  return text.substr(0, most);
}

bool goes_on(int descriptor, const ReadSoFar& so_far) {
  struct stat now {};
  if (::fstat(descriptor, &now) != 0) throw DataError("monitor: cannot examine a run's record: " + system_message(errno));
  if (now.st_dev != so_far.device || now.st_ino != so_far.inode || static_cast<std::uint64_t>(now.st_size) < so_far.bytes) return false;
  ReadSoFar again = so_far;
  sample(descriptor, again);
  return again.head == so_far.head && again.tail == so_far.tail;
}

void RunFile::restore(std::vector<Run> runs, const ReadSoFar& so_far) {
  runs_ = std::move(runs);
  so_far_ = so_far;
}

bool RunFile::read_some(int descriptor, std::size_t most) {
  if (!has_rows_) throw InternalError("monitor: a record is read on without its rows");
  if (!goes_on(descriptor, so_far_)) {
    runs_.clear();
    struct stat now {};
    if (::fstat(descriptor, &now) != 0) throw DataError("monitor: cannot examine a run's record: " + system_message(errno));
    so_far_ = ReadSoFar{.device = now.st_dev, .inode = now.st_ino};
  }
  std::size_t got = 0, whole = 0;
  for (std::size_t want = most;; want *= 2) {
    buffer_.resize(want);
    got = read_record(descriptor, so_far_.bytes, buffer_);
    whole = std::string_view(buffer_.data(), got).rfind('\n') + 1;  // 0 where there is none
    if (whole > 0 || got < want || want >= kLongestLine) break;
  }
  const bool has_more = got == buffer_.size();
  if (whole == 0 && has_more) {  // no record is so long: what it is is left out, up to its end
    so_far_.bytes += got;
    so_far_.passes_line = true;
    sample(descriptor, so_far_);
    return true;
  }
  std::string_view lines(buffer_.data(), whole);
  while (!lines.empty()) {
    const auto end = lines.find('\n');
    if (!std::exchange(so_far_.passes_line, false)) take(lines.substr(0, end));
    lines.remove_prefix(end + 1);
  }
  so_far_.bytes += whole;
  if (whole > 0) {
    sample(descriptor, so_far_);
    settle();
  }
  if (buffer_.size() > most || !has_more) std::string().swap(buffer_);
  return has_more;
}

Run& RunFile::run() {
  if (runs_.empty()) runs_.emplace_back();
  return runs_.back();
}

void RunFile::take(std::string_view line) {
  if (line.empty() || !scan(line, line_)) return;
  const std::string_view event = line_.event;
  if (event == "step") {
    Run& r = run();
    r.last_step = line_.number("step", r.last_step);
    return row(r, event, "step");
  }
  if (event == "usage") return row(run(), event, "seconds");
  if (event == "epoch") return row(run(), event, "epoch");
  if (event == "start") return start(line);
  Run& r = run();
  if (event == "end") {
    const Json end = Json::parse(line, nullptr, false);
    r.status = end.is_object() && end.contains("status") && end["status"].is_string() ? end["status"].get<std::string>().substr(0, 40) : "ended";
    r.seconds = line_.number("seconds", 0);
  } else if (event == "eval") {
    for (const auto& [name, value] : line_.numbers)
      if (r.results.size() < Table::kMostColumns) r.results[std::string(cut(name, kMostNameBytes))] = value;
  } else if (!event.empty() && event != "bench" && r.marks.size() < kMostMarks) {
    const double rank = line_.number("rank", -1);
    const std::string_view what = cut(event, kMostMarkBytes);
    r.marks.push_back({line_.number("step", r.last_step), rank < 0 ? std::string(what) : fmt::format("{} (rank {})", what, rank)});
  }
}

void RunFile::start(std::string_view line) {
  const Json start = Json::parse(line, nullptr, false);
  if (!start.is_object()) return;
  const bool is_same_run = start.contains("resumed_from") || line_.number("restart", 0) > 0;
  if (!runs_.empty() && is_same_run) {
    Run& r = runs_.back();
    if (r.marks.size() < kMostMarks) r.marks.push_back({r.last_step, std::string(cut(words_of(start), kMostMarkBytes))});
    r.status.clear();
    r.has_gone_on = true;
  } else if (runs_.size() < kMostRuns) {
    if (runs_.size() == 1 && runs_[0].tables.empty() && runs_[0].start.empty()) runs_.clear();
    runs_.emplace_back();
  }
  runs_.back().start = line.size() <= kMostText && nesting(line) <= kMostNesting ? std::string(line) : std::string();
}

void RunFile::row(Run& r, std::string_view event, std::string_view x_name) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  double x = line_.number(x_name, none);
  const bool is_usage = event == "usage";
  const double rank = is_usage ? line_.number("rank", 0) : -1;
  if (!(x >= 0 && x <= 1e12) || !(rank >= -1 && rank < 1e6)) return;
  if (is_usage) {
    if (std::exchange(r.has_gone_on, false)) r.used_before_s = x < r.used_s ? r.used_s : 0;
    x += r.used_before_s;
    r.used_s = std::max(r.used_s, x);
  }
  RunTable* const of_rank = table_of(r, event, static_cast<int>(rank));
  if (!of_rank) return;
  Table& table = of_rank->table;
  table.add_row(x);
  const bool is_step = event == "step";
  for (const auto& [name, value] : line_.numbers)
    if (name != x_name && !(is_usage && name == "rank") && !(is_step && name == "epoch")) table.set(cut(name, kMostNameBytes), value);
  if (const double ms = is_step ? line_.number("ms", none) : none; ms >= 0) table.set("seconds", r.trained_s += ms / 1000);
}

void RunFile::settle() {
  for (Run& r : runs_)
    for (RunTable& t : r.tables) {
      t.table.settle();
      const auto xs = t.table.xs();
      if (xs.empty() || (xs.size() == t.rows && xs.back() == t.last && &r != &runs_.back())) continue;
      t.rows = xs.size();
      t.first = xs.front();
      t.last = xs.back();
      t.columns.resize(t.table.columns().size());
      for (std::size_t i = 0; i < t.columns.size(); ++i) {
        t.columns[i].name = t.table.columns()[i].name;
        t.columns[i].last = t.table.columns()[i].values.back();
      }
    }
}

std::size_t RunFile::row_bytes() const {
  std::size_t out = 0;
  for (const Run& r : runs_)
    for (const RunTable& t : r.tables) out += t.table.xs().size() * (sizeof(double) + t.table.columns().size() * sizeof(float));
  return out;
}

}  // namespace gemel::monitor
