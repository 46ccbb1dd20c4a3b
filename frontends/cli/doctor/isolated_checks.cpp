#include "frontends/cli/doctor/isolated_checks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/files/descriptor.h"
#include "engine/base/files/file.h"
#include "engine/base/usage/process_state.h"

namespace gemel::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

std::string content_of(int file) {
  std::string out;
  std::array<char, 4096> part;
  for (ssize_t got; (got = ::pread(file, part.data(), part.size(), static_cast<off_t>(out.size()))) > 0;)
    out.append(part.data(), static_cast<std::size_t>(got));
  return out;
}

/// Messages to the doctor are objects, a line each: {"begin", "limit_ms"}, {"health", "found", "remedy"}, {"done"}.
class PipeReport : public Report {
 public:
  explicit PipeReport(int pipe) : pipe_(pipe) {}
  void begin(const std::string& name, milliseconds limit) override { send({{"begin", name}, {"limit_ms", limit.count()}}); }
  void add(const Finding& f) override { send({{"health", static_cast<int>(f.health)}, {"found", f.found}, {"remedy", f.remedy}}); }
  void done() { send({{"done", true}}); }
  std::string printed() const override {
    std::fflush(stdout);
    return content_of(STDOUT_FILENO);
  }

 private:
  int pipe_;
  void send(const Json& message) const {
    const std::string line = message.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    [[maybe_unused]] const auto written = ::write(pipe_, line.data(), line.size());
  }
};

/// "POCL_AFFINITY: '1' is not accepted; ..." and "platform: 'x' is not found; ..." are mended by leaving a variable out, limits by raising them.
std::string remedy_of(const std::string& error) {
  std::string name = error.substr(0, error.find(':'));
  if (!name.empty() && ::getenv(name.c_str())) return "unset " + name;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (::getenv(("GEMEL_" + name).c_str())) return "unset GEMEL_" + name;
  if (error.find("(ulimit ") != std::string::npos) return remedy_of_limit(error);
  const auto accepted = error.find("accepted: ");
  return accepted == std::string::npos ? "" : error.substr(accepted + std::string_view("accepted: ").size());
}

/// A crash ends it as it would end any process, without a file of its memory or a line of the program's own.
void let_signals_end_it() {
  constexpr rlimit kNone{0, 0};
  ::setrlimit(RLIMIT_CORE, &kNone);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGINT, SIGTERM, SIGPIPE}) std::signal(signal, SIG_DFL);
}

/// All checks at once need more open files than one of them; each has the user's own limit.
class MoreFiles {
 public:
  MoreFiles() {
    ::getrlimit(RLIMIT_NOFILE, &users_);
    const rlimit most{users_.rlim_max, users_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &most);
  }
  void give_back() const { ::setrlimit(RLIMIT_NOFILE, &users_); }

 private:
  rlimit users_{};
};

[[noreturn]] void carry_out(const Check& check, int pipe, int printed) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  let_signals_end_it();
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(printed, stream);
  PipeReport report(pipe);
  try {
    check.look(report);
  } catch (const Error& e) {  // it says what it is of
    report.add({Health::wrong, e.what(), remedy_of(e.what())});
  } catch (const std::exception& e) {
    report.add({Health::wrong, check.subject.empty() ? worded(e) : check.subject + ": " + worded(e)});
  }
  report.done();
  std::exit(0);  // as any run ends: a driver may crash there too
}

