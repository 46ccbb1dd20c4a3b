#include "frontends/cli/interrupt.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace gemel::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
volatile std::sig_atomic_t noted = 0;  // a signal handler can reach nothing else

constexpr char kAnswer[] = "\ngemel: interrupted: the step under way is finished first (compiling the kernels of a first one takes a while); again ends it at once\n";

void note(int signal) {
  const int error = errno;
  if (noted) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // is held until this handler returns
    return;
  }
  noted = 1;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kAnswer, sizeof kAnswer - 1);  // an answer that nobody hears changes nothing
  errno = error;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  noted = 0;
  for (const int signal : kSignals)
    if (std::signal(signal, note) == SIG_IGN) std::signal(signal, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}
InterruptGuard::~InterruptGuard() {
  for (const int signal : kSignals)
    if (std::signal(signal, SIG_DFL) == SIG_IGN) std::signal(signal, SIG_IGN);
  std::signal(SIGPIPE, SIG_DFL);
}
bool InterruptGuard::interrupted() { return noted != 0; }

}  // namespace gemel::cli
