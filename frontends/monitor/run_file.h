// RunFile: what one run.jsonl holds, read as it grows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/monitor/line_scanner.h"
#include "frontends/monitor/table.h"

namespace gemel::monitor {

/// Something that happened at a step: a run went on, a rank was lost.
struct Mark {
  double step = 0;
  std::string text;
};

/// Where a cache holds numbers: how far into its file, and their hash.
struct Place {
  std::uint64_t offset = 0, hash = 0;
};

/// A column's name and what is shown without its values.
struct ColumnFacts {
  std::string name;
  float last = 0;  // value; NaN where the last row has none
  Place place;
};

/// The lines of one kind: steps, epochs, or what one rank used.
struct RunTable {
  std::string event;
  int rank = -1;  // of usage; -1: the whole job
  Table table;    // empty while a cache holds the rows
  // Facts that stand while the rows are elsewhere.
  std::size_t rows = 0;
  double first = 0, last = 0;  // x
  Place xs;
  std::vector<ColumnFacts> columns;
};

/// From a start that goes on with nothing to the next such start.
struct Run {
  std::string start;   // its last first line, JSON; empty where none was written
  std::string status;  // of its last line: "ok", "interrupted", "failed"; empty while there is none
  double seconds = 0;  // as the last line has them
  double last_step = 0;
  double trained_s = 0;                  // sum of the steps' times
  double used_s = 0, used_before_s = 0;  // time of usage so far; what goes before the present part's
  bool has_gone_on = false;              // and no usage has been seen since
  std::vector<Mark> marks;
  std::map<std::string, double> results;  // numbers of an evaluation
  std::vector<RunTable> tables;
};

/// Which file was read, and how far: enough to see that it is another one now.
struct ReadSoFar {
  std::uint64_t device = 0, inode = 0;
  std::uint64_t bytes = 0;           // whole lines
  std::uint64_t head = 0, tail = 0;  // hashes of the first and the last bytes of these
  bool passes_line = false;          // inside a line that is longer than any record
};

class RunFile {
 public:
  static constexpr std::size_t kMostRuns = 1000, kMostMarks = 200, kMostTables = 300;
  static constexpr std::size_t kMostNameBytes = 200, kMostMarkBytes = 500;  // of a column or result, of a mark's text: what is longer is cut

  /// Reads on, at most about `most` bytes of whole lines. What stands behind the last line's end is left for later. A file that was replaced, cut or
  /// written anew is read from its start.
  /// @return true if there is more to read  @throws DataError if it cannot be read
  bool read_some(int descriptor, std::size_t most = std::size_t{1} << 20);
  /// Brings facts up to date with rows. Called by read_some.
  void settle();

  const std::vector<Run>& runs() const { return runs_; }
  const ReadSoFar& so_far() const { return so_far_; }
  /// Bytes that the rows take.
  std::size_t row_bytes() const;

  // For a cache.
  std::vector<Run>& runs() { return runs_; }
  void restore(std::vector<Run> runs, const ReadSoFar& so_far);
  /// Tells if the rows are here. Without them nothing can be read on.
  bool has_rows() const { return has_rows_; }
  void set_has_rows(bool here) { has_rows_ = here; }

 private:
  void take(std::string_view line);
  void start(std::string_view line);
  void row(Run& run, std::string_view event, std::string_view x_name);
  Run& run();
  std::vector<Run> runs_;
  ReadSoFar so_far_;
  bool has_rows_ = true;
  std::string buffer_;
  Line line_;
};

/// Tells if the file still begins with what was read. @throws DataError if it cannot be read
bool goes_on(int descriptor, const ReadSoFar& so_far);

/// The text's begin: whole characters of UTF-8 in at most so many bytes.
std::string_view cut(std::string_view text, std::size_t most);

}  // namespace gemel::monitor
