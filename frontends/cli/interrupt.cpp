#include "frontends/cli/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace gemel::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
volatile std::sig_atomic_t noted = 0;  // a signal handler can reach nothing else

constexpr char kAnswer[] = "\ngemel: interrupted: the step under way is finished first, and the kernels of a first step take a while; again ends it at once\n";

void note(int signal) {
  noted = 1;
  std::signal(signal, SIG_DFL);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kAnswer, sizeof kAnswer - 1);  // an answer that nobody hears changes nothing
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
