#include "frontends/monitor/run_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/files/descriptor.h"
#include "engine/base/hash.h"

namespace gemel::monitor {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::seconds;

constexpr seconds kSearchEvery{2}, kIsQuiet{30};
// Columns in memory. Runs of as many steps share their x, which leaves room for 100 runs of 100 000 steps in four plots: what a zoom asks for at once.
constexpr std::size_t kMostColumnBytes = std::size_t{192} << 20, kMostXBytes = std::size_t{64} << 20;
constexpr std::uintmax_t kMostCache = std::uintmax_t{1} << 30;  // bytes of what is not in use

/// Above any version of a monitor that ran before, by which a page that is still open asks, and exact as a number of JavaScript: microseconds since 1970.
std::uint64_t first_version() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
}

std::string id_of(const std::string& path, std::size_t run) { return fmt::format("{:016x}", hash_of(path, hash_of(fmt::format("{}", run)))); }

/// A run's folder, and which of its file's runs it is.
std::string name_of(const RecordTree& tree, const std::string& path, std::size_t run) {
  const auto folder = std::filesystem::path(path).parent_path().string();
  const std::string name = folder.empty() ? tree.folder().filename().string() : folder;
  return run == 0 ? name : fmt::format("{} ({})", name, run + 1);
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json series_of(const Run& run) {
  Json out = Json::array();
  for (std::size_t t = 0; t < run.tables.size(); ++t) {
    const RunTable& table = run.tables[t];
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      out.push_back({{"id", t * Table::kMostColumns + c},
                     {"event", table.event},
                     {"name", table.columns[c].name},
                     {"rank", table.rank},
                     {"first", table.first},
                     {"last", table.last},
                     {"rows", table.rows},
                     {"value", number(table.columns[c].last)}});
  }
  return out;
}

/// Scalars of a start line that a list of runs shows.
Json words_of(const std::string& start) {
  const Json line = Json::parse(start, nullptr, false);
  Json out = Json::object();
  if (!line.is_object()) return out;
  for (const char* key : {"model", "parallel", "ranks"}) {
    if (!line.contains(key) || !line[key].is_primitive()) continue;
    out[key] = line[key];
    if (out[key].is_string()) out[key] = std::string(cut(line[key].get_ref<const std::string&>(), RunFile::kMostNameBytes));
  }
  return out;
}

/// Numbers and words of an object, those of objects in it under "outer.inner"; arrays are long and left out.
void add_scalars(const Json& from, const std::string& prefix, Json& out) {
  for (const auto& [key, value] : from.items()) {
    if (value.is_object() && prefix.size() < 200) add_scalars(value, prefix + key + ".", out);
    if (value.is_primitive()) out[prefix + key] = value;
  }
}

Json summary_beside(const RecordTree& tree, const std::string& path) {
  constexpr std::size_t kMost = 16 << 20;
  Json out = Json::object();
  const auto file = tree.open((std::filesystem::path(path).parent_path() / "summary.json").string());
  if (!file) return out;
  std::string text(std::min<std::uint64_t>(state_of(file->get()).bytes, kMost), '\0');
  const std::int64_t got = read_at(file->get(), 0, std::as_writable_bytes(std::span(text)));
  text.resize(static_cast<std::size_t>(std::max<std::int64_t>(got, 0)));
  const Json summary = Json::parse(text, nullptr, false);
  if (summary.is_object()) add_scalars(summary, "", out);
  return out;
}

}  // namespace

RunIndex::RunIndex(Options options)
    : options_(std::move(options)), tree_(options_.folder), begun_(std::filesystem::file_time_type::clock::now()), version_(first_version()) {
  if (!options_.cache) return;
  try {
    cache_.emplace(*options_.cache);
  } catch (const DataError& e) {  // a full disk, say
    options_.warn(fmt::format("{}; the index is kept in memory", e.what()));
  }
}

void RunIndex::refresh(const std::function<bool()>& stops) {
  if (Clock::now() >= next_search_) search(stops);
  std::size_t looked_at = 0;  // also at those that cannot be opened
  for (const std::string& path : paths_) {
    if (stops()) return;
    look_at(path, stops);
    const std::lock_guard lock(mutex_);
    if (++looked_at <= progress_.files) continue;
    progress_.files = looked_at;
    if (looked_at == paths_.size()) members_changed_ = ++version_;  // all are known now
  }
  unload();
}

