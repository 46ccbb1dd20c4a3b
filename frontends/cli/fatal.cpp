#include "frontends/cli/fatal.h"

#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include "engine/base/error.h"
#include "frontends/cli/job/launch_messages.h"

namespace gemel::cli {
namespace {

[[noreturn]] void die(std::string_view line, int status = Launched::failed()) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());  // nobody is left to tell
  ::_exit(status);
}

template <int kStatus>
void on_abort(int) {
  die("gemel: a library gave up and ended the program (what it said stands above); where memory is limited (ulimit -v) more of it may help\n", kStatus);
}

[[noreturn]] void on_terminate() {
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {  // a fixed text: there may be no memory for another
    die("gemel: out of memory in a driver or library; accepted: a higher limit (ulimit -v), a smaller --batch-size, --input or --threads\n");
  } catch (const std::exception& e) {
    die("gemel: " + worded(e) + "\n");
  } catch (...) {
  }
  die("gemel: a library threw what nothing caught\n");
}

}  // namespace

void end_with_a_line() {
  std::set_terminate(on_terminate);
  struct sigaction action {};
  constexpr int kAborted = 128 + SIGABRT;  // to a launcher, which starts the job again, as after any signal
  action.sa_handler = Launched::is_rank() ? on_abort<kAborted> : on_abort<1>;
  ::sigaction(SIGABRT, &action, nullptr);
}

void end_at_quit() {
  struct sigaction now {};
  if (::sigaction(SIGQUIT, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;
  sigset_t quit;
  ::sigemptyset(&quit);
  ::sigaddset(&quit, SIGQUIT);
  ::pthread_sigmask(SIG_BLOCK, &quit, nullptr);  // of all threads: those that start later have it from this one
  std::thread([quit] {
    int signal = 0;
    ::sigwait(&quit, &signal);
    ::pthread_sigmask(SIG_UNBLOCK, &quit, nullptr);
    for (int i = 0; i < 10; ++i) {  // a compiler's handler may take its place between the two
      std::signal(SIGQUIT, SIG_DFL);
      ::raise(SIGQUIT);
    }
    ::_exit(128 + SIGQUIT);  // of the first process of a container, which no signal ends
  }).detach();
}

}  // namespace gemel::cli
