// Separates mpirun's standard error into the ranks' lines and messages of Open MPI itself.
#pragma once
#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "frontends/cli/launch/told_by_ranks.h"

namespace gemel::cli {

/// Removes messages of Open MPI itself from a stream: pages between lines of dashes, about every rank that fails; lines of a process of its own ("[host:pid]
/// ...", "[host][[job,step],rank]..."), of its errors ("*** ...") and of mpirun's.
class WordsOfOpenMpi {
 public:
  /// Takes the next bytes.
  /// @return those of ranks, as soon as they can be told apart
  std::string pass(std::string_view bytes);
  /// Ends the stream.
  /// @return what was held back, unchanged
  std::string end();
  /// [a page or a line]
  const std::vector<std::string>& found() const { return found_; }

 private:
  void take_line(std::string_view line, std::string& out);
  void take_begin_of_line(std::string& out);

  std::string held_;  // an incomplete line
  std::string page_;
  bool is_in_page_ = false, is_mid_line_ = false;
  std::vector<std::string> found_;
};

/// A pipe for mpirun's standard error, with a thread that passes what is not Open MPI's own to this process's standard error.
class MpirunErrors {
 public:
  /// @throws Error if no pipe can be made
  MpirunErrors();
  ~MpirunErrors();
  MpirunErrors(const MpirunErrors&) = delete;
  MpirunErrors& operator=(const MpirunErrors&) = delete;

  /// What ranks have told the launcher so far. From any thread.
  const ToldByRanks& told() const { return told_; }
  int end_for_mpirun() const { return ends_[1]; }
  /// Starts the thread. Call after mpirun's start, for threads do not survive a fork.
  void begin();
  /// Passes on the rest. Call after mpirun's end.
  /// @return messages of Open MPI itself
  std::vector<std::string> finish();

 private:
  void pass_on();
  void take_lines_for_launcher();

  std::array<int, 2> ends_{-1, -1};
  std::atomic<bool> is_over_ = false;
  ToldByRanks told_;
  std::size_t looked_at_ = 0;  // of the lines that were found
  WordsOfOpenMpi words_;
  std::thread thread_;
};

}  // namespace gemel::cli