void RunIndex::search(const std::function<bool()>& stops) {
  const auto begin = Clock::now();
  paths_ = tree_.search(stops);
  if (stops()) return;
  const auto end = Clock::now();
  next_search_ = end + std::max<Clock::duration>(kSearchEvery, 10 * (end - begin));  // a large tree takes at most a tenth of the time
  const std::lock_guard lock(mutex_);
  const auto gone = std::erase_if(records_, [&](const auto& one) { return !std::ranges::binary_search(paths_, one.first); });
  if (gone > 0 || members_changed_ == 0) members_changed_ = ++version_;
  if (std::exchange(progress_.of_files, paths_.size()) != paths_.size()) ++version_;
}

void RunIndex::look_at(const std::string& path, const std::function<bool()>& stops) {
  const auto file = tree_.open(path);
  if (!file) return;  // removed since, or not for us: the next search sees
  try {
    bool is_known = false;
    {
      const std::lock_guard lock(mutex_);
      const auto found = records_.find(path);
      is_known = found != records_.end() && !found->second.is_damaged;
      if (found != records_.end() && found->second.is_damaged) {
        cache_->forget(full(path));
        records_.erase(found);
      }
    }
    if (is_known)
      read_on(path, *file, stops);
    else
      open_new(path, *file, stops);
  } catch (const DataError& e) {
    if (!std::exchange(has_warned_, true)) options_.warn(fmt::format("{}: {}", path, e.what()));
  }
}

/// Of a record that is met first: nobody else sees it before it has been read.
void RunIndex::open_new(const std::string& path, const Descriptor& file, const std::function<bool()>& stops) {
  Record record;
  record.state = state_of(file.get());
  if (auto known = cache_ ? cache_->load(full(path)) : std::nullopt; known && goes_on(file.get(), known->so_far())) {
    record.file = std::move(*known);
    record.is_saved = true;
  }
  const auto& read = record.file.so_far();
  const std::uint64_t before = read.bytes;
  if (!record.is_saved || read.bytes < record.state.bytes) {
    if (record.is_saved && !cache_->load_rows(full(path), record.file)) {
      record.file = RunFile();
      record.is_saved = false;
    }
    while (record.file.read_some(file.get()))
      if (stops()) return;
    record.is_saved = record.is_saved && read.bytes == before;
  }
  record.grown = Clock::now();
  save_record(path, record);
  const std::lock_guard lock(mutex_);
  progress_.bytes += read.bytes - std::min(read.bytes, before);
  changed(record);
  members_changed_ = record.changed;
  records_.insert_or_assign(path, std::move(record));
}

void RunIndex::read_on(const std::string& path, const Descriptor& file, const std::function<bool()>& stops) {
  const FileState now = state_of(file.get());
  bool has_more = true;
  while (has_more && !stops()) {  // by pieces: others want the lock too
    const std::lock_guard lock(mutex_);
    Record& record = records_.at(path);
    if (now == record.state) return;
    if (!record.file.has_rows() && !(cache_ && cache_->load_rows(full(path), record.file))) record.file = RunFile();
    const std::uint64_t before = record.file.so_far().bytes;
    const std::size_t runs_before = record.file.runs().size();
    has_more = record.file.read_some(file.get());
    if (!has_more) record.state = now;
    if (record.file.runs().size() != runs_before) members_changed_ = version_ + 1;
    if (const std::uint64_t bytes = record.file.so_far().bytes; bytes != before) {
      record.is_saved = false;
      record.grown = Clock::now();
      progress_.bytes += bytes - std::min(bytes, before);
    }
    changed(record);
  }
}

/// Writes without the lock, as that takes long and answers want it: readers of a record with rows look at nothing that is written into it.
void RunIndex::save_record(const std::string& path, Record& record) {
  if (!cache_ || is_cache_full_) return;
  if (!record.is_saved) {
    try {
      cache_->save(full(path), record.file);
      record.is_saved = true;
    } catch (const DataError& e) {  // a full disk, say: the rows stay here
      options_.warn(fmt::format("{}; the index is kept in memory", e.what()));
      is_cache_full_ = true;
      return;
    }
  }
  const std::lock_guard lock(mutex_);
  for (Run& r : record.file.runs())
    for (RunTable& t : r.tables) t.table.restore({}, {});
  record.file.set_has_rows(false);
}

