// What comes out of mpirun on standard error: the ranks' lines, and those that Open MPI adds.
#pragma once
#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace gemel::cli {

/// Takes Open MPI's own words out of a stream. They are pages between lines of dashes, about every rank that fails; lines of a process of its own
/// ("[host:pid] ...", "[host][[job,step],rank]..."), of its errors ("*** ...") and of mpirun's.
class WordsOfOpenMpi {
 public:
  /// @return what is passed on: all of the bytes that are a rank's, as soon as that can be told
  std::string pass(std::string_view bytes);
  /// @return what was held back, as it came
  std::string end();
  /// [a page or a line]
  const std::vector<std::string>& found() const { return found_; }

 private:
  void take_line(std::string_view line, std::string& out);
  void take_begin_of_line(std::string& out);

  std::string held_;  // a line whose end is to come
  std::string page_;
  bool is_in_page_ = false, is_mid_line_ = false;
  std::vector<std::string> found_;
};

/// A pipe for mpirun's standard error, and a thread that passes on to this process's what is not Open MPI's own.
class MpirunErrors {
 public:
  /// @throws Error where there can be no pipe
  MpirunErrors();
  ~MpirunErrors();
  MpirunErrors(const MpirunErrors&) = delete;
  MpirunErrors& operator=(const MpirunErrors&) = delete;

  int end_for_mpirun() const { return ends_[1]; }
  /// After mpirun's start: threads do not survive a fork.
  void begin();
  /// After mpirun's end: passes on what is still there. @return Open MPI's own words
  std::vector<std::string> finish();

 private:
  void pass_on();

  std::array<int, 2> ends_{-1, -1};
  std::atomic<bool> is_over_ = false;
  WordsOfOpenMpi words_;
  std::thread thread_;
};

}  // namespace gemel::cli
