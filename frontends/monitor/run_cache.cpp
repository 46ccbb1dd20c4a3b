#include "frontends/monitor/run_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "engine/base/error.h"
#include "engine/base/files/descriptor.h"
#include "engine/base/files/file.h"
#include "engine/base/hash.h"

namespace gemel::monitor {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A file: the head, the facts as JSON, the columns. Offsets count from the end of the facts.
struct Head {
  char magic[8] = {'g', 'e', 'm', 'e', 'l', 'r', 'u', 'n'};
  std::uint64_t version = 1;
  std::uint64_t facts_bytes = 0, facts_hash = 0;
};
constexpr std::uint64_t kMostFacts = 64 << 20;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}
std::span<const std::byte> bytes_of(std::span<const double> values) { return std::as_bytes(values); }

/// False where the file ends before, or cannot be read.
bool read_all(int descriptor, std::uint64_t offset, std::span<std::byte> to) { return read_at(descriptor, offset, to) == std::ssize(to); }

std::optional<Descriptor> open_to_read(const fs::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) return std::nullopt;
  return file;
}

bool read_head(int descriptor, Head& head) {
  const Head expected;
  return read_all(descriptor, 0, std::as_writable_bytes(std::span(&head, 1))) && std::memcmp(head.magic, expected.magic, sizeof head.magic) == 0 &&
         head.version == expected.version && head.facts_bytes <= kMostFacts;
}

template <class T>
std::optional<std::vector<T>> column_at(int descriptor, const Place& place, std::size_t rows) {
  Head head;
  struct stat now {};
  if (!read_head(descriptor, head) || ::fstat(descriptor, &now) != 0 || rows > static_cast<std::uint64_t>(now.st_size) / sizeof(T)) return std::nullopt;
  std::vector<T> out(rows);
  if (!read_all(descriptor, sizeof head + head.facts_bytes + place.offset, std::as_writable_bytes(std::span(out)))) return std::nullopt;
  if (hash_of(bytes_of(out)) != place.hash) return std::nullopt;
  return out;
}

Json json_of(const Place& p) { return Json::array({p.offset, p.hash}); }
Place place_of(const Json& j) { return {j.at(0).get<std::uint64_t>(), j.at(1).get<std::uint64_t>()}; }

// JSON has no NaN.
Json json_of(float value) { return std::isnan(value) ? Json() : Json(value); }
float number_of(const Json& j) { return j.is_number() ? j.get<float>() : std::numeric_limits<float>::quiet_NaN(); }

Json json_of(const RunTable& t) {
  Json columns = Json::array();
  for (const ColumnFacts& c : t.columns) columns.push_back({c.name, json_of(c.last), json_of(c.place)});
  return {{"event", t.event}, {"rank", t.rank}, {"rows", t.rows}, {"first", t.first}, {"last", t.last}, {"xs", json_of(t.xs)}, {"columns", columns}};
}
RunTable table_of(const Json& j) {
  RunTable t;
  t.event = j.at("event");
  t.rank = j.at("rank");
  t.rows = j.at("rows");
  t.first = j.at("first");
  t.last = j.at("last");
  t.xs = place_of(j.at("xs"));
  for (const Json& c : j.at("columns")) t.columns.push_back({c.at(0), number_of(c.at(1)), place_of(c.at(2))});
  return t;
}

Json json_of(const Run& r) {
  Json marks = Json::array(), tables = Json::array();
  for (const Mark& m : r.marks) marks.push_back({m.step, m.text});
  for (const RunTable& t : r.tables) tables.push_back(json_of(t));
  return {{"start", r.start},         {"status", r.status},     {"seconds", r.seconds},
          {"last_step", r.last_step}, {"trained", r.trained_s}, {"used", Json::array({r.used_s, r.used_before_s, r.has_gone_on})},
          {"marks", marks},           {"results", r.results},   {"tables", tables}};
}
Run run_of(const Json& j) {
  Run r;
  r.start = j.at("start");
  r.status = j.at("status");
  r.seconds = j.at("seconds");
  r.last_step = j.at("last_step");
  r.trained_s = j.at("trained");
  r.used_s = j.at("used").at(0);
  r.used_before_s = j.at("used").at(1);
  r.has_gone_on = j.at("used").at(2);
  for (const Json& m : j.at("marks")) r.marks.push_back({m.at(0), m.at(1)});
  r.results = j.at("results").get<std::map<std::string, double>>();
  for (const Json& t : j.at("tables")) r.tables.push_back(table_of(t));
  return r;
}

