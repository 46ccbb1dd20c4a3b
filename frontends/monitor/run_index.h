// RunIndex: the runs below a folder, as they grow, for any number of readers.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "frontends/monitor/column_store.h"
#include "frontends/monitor/record_tree.h"
#include "frontends/monitor/run_cache.h"
#include "frontends/monitor/run_file.h"

namespace gemel::monitor {

/// How far a look has come.
struct Progress {
  std::size_t files = 0, of_files = 0;  // records whose runs are known
  std::uint64_t bytes = 0;              // read so far by this process
};

/// Names a curve in requests: a run, and the number of a series of it as `runs` lists them.
struct SeriesName {
  std::string run;
  int series = 0;
};

/// `refresh` and `save` are for one thread; everything else for any.
class RunIndex {
 public:
  struct Options {
    std::filesystem::path folder;
    std::optional<std::filesystem::path> cache;  // folder of its own for the index; none: rows stay in memory
    std::function<void(const std::string& line)> warn;
    std::size_t most_row_bytes = 200u << 20;  // of rows in memory, as long as there is a cache
  };
  /// Where the cache's folder cannot be made it warns, and does without.  @throws DataError if the folder cannot be opened
  explicit RunIndex(Options options);

  /// One look at the folder: finds records, and reads what they have grown by. @param stops  ends it early
  void refresh(const std::function<bool()>& stops = [] { return false; });
  /// Writes what was read since into the cache.
  void save();

  /// Grows with every change, and from one program to the next.
  std::uint64_t version() const { return version_; }
  Progress progress() const;
  /// The runs that have changed since a version, with their series and what is new of them; and the names of all, where these have changed and all are known.
  nlohmann::ordered_json runs(std::uint64_t since) const;
  /// A run's first line, and its results: those of the summary.json beside its record if it is the last there, and has ended. Empty if there is no such
  /// run.
  std::optional<nlohmann::ordered_json> about(const std::string& run) const;
  /// Empty if there is no such curve, or its run is being read anew.  @throws DataError for a range that is none
  std::optional<Curve> curve(const SeriesName& name, Detail detail) const;
  const std::filesystem::path& folder() const { return tree_.folder(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Record {
    RunFile file;
    FileState state;
    std::uint64_t changed = 0;        // version
    bool is_saved = false;            // as it is
    Clock::time_point grown = {};     // when it was last seen to
    mutable bool is_damaged = false;  // its rows in the cache
  };
  struct Found {
    const std::string* path;
    const Record* record;
    const Run* run;
  };
  std::optional<Found> find(const std::string& run) const;
  std::filesystem::path full(const std::string& path) const { return tree_.folder() / path; }
  void search(const std::function<bool()>& stops);
  void look_at(const std::string& path, const std::function<bool()>& stops);
  void open_new(const std::string& path, const Descriptor& file, const std::function<bool()>& stops);
  void read_on(const std::string& path, const Descriptor& file, const std::function<bool()>& stops);
  void save_record(const std::string& path, Record& record);
  void unload();
  void changed(Record& record) { record.changed = ++version_; }

  Options options_;
  RecordTree tree_;
  std::optional<RunCache> cache_;
  std::filesystem::file_time_type begun_;
  std::vector<std::string> paths_;
  Clock::time_point next_search_ = {};
  bool has_warned_ = false;
  bool is_cache_full_ = false;  // a write has failed: what is there is read, and no more is written
  mutable std::mutex mutex_;    // of what follows; the thread of `refresh`, which alone changes the records, reads them without
  mutable ColumnStore<double> xs_;
  mutable ColumnStore<float> values_;
  std::map<std::string, Record> records_;
  std::uint64_t members_changed_ = 0;  // version; 0: none is known yet
  Progress progress_;
  std::atomic<std::uint64_t> version_;
};

}  // namespace gemel::monitor
