#include "frontends/cli/launch/mpirun_stderr.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/cli/job/launch_messages.h"

namespace gemel::cli {
namespace {

constexpr std::size_t kFewestDashes = 60;  // of a line around a page
constexpr std::string_view kOfPrograms[] = {kLauncherLine, "*** ", "mpirun: ", "prterun: ", "Set the PMIX_AGGREGATE_HELP "};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// "[host:pid] ..." and "[host][[job,step],rank]..."
bool has_sender(std::string_view line) {
  const std::size_t end = line.find_first_of("] ");
  if (!line.starts_with('[') || end == line.npos || line[end] != ']') return false;
  const std::string_view sender = line.substr(1, end - 1), rest = line.substr(end + 1);
  const std::size_t colon = sender.rfind(':');
  const bool has_process = colon != sender.npos && colon > 0 && colon + 1 < sender.size() && std::ranges::all_of(sender.substr(colon + 1), is_digit);
  return (has_process && rest.starts_with(' ')) || rest.starts_with("[[");
}

// "1 more process has sent help message ...", "2 more processes have ...".
constexpr std::string_view kMore = " more process";
std::string_view behind_number(std::string_view line) { return line.substr(std::min(line.find_first_not_of("0123456789"), line.size())); }

bool counts_pages(std::string_view line) {
  const std::string_view rest = behind_number(line);
  return rest.size() < line.size() && rest.starts_with(kMore) && rest.find(" sent help message ") != rest.npos;
}

bool is_of_open_mpi(std::string_view line) {
  return has_sender(line) || counts_pages(line) || std::ranges::any_of(kOfPrograms, [&](std::string_view begin) { return line.starts_with(begin); });
}

/// Of a line whose end is to come.
bool may_be_of_open_mpi(std::string_view begin) {
  const auto is_alike = [&](std::string_view known) { return begin.starts_with(known.substr(0, begin.size())); };
  const std::string_view rest = behind_number(begin);
  const bool may_count = rest.size() < begin.size() && (rest.starts_with(kMore) || kMore.starts_with(rest));
  return begin.starts_with('[') || may_count || std::ranges::any_of(kOfPrograms, is_alike);
}

/// What stands before the dashes that end the text.
std::string_view before_dashes(std::string_view line) { return line.substr(0, line.find_last_not_of('-') + 1); }
bool ends_with_dashes(std::string_view line) { return line.size() - before_dashes(line).size() >= kFewestDashes; }
bool is_dashes(std::string_view line) { return ends_with_dashes(line) && before_dashes(line).empty(); }

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;  // nobody reads it: the job goes on
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

std::string WordsOfOpenMpi::pass(std::string_view bytes) {
  std::string out;
  std::ranges::copy_if(bytes, std::back_inserter(held_), [](char c) { return c != '\0'; });  // Open MPI 5 writes the end of its strings, too
  std::size_t begin = 0;
  for (std::size_t end; (end = held_.find('\n', begin)) != held_.npos; begin = end + 1) take_line(std::string_view(held_).substr(begin, end - begin), out);
  held_.erase(0, begin);
  take_begin_of_line(out);
  return out;
}

/// A page may begin behind a rank's line that has no end yet.
void WordsOfOpenMpi::take_line(std::string_view line, std::string& out) {
  const bool is_whole = !std::exchange(is_mid_line_, false);
  if (is_in_page_) {
    is_in_page_ = !is_dashes(line);
    if (is_in_page_)
      page_.append(line) += '\n';
    else
      found_.push_back(page_.substr(page_.find('\n') + 1));
  } else if (ends_with_dashes(line)) {
    is_in_page_ = true;
    page_ = line.substr(before_dashes(line).size());
    page_ += '\n';
    out += before_dashes(line);
    if (!is_whole || !is_dashes(line)) out += '\n';
  } else if (is_whole && is_of_open_mpi(line)) {
    found_.emplace_back(line);
  } else {
    out.append(line) += '\n';
  }
}

/// Dashes at its end may grow to a line of them.
void WordsOfOpenMpi::take_begin_of_line(std::string& out) {
  if (is_in_page_ || held_.empty() || (!is_mid_line_ && may_be_of_open_mpi(held_))) return;
  const std::size_t count = before_dashes(held_).size();
  out += held_.substr(0, count);
  held_.erase(0, count);
  is_mid_line_ = is_mid_line_ || count > 0;
}

std::string WordsOfOpenMpi::end() {
  std::string out = is_in_page_ ? page_ + held_ : held_;
  *this = {};
  return out;
}

MpirunErrors::MpirunErrors() {
  if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw Error("launch: no pipe can be made: " + system_message(errno));
  ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
}

MpirunErrors::~MpirunErrors() {
  finish();
  ::close(ends_[0]);
}

/// Signals are the first thread's. Where nobody reads this process's standard error, the job goes on.
void MpirunErrors::begin() {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { pass_on(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(std::exchange(ends_[1], -1));
}

/// Until mpirun has ended, or all who could write have: what it started on other machines may hold the pipe for longer.
void MpirunErrors::pass_on() {
  constexpr int kLookMilliseconds = 50;
  std::array<char, 1 << 14> bytes;
  for (;;) {
    const bool is_last = is_over_;
    pollfd event{ends_[0], POLLIN, 0};
    ::poll(&event, 1, is_last ? 0 : kLookMilliseconds);
    const ssize_t count = ::read(ends_[0], bytes.data(), bytes.size());
    if (count > 0) {
      write_all(STDERR_FILENO, words_.pass({bytes.data(), static_cast<std::size_t>(count)}));
      take_lines_for_launcher();
    } else if (count == 0 || is_last) {
      break;
    }
  }
}

void MpirunErrors::take_lines_for_launcher() {
  for (; looked_at_ < words_.found().size(); ++looked_at_)
    write_all(STDERR_FILENO, told_.take(LauncherLine::of(words_.found()[looked_at_]), ToldByRanks::Clock::now()));
}

std::vector<std::string> MpirunErrors::finish() {
  if (ends_[1] >= 0) ::close(std::exchange(ends_[1], -1));
  if (!thread_.joinable()) return {};
  is_over_ = true;
  thread_.join();
  std::vector<std::string> found = words_.found();
  std::erase_if(found, [](const std::string& line) { return line.starts_with(kLauncherLine); });
  write_all(STDERR_FILENO, words_.end());
  return found;
}

}  // namespace gemel::cli
