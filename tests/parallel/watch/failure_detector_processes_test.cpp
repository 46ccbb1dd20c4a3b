// The watch over ranks that are processes: killed, stopped, stopped together.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "parallel/watch/failure_detector.h"
#include "tests/support/ranks/failure_detector_support.h"

namespace gemel::parallel {
namespace {

using namespace std::chrono_literals;

/// Ranks that are processes: each watches, says in lines what it is told, and ends in order when nobody speaks to it any more.
class Processes {
 public:
  Processes(int ranks, const WatchOptions& options) {
    for (int rank = 0; rank < ranks; ++rank) begin(rank, ranks, options);
    const std::string address = hear(0);
    for (const One& one : all_) EXPECT_EQ(::send(one.channel, (address + "\n").data(), address.size() + 1, MSG_NOSIGNAL), std::ssize(address) + 1);
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(hear(rank), "connected");
  }
  ~Processes() {
    for (One& one : all_) {
      if (one.process == 0) continue;
      ::kill(one.process, SIGKILL);
      reap(one);
    }
    for (const One& one : all_) ::close(one.channel);
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int size() const { return static_cast<int>(all_.size()); }
  void signal(int rank, int number) { EXPECT_EQ(::kill(at(rank).process, number), 0); }
  void stop(int rank) {
    signal(rank, SIGSTOP);
    int status = 0;
    EXPECT_EQ(::waitpid(at(rank).process, &status, WUNTRACED), at(rank).process);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  int reap(int rank) { return reap(at(rank)); }
  /// The next line; "" after a while.
  std::string hear(int rank, std::chrono::milliseconds patience = kPatience) {
    One& one = at(rank);
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
      if (const std::size_t end = one.heard.find('\n'); end != std::string::npos) {
        const std::string line = one.heard.substr(0, end);
        one.heard.erase(0, end + 1);
        return line;
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
      pollfd wait{one.channel, POLLIN, 0};
      char bytes[512];
      if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) <= 0) return "";
      const ssize_t count = ::recv(one.channel, bytes, sizeof bytes, 0);
      if (count <= 0) return "";
      one.heard.append(bytes, static_cast<std::size_t>(count));
    }
  }
  /// Those that live end in order, without a further word.
  void end() {
    for (const One& one : all_) ::shutdown(one.channel, SHUT_WR);
    for (int rank = 0; rank < size(); ++rank) {
      if (at(rank).process == 0) continue;
      EXPECT_EQ(hear(rank), "") << "of rank " << rank;
      EXPECT_EQ(reap(rank), 0) << "of rank " << rank;
    }
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is left over";
  }

 private:
  struct One {
    pid_t process;
    int channel;
    std::string heard;
  };
  std::vector<One> all_;

  One& at(int rank) { return all_[static_cast<std::size_t>(rank)]; }
  static int reap(One& one) {
    int status = 0;
    EXPECT_EQ(::waitpid(std::exchange(one.process, 0), &status, 0) > 0, true);
    return status;
  }
  void begin(int rank, int ranks, const WatchOptions& options) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const pid_t process = ::fork();
    ASSERT_GE(process, 0);
    if (process == 0) {
      ::close(ends[0]);
      for (const One& one : all_) ::close(one.channel);
      watch(rank, ranks, options, ends[1]);
    }
    ::close(ends[1]);
    all_.push_back({process, ends[0], ""});
  }

  [[noreturn]] static void watch(int rank, int ranks, const WatchOptions& options, int channel) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const int signal : {SIGTERM, SIGSEGV}) ::signal(signal, SIG_DFL);  // a driver of the tests before may have its own handlers
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    const auto say = [channel](const std::string& line) {
      if (::send(channel, (line + "\n").data(), line.size() + 1, MSG_NOSIGNAL) < 0) ::_exit(3);
    };
    const auto hear = [channel] {
      std::string line;
      for (char byte = 0; ::recv(channel, &byte, 1, 0) == 1 && byte != '\n';) line += byte;
      return line;
    };
    try {
      FailureDetector watch(rank, host_names(ranks), options, {[&](const Loss& loss) { say(describe(loss, ranks, rank, kStep)); }, say});
      if (rank == 0) say(watch.address());
      watch.connect(hear());
      say("connected");
      hear();
      watch.goodbye();
    } catch (const std::exception& error) {
      say(error.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
};

void expect_named(Processes& job, int lost, const std::string& why) {
  for (int rank = 0; rank < job.size(); ++rank) {
    if (rank == lost) continue;
    EXPECT_EQ(job.hear(rank), fmt::format("rank {} of {} on node-{} {}; rank {} waited for {}", lost, job.size(), lost, why, rank, kStep));
  }
}

TEST(FailureWatchOfProcesses, a_rank_whose_process_is_killed_is_named_by_all_others) {
  for (const int number : {SIGKILL, SIGTERM, SIGSEGV})
    for (const int lost : {0, 2}) {
      SCOPED_TRACE(fmt::format("signal {} to rank {}", number, lost));
      Processes job(4, {.heartbeat_s = kNoHeartbeat});
      job.signal(lost, number);
      expect_named(job, lost, kClosed);
      EXPECT_EQ(WTERMSIG(job.reap(lost)), number);
      job.end();
    }
}

TEST(FailureWatchOfProcesses, a_rank_whose_process_is_stopped_is_named_by_all_others) {
  for (const int lost : {0, 2}) {
    SCOPED_TRACE(fmt::format("rank {}", lost));
    Processes job(4, {.heartbeat_s = 1});
    job.stop(lost);
    expect_named(job, lost, "has been silent for 1 s");
    job.signal(lost, SIGKILL);
    job.reap(lost);
    job.end();
  }
}

TEST(FailureWatchOfProcesses, a_rank_that_was_stopped_hears_that_it_was_lost) {
  Processes job(3, {.heartbeat_s = 1});
  job.stop(1);
  expect_named(job, 1, "has been silent for 1 s");
  job.signal(1, SIGCONT);
  EXPECT_EQ(job.hear(1), "rank 1 of 3 on node-1 has been silent for 1 s; rank 1 waited for " + kStep);
  job.end();
}

TEST(FailureWatchOfProcesses, ranks_that_are_stopped_together_lose_nobody) {
  Processes job(4, {.heartbeat_s = 1});
  for (const int first : {0, 3}) {  // the hub goes first, then last
    for (int rank = 0; rank < 4; ++rank) job.stop(std::abs(first - rank));
    EXPECT_EQ(job.hear(0, 1500ms), "");  // longer than the heartbeat
    for (int rank = 0; rank < 4; ++rank) job.signal(std::abs(first - rank), SIGCONT);
    EXPECT_EQ(job.hear(0, 1500ms), "");  // a heartbeat and more: who is missed is named by now
    for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(job.hear(rank, 1ms), "");
  }
  job.end();
}

}  // namespace
}  // namespace gemel::parallel