/// A check's process.
class Apart {
 public:
  Apart(const Check& check, const MoreFiles& files) : check_(&check), doing_(check.name), until_(Clock::now() + Check::kLimit) {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      fail("no pipe can be made: " + system_message(errno), remedy_of_limit("(ulimit -n)"));
      return;
    }
    pipe_ = Descriptor(ends[0]);
    const Descriptor other(ends[1]);
    printed_ = Descriptor(::memfd_create("printed", MFD_CLOEXEC));
    if (printed_.get() < 0) printed_ = Descriptor(::open("/dev/null", O_RDWR | O_CLOEXEC));
    process_ = ::fork();
    if (process_ == 0) {
      files.give_back();
      carry_out(check, ends[1], printed_.get());
    }
    if (process_ < 0) fail("no process can be made: " + system_message(errno), remedy_of_limit("(ulimit -u)"));
    process_ = std::max(process_, 0);
    ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  }

  bool ended() const { return process_ == 0; }
  int pipe() const { return pipe_.get(); }  // -1: nothing more comes
  Clock::time_point until() const { return until_; }
  const std::vector<Line>& lines() const { return lines_; }

  void look(Clock::time_point last) {
    std::array<char, 4096> part;
    ssize_t got = -1;
    while (pipe_.get() >= 0 && (got = ::read(pipe_.get(), part.data(), part.size())) > 0) take(std::string_view(part.data(), static_cast<std::size_t>(got)));
    if (got == 0) pipe_ = Descriptor(-1);
    if (pipe_.get() < 0 && conclude()) return;
    if (Clock::now() < std::min(until_, last)) return;
    ::kill(process_, SIGKILL);
    process_ = 0;  // it may wait in the system for ever: `sweep` collects it
    fail(limit_ < std::chrono::seconds(1) ? fmt::format("it does not end within {} ms", limit_.count())
                                          : fmt::format("it does not end within {} s", limit_.count() / 1000));
  }

 private:
  const Check* check_;
  std::string doing_;
  milliseconds limit_ = Check::kLimit;
  Clock::time_point until_;
  Descriptor pipe_{-1}, printed_{-1};
  pid_t process_ = 0;
  bool done_ = false;
  std::string unread_;
  std::vector<Line> lines_;

  void take(std::string_view bytes) {
    unread_ += bytes;
    for (std::size_t end; (end = unread_.find('\n')) != std::string::npos; unread_.erase(0, end + 1)) take_message(Json::parse(unread_.substr(0, end)));
  }
  void take_message(const Json& message) {
    if (message.contains("begin")) {
      doing_ = message["begin"].get<std::string>();
      limit_ = milliseconds(message["limit_ms"].get<std::int64_t>());
      until_ = Clock::now() + limit_;
    } else if (message.contains("done")) {
      done_ = true;
      doing_ = check_->name;
    } else {
      lines_.push_back(
          {doing_, {static_cast<Health>(message["health"].get<int>()), message["found"].get<std::string>(), message["remedy"].get<std::string>()}});
    }
  }
  /// It may have closed the pipe and go on. @return whether it has ended
  bool conclude() {
    int status = 0;
    if (::waitpid(process_, &status, WNOHANG) == 0) return false;
    process_ = 0;
    if (WIFSIGNALED(status))
      fail(fmt::format("signal {} ({}) ended the process", WTERMSIG(status), ::strsignal(WTERMSIG(status))));
    else if (!done_)
      fail(fmt::format("it ended the process, with status {}", WEXITSTATUS(status)));
    return true;
  }
  void fail(const std::string& how, const std::string& remedy = {}) {
    const std::string subject = check_->subject.empty() ? "" : check_->subject + ": ", when = done_ ? ", when it had done its work" : "", last = last_printed();
    lines_.push_back({doing_, {Health::wrong, subject + how + when + (last.empty() ? "" : "; it printed: " + last), remedy}});
  }
  std::string last_printed() const {
    constexpr std::size_t kMost = 200;
    std::istringstream all(content_of(printed_.get()));
    std::string last;
    for (std::string line; std::getline(all, line);)
      if (line.find_first_not_of(" \t\r-") != std::string::npos) last = line;
    return last.substr(0, kMost);
  }
};

/// Ends what checks started and did not end, the ranks of a job for one: what has lost its parent becomes a child of this process.
void sweep() {
  constexpr int kLooks = 20;
  for (int i = 0; i < kLooks; ++i) {
    const std::vector<pid_t> children = children_of(::getpid());
    for (const pid_t child : children) ::kill(child, SIGKILL);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
    if (children.empty()) return;
    std::this_thread::sleep_for(milliseconds(5));
  }
}

void merge(std::vector<Line>& lines, const Line& more) {
  const auto same = std::ranges::find(lines, more.name, &Line::name);
  if (same == lines.end()) return lines.push_back(more);
  Finding& f = same->finding;
  if (f.found.find(more.finding.found) == std::string::npos) f.found += "; " + more.finding.found;  // the same of every driver is said once
  if (more.finding.health > f.health || (more.finding.health == f.health && f.remedy.empty())) f.remedy = more.finding.remedy;
  f.health = std::max(f.health, more.finding.health);
}

}  // namespace

std::vector<Line> run_apart(const std::vector<Check>& checks) {
  constexpr milliseconds kLook{20};  // for the end of a process that tells no more
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::fflush(nullptr);  // or each process would print it again
  const auto last = Clock::now() + kAllChecks;
  const MoreFiles files;
  std::vector<Apart> all;
  all.reserve(checks.size());
  for (const Check& check : checks) all.emplace_back(check, files);
  for (;;) {
    std::vector<pollfd> pipes;
    auto next = last;
    for (Apart& one : all) {
      if (!one.ended()) one.look(last);
      if (one.ended()) continue;
      pipes.push_back({one.pipe(), POLLIN, 0});  // of -1 poll takes no notice
      next = std::min(next, one.pipe() < 0 ? Clock::now() + kLook : one.until());
    }
    if (pipes.empty()) break;
    const auto wait = std::chrono::ceil<milliseconds>(next - Clock::now());
    ::poll(pipes.data(), pipes.size(), static_cast<int>(std::max<std::int64_t>(0, wait.count())));
  }
  sweep();
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  std::vector<Line> lines;
  for (const Apart& one : all)
    for (const Line& line : one.lines()) merge(lines, line);
  return lines;
}

}  // namespace gemel::cli