/// Gives the columns their places, in order. @return what lies there
std::vector<std::span<const std::byte>> place(std::vector<Run>& runs) {
  std::vector<std::span<const std::byte>> out;
  std::uint64_t offset = 0;
  const auto put = [&](std::span<const std::byte> bytes) {
    out.push_back(bytes);
    return Place{std::exchange(offset, offset + bytes.size()), hash_of(bytes)};
  };
  for (Run& run : runs)
    for (RunTable& t : run.tables) {
      t.xs = put(bytes_of(t.table.xs()));
      for (std::size_t i = 0; i < t.columns.size(); ++i) t.columns[i].place = put(bytes_of(t.table.columns()[i].values));
    }
  return out;
}

}  // namespace

RunCache::RunCache(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw DataError(fmt::format("monitor: cannot make the folder {}: {}", folder_.string(), error.message()));
}

fs::path RunCache::file_for(const fs::path& record) const {
  const std::uint64_t first = hash_of(record.native());
  return folder_ / fmt::format("{:016x}{:016x}.run", first, hash_of(record.native(), first));
}

void RunCache::save(const fs::path& record, RunFile& file) const {
  const auto columns = place(file.runs());
  const ReadSoFar& read = file.so_far();
  Json runs = Json::array();
  for (const Run& r : file.runs()) runs.push_back(json_of(r));
  const Json facts{{"read", {read.device, read.inode, read.bytes, read.head, read.tail, read.passes_line}}, {"runs", runs}};
  std::string text = facts.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  Head head;
  head.facts_bytes = text.size();
  head.facts_hash = hash_of(text);
  write_file_atomically(file_for(record), [&](FileWriter& out) {
    out.write(std::as_bytes(std::span(&head, 1)));
    out.write(text);
    for (const auto bytes : columns) out.write(bytes);
  });
}

std::optional<RunFile> RunCache::load(const fs::path& record) const {
  const auto file = open_to_read(file_for(record));
  Head head;
  if (!file || !read_head(file->get(), head)) return std::nullopt;
  std::string text(head.facts_bytes, '\0');
  if (!read_all(file->get(), sizeof head, std::as_writable_bytes(std::span(text))) || hash_of(text) != head.facts_hash) return std::nullopt;
  try {
    const Json facts = Json::parse(text);
    const Json& read = facts.at("read");
    std::vector<Run> runs;
    for (const Json& r : facts.at("runs")) runs.push_back(run_of(r));
    RunFile out;
    out.restore(std::move(runs), {read.at(0), read.at(1), read.at(2), read.at(3), read.at(4), read.at(5)});
    out.set_has_rows(false);
    ::futimens(file->get(), nullptr);  // it was used today
    return out;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

bool RunCache::load_rows(const fs::path& record, RunFile& file) const {
  for (Run& r : file.runs())
    for (RunTable& t : r.tables) {
      auto x = xs(record, t);
      if (!x) return false;
      std::vector<Table::Column> columns;
      for (std::size_t i = 0; i < t.columns.size(); ++i) {
        auto column = values(record, t, i);
        if (!column) return false;
        columns.push_back({t.columns[i].name, std::move(*column)});
      }
      t.table.restore(std::move(*x), std::move(columns));
    }
  file.set_has_rows(true);
  return true;
}

std::optional<std::vector<float>> RunCache::values(const fs::path& record, const RunTable& table, std::size_t column) const {
  const auto file = open_to_read(file_for(record));
  if (!file) return std::nullopt;
  return column_at<float>(file->get(), table.columns.at(column).place, table.rows);
}

std::optional<std::vector<double>> RunCache::xs(const fs::path& record, const RunTable& table) const {
  const auto file = open_to_read(file_for(record));
  if (!file) return std::nullopt;
  return column_at<double>(file->get(), table.xs, table.rows);
}

void RunCache::forget(const fs::path& record) const {
  std::error_code error;
  fs::remove(file_for(record), error);
}

void RunCache::shrink(std::uintmax_t bytes, fs::file_time_type keep) const {
  struct Old {
    fs::file_time_type used;
    std::uintmax_t bytes;
    fs::path path;
  };
  std::vector<Old> files;
  std::uintmax_t sum = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != ".run") continue;
    std::error_code gone;
    const Old one{at->last_write_time(gone), at->file_size(gone), at->path()};
    if (gone) continue;
    sum += one.bytes;
    if (one.used < keep) files.push_back(one);
  }
  std::ranges::sort(files, {}, &Old::used);
  for (const Old& one : files) {
    if (sum <= bytes) return;
    if (fs::remove(one.path, error)) sum -= one.bytes;
  }
}

}  // namespace gemel::monitor
