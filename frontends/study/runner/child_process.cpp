#include "frontends/study/runner/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/files/file.h"

namespace gemel::study {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPoll{20}, kGrace{5000};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }
double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); }

/// In the new process: files for the output, a process group of its own, which a terminal's Ctrl-C does not reach, signals as a program expects them, and an
/// end when the study ends, however it does. Only calls that are safe behind a fork of a process with threads.
[[noreturn]] void become(char** words, const char* output, const char* errors, const cpu_set_t* processors, pid_t parent) {
  const auto onto = [](const char* file, int flags, int descriptor) {
    const int opened = ::open(file, flags, 0644);
    return opened >= 0 && ::dup2(opened, descriptor) >= 0 && (opened == descriptor || ::close(opened) == 0);
  };
  constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC;
  sigset_t none;
  sigemptyset(&none);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (processors) ::sched_setaffinity(0, sizeof *processors, processors);
  if (::getppid() != parent) ::_exit(127);  // it has ended already
  if (onto("/dev/null", O_RDONLY, STDIN_FILENO) && onto(output, kNew, STDOUT_FILENO) && onto(errors, kNew, STDERR_FILENO)) ::execvp(words[0], words);
  ::_exit(127);
}

pid_t started(const Child& child) {
  std::vector<std::string> words = child.words;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  cpu_set_t processors;
  CPU_ZERO(&processors);
  for (const int processor : child.processors) CPU_SET(processor, &processors);
  const pid_t parent = ::getpid(), process = ::fork();
  if (process < 0) throw DataError(fmt::format("{} does not start: {}", words[0], system_message(errno)));
  if (process == 0) become(pointers.data(), child.output.c_str(), child.errors.c_str(), child.processors.empty() ? nullptr : &processors, parent);
  ::setpgid(process, process);  // whoever is first
  return process;
}

/// Ends the group and waits for its leader, however the caller leaves.
class Group {
 public:
  explicit Group(pid_t leader) : leader_(leader) {}
  ~Group() {
    if (!ended_) end();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  bool has_ended() {
    if (!ended_ && ::wait4(leader_, &status_, WNOHANG, &usage_) == leader_) ended_ = true;
    return ended_;
  }
  void end() {
    ::kill(-leader_, SIGTERM);
    for (const auto since = Clock::now(); !has_ended() && Clock::now() - since < kGrace;) std::this_thread::sleep_for(kPoll);
    ::kill(-leader_, SIGKILL);  // also what the leader has left
    while (!has_ended()) std::this_thread::sleep_for(kPoll);
  }
  pid_t leader() const { return leader_; }
  int status() const { return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_); }
  double processor_seconds() const { return seconds(usage_.ru_utime) + seconds(usage_.ru_stime); }

 private:
  pid_t leader_;
  bool ended_ = false;
  int status_ = 0;
  rusage usage_{};
};

}  // namespace

ChildResult run(const Child& child) {
  const auto begin = Clock::now();
  Group group(started(child));
  ChildResult out;
  while (!group.has_ended()) {
    std::this_thread::sleep_for(kPoll);
    child.tick(group.leader());
    if (child.timeout_s <= 0 || seconds_since(begin) < child.timeout_s) continue;
    out.timed_out = true;
    group.end();
  }
  out.seconds = seconds_since(begin);
  out.status = group.status();
  out.processor_seconds = group.processor_seconds();
  return out;
}

}  // namespace gemel::study
