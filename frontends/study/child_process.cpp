#include "frontends/study/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "engine/base/error.h"

namespace gemel::study {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPoll{20}, kGrace{5000};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }
double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); }

/// Files for the output, a process group of its own, which a terminal's Ctrl-C does not reach, and signals as a program expects them.
class Start {
 public:
  explicit Start(const Child& child) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, child.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, child.errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Start() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;
  pid_t run(std::vector<std::string> words) const {
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    pid_t process = -1;
    if (const int error = ::posix_spawnp(&process, words[0].c_str(), &actions_, &attributes_, pointers.data(), environ))
      throw DataError(fmt::format("{} does not start: {}", words[0], system_message(error)));
    return process;
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

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
  Group group(Start(child).run(child.words));
  ChildResult out;
  while (!group.has_ended()) {
    std::this_thread::sleep_for(kPoll);
    child.tick();
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
