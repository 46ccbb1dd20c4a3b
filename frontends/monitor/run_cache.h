// The monitor's index on disk: for each run.jsonl a file in the cache folder with what was read of it. Its columns are read one by one, so that a curve
// needs neither the record nor all of the index.
#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "frontends/monitor/run_file.h"

namespace gemel::monitor {

class RunCache {
 public:
  /// @param folder  is made where it is missing  @throws DataError if it cannot be
  explicit RunCache(std::filesystem::path folder);

  /// Writes what was read of a record, atomically, and notes where each column lies. @param file  with its rows  @throws DataError
  void save(const std::filesystem::path& record, RunFile& file) const;
  /// What was read of a record before, without its rows. Empty if there is nothing, or nothing whole.
  std::optional<RunFile> load(const std::filesystem::path& record) const;
  /// Reads the rows again. @return false if they are damaged or gone
  bool load_rows(const std::filesystem::path& record, RunFile& file) const;
  /// A column's values, or a table's x. Empty if damaged or gone.
  std::optional<std::vector<float>> values(const std::filesystem::path& record, const RunTable& table, std::size_t column) const;
  std::optional<std::vector<double>> xs(const std::filesystem::path& record, const RunTable& table) const;
  /// Removes what was read of a record.
  void forget(const std::filesystem::path& record) const;
  /// Removes the files that were not used for longest, until what is there takes at most this much. Files used since `keep` stay.
  void shrink(std::uintmax_t bytes, std::filesystem::file_time_type keep) const;

  /// Of a record, named by its absolute path.
  std::filesystem::path file_for(const std::filesystem::path& record) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace gemel::monitor
