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
constexpr std::size_t kLongestPath = 4096;

// What a signal handler reaches.
char crash_from[kLongestPath], crash_to[kLongestPath];
std::array<struct sigaction, kCrashes.size()> before;

void mark(int signal) {
  const int error = errno;
  std::rename(crash_from, crash_to);
  const auto i = static_cast<std::size_t>(std::ranges::find(kCrashes, signal) - kCrashes.begin());
  ::sigaction(signal, &before[i], nullptr);
  errno = error;
  ::raise(signal);  // comes when this handler returns
}

struct sigaction marking() {
  struct sigaction action {};
  action.sa_handler = mark;
  return action;
}

bool is_of_llvm(const struct sigaction& action) {
  if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) return false;
  Dl_info where{};
  return ::dladdr(reinterpret_cast<void*>(action.sa_handler), &where) != 0 && where.dli_fname &&
         std::string_view(where.dli_fname).find("libLLVM") != std::string_view::npos;
}

void take_back(int signal, const struct sigaction& ours) {
  struct sigaction now {};
  if (::sigaction(signal, nullptr, &now) == 0 && is_of_llvm(now)) ::sigaction(signal, &ours, nullptr);
}

std::mutex mutex;
bool marks = false;

}  // namespace

void rename_at_crash(const std::filesystem::path& from, const std::filesystem::path& to) {
  const std::lock_guard lock(mutex);
  if (marks || from.native().size() >= kLongestPath || to.native().size() >= kLongestPath) return;
  std::ranges::copy(from.native(), crash_from);
  std::ranges::copy(to.native(), crash_to);
  const struct sigaction action = marking();
  for (std::size_t i = 0; i < kCrashes.size(); ++i) ::sigaction(kCrashes[i], &action, &before[i]);
  marks = true;
}

void take_signals_back() {
  constexpr std::array kKept{SIGQUIT, SIGXFSZ};
  static const std::array<struct sigaction, kKept.size()> first = [&] {
    std::array<struct sigaction, kKept.size()> actions{};
    for (std::size_t i = 0; i < kKept.size(); ++i) ::sigaction(kKept[i], nullptr, &actions[i]);
    return actions;
  }();
  for (std::size_t i = 0; i < kKept.size(); ++i) take_back(kKept[i], first[i]);
  const std::lock_guard lock(mutex);
  if (!marks) return;
  const struct sigaction action = marking();
  for (const int signal : kCrashes) take_back(signal, action);
}

}  // namespace gemel::opencl