/// Rows of records that are quiet go to the cache, and those of others where they take too much.
void RunIndex::unload() {
  if (!cache_ || is_cache_full_) return;
  std::vector<std::pair<Clock::time_point, const std::string*>> loaded;
  std::size_t bytes = 0;
  for (const auto& [path, record] : records_)
    if (record.file.has_rows()) {
      loaded.emplace_back(record.grown, &path);
      bytes += record.file.row_bytes();
    }
  std::ranges::sort(loaded);
  for (const auto& [grown, path] : loaded) {
    if (is_cache_full_ || (bytes <= options_.most_row_bytes && Clock::now() - grown < kIsQuiet)) return;
    Record& record = records_.at(*path);
    bytes -= record.file.row_bytes();
    save_record(*path, record);
  }
}

void RunIndex::save() {
  for (auto& [path, record] : records_)
    if (!record.is_saved) save_record(path, record);
  if (cache_) cache_->shrink(kMostCache, begun_);
}

Progress RunIndex::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

Json RunIndex::runs(std::uint64_t since) const {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  Json list = Json::array(), ids = Json::array();
  for (const auto& [path, record] : records_) {
    const auto& runs = record.file.runs();
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const Run& run = runs[i];
      const std::string id = id_of(path, i);
      ids.push_back(id);
      if (record.changed <= since) continue;
      const bool is_last = i + 1 == runs.size();
      Json marks = Json::array();
      for (const Mark& m : run.marks) marks.push_back({m.step, m.text});
      Json one{{"id", id}, {"name", name_of(tree_, path, i)}, {"status", run.status}, {"seconds", run.seconds}, {"last_step", run.last_step}};
      one.update(words_of(run.start));
      one["written"] = static_cast<double>(record.state.written_ns) / 1e9;
      one["age"] = is_last ? Json(static_cast<double>(now - record.state.written_ns) / 1e9) : Json();  // none: another run follows in its file
      one["marks"] = std::move(marks);
      one["series"] = series_of(run);
      list.push_back(std::move(one));
    }
  }
  Json out{{"version", version_.load()}, {"folder", tree_.folder().string()}, {"files", progress_.files}, {"of_files", progress_.of_files}};
  out["runs"] = std::move(list);
  if (members_changed_ > since && progress_.files >= progress_.of_files) out["ids"] = std::move(ids);
  return out;
}

std::optional<RunIndex::Found> RunIndex::find(const std::string& run) const {
  for (const auto& [path, record] : records_)
    for (std::size_t i = 0; i < record.file.runs().size(); ++i)
      if (id_of(path, i) == run) return Found{&path, &record, &record.file.runs()[i]};
  return std::nullopt;
}

std::optional<Json> RunIndex::about(const std::string& run) const {
  const std::lock_guard lock(mutex_);
  const auto found = find(run);
  if (!found) return std::nullopt;
  Json start = Json::parse(found->run->start, nullptr, false);
  if (!start.is_object()) start = Json::object();
  const bool has_summary = found->run == &found->record->file.runs().back() && !found->run->status.empty();  // each run of a record writes it anew
  Json results = has_summary ? summary_beside(tree_, *found->path) : Json::object();
  for (const auto& [name, value] : found->run->results) results["eval." + name] = value;
  return Json{{"start", std::move(start)}, {"results", std::move(results)}};
}

std::optional<Curve> RunIndex::curve(const SeriesName& name, Detail detail) const {
  const std::lock_guard lock(mutex_);
  const auto found = find(name.run);
  if (!found || name.series < 0) return std::nullopt;
  const auto table_index = static_cast<std::size_t>(name.series) / Table::kMostColumns, column = static_cast<std::size_t>(name.series) % Table::kMostColumns;
  if (table_index >= found->run->tables.size()) return std::nullopt;
  const RunTable& table = found->run->tables[table_index];
  if (column >= table.columns.size()) return std::nullopt;
  detail.is_counted = table.event != "usage";
  if (found->record->file.has_rows()) return curve_of(table.table.xs(), table.table.columns()[column].values, detail);
  const auto path = full(*found->path);
  const auto xs = xs_.get(table.xs.hash, table.rows, kMostXBytes, [&] { return cache_->xs(path, table); });
  const auto values = values_.get(table.columns[column].place.hash, table.rows, kMostColumnBytes - std::min(kMostColumnBytes, xs_.bytes()),
                                  [&] { return cache_->values(path, table, column); });
  found->record->is_damaged = !xs || !values;
  if (found->record->is_damaged) return std::nullopt;
  return curve_of(*xs, *values, detail);
}

}  // namespace gemel::monitor
