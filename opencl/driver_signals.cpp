#include "opencl/driver_signals.h"

#include <dlfcn.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <string_view>

namespace gemel::opencl {
namespace {

constexpr std::array kCrashes{SIGSEGV, SIGBUS, SIGILL, SIGABRT};  // SIGFPE is PoCL's: kernels divide by zero
constexpr std::array kTaken{SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGQUIT, SIGXFSZ};
constexpr std::size_t kLongestPath = 4096;

using Action = struct sigaction;

// What a signal handler reaches.
char crash_from[kLongestPath], crash_to[kLongestPath];
std::array<Action, kCrashes.size()> before;

void mark(int signal, siginfo_t* info, void*) {
  const int error = errno;
  std::rename(crash_from, crash_to);
  const auto i = static_cast<std::size_t>(std::ranges::find(kCrashes, signal) - kCrashes.begin());
  ::sigaction(signal, &before[i], nullptr);
  errno = error;
  // A bad access is met again when this returns, and the handler of before learns where. A signal that was sent has to be sent again, and so has
  // the news of broken memory that nobody has read yet.
  if (info->si_code <= 0 || (signal == SIGBUS && info->si_code == BUS_MCEERR_AO)) ::raise(signal);
}

Action marking() {
  Action action{};
  action.sa_sigaction = mark;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;  // a stack that overflows can be told of where the thread has another
  return action;
}

Action action_of(int signal) {
  Action now{};
  ::sigaction(signal, nullptr, &now);
  return now;
}

bool is_of_llvm(const Action& action) {
  if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) return false;
  Dl_info where{};
  return ::dladdr(reinterpret_cast<void*>(action.sa_handler), &where) != 0 && where.dli_fname &&
         std::string_view(where.dli_fname).find("libLLVM") != std::string_view::npos;
}

std::mutex mutex;
bool marks = false;

}  // namespace

void rename_at_crash(const std::filesystem::path& from, const std::filesystem::path& to) {
  const std::lock_guard lock(mutex);
  if (marks || from.native().size() >= kLongestPath || to.native().size() >= kLongestPath) return;
  std::ranges::copy(from.native(), crash_from);
  std::ranges::copy(to.native(), crash_to);
  const Action action = marking();
  for (std::size_t i = 0; i < kCrashes.size(); ++i) ::sigaction(kCrashes[i], &action, &before[i]);
  marks = true;
}

void take_signals_back() {
  const std::lock_guard lock(mutex);
  static const std::array<Action, kTaken.size()> first = [] {
    std::array<Action, kTaken.size()> actions{};
    std::ranges::transform(kTaken, actions.begin(), action_of);
    return actions;
  }();
  const Action crash = marking();
  for (std::size_t i = 0; i < kTaken.size(); ++i)
    if (is_of_llvm(action_of(kTaken[i]))) ::sigaction(kTaken[i], marks && std::ranges::count(kCrashes, kTaken[i]) ? &crash : &first[i], nullptr);
}

}  // namespace gemel::opencl
