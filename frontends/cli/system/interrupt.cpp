#include "frontends/cli/system/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <mutex>

namespace gemel::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};  // the last one mpirun passes on to its processes
std::mutex guards_mutex;
int guards = 0;  // that live: the replicas of a process have one each
volatile std::sig_atomic_t noted = 0, answers = 1;
std::atomic<long> noted_at = 0;     // milliseconds of the first one; lock-free, as what a signal handler reaches must be
constexpr long kSameRequest = 500;  // milliseconds: `timeout` and some terminals signal the process and then its group
static_assert(std::atomic<long>::is_always_lock_free);

constexpr char kAnswer[] =
    "\ngemel: interrupted: the step under way is finished first (compiling the kernels of a first one takes a while); again ends it at once\n";

long milliseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return 1000 * now.tv_sec + now.tv_nsec / 1000000;
}

void note(int signal) {
  const int error = errno;
  if (noted && milliseconds() - noted_at < kSameRequest) return;
  if (noted) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // is held until this handler returns
    return;
  }
  noted_at = milliseconds();
  noted = 1;
  if (answers) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kAnswer, sizeof kAnswer - 1);  // an answer that nobody hears changes nothing
  }
  errno = error;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  const std::lock_guard lock(guards_mutex);
  if (guards++) return;
  noted = 0;
  for (const int signal : kSignals)
    if (std::signal(signal, note) == SIG_IGN) std::signal(signal, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}
InterruptGuard::~InterruptGuard() {
  const std::lock_guard lock(guards_mutex);
  if (--guards) return;
  for (const int signal : kSignals)
    if (std::signal(signal, SIG_DFL) == SIG_IGN) std::signal(signal, SIG_IGN);
  std::signal(SIGPIPE, SIG_DFL);
}
/// A driver's compiler may have taken a signal for its own messages, as LLVM takes the last two: it is taken back.
bool InterruptGuard::interrupted() {
  if (noted) return true;
  for (const int signal : kSignals) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN && now.sa_handler != note) std::signal(signal, note);
  }
  return noted != 0;
}

void InterruptGuard::leave_answer_to_another() { answers = 0; }

}  // namespace gemel::cli
