#include "opencl/pocl/driver_signals.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <system_error>

namespace gemel::opencl {
namespace {

constexpr std::array kCrashes{SIGSEGV, SIGBUS, SIGILL, SIGABRT};  // SIGFPE is PoCL's: kernels divide by zero
constexpr std::array kTaken{SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGQUIT, SIGXFSZ};
constexpr std::size_t kLongestPath = 4096;

using Action = struct sigaction;

// What a signal handler reaches.
char code_folder[kLongestPath], crash_mark[kLongestPath];
std::array<Action, kCrashes.size()> before;

/// Of the instruction that the signal came at; 0 where this processor is not known.
std::uintptr_t instruction_of(const void* context) {
  [[maybe_unused]] const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return machine.pc;
#else
  return 0;
#endif
}

/// A number in base 16, which is taken off the text.
std::uintptr_t take_address(std::string_view& text) {
  std::uintptr_t value = 0;
  for (; !text.empty(); text.remove_prefix(1)) {
    const char c = text.front();
    if (c >= '0' && c <= '9')
      value = 16 * value + static_cast<std::uintptr_t>(c - '0');
    else if (c >= 'a' && c <= 'f')
      value = 16 * value + static_cast<std::uintptr_t>(c - 'a' + 10);
    else
      break;
  }
  return value;
}

/// Appends the file's name to the mark where a line of /proc/self/maps, "BEGIN-END r-xp ... PATH", is of the folder's code at the instruction.
/// @param line  with its newline
void note_if_there(std::string_view line, std::uintptr_t instruction) {
  std::string_view range = line;
  const std::uintptr_t begin = take_address(range);
  range.remove_prefix(std::min<std::size_t>(range.size(), 1));
  const std::uintptr_t end = take_address(range);
  const std::string_view folder = code_folder;
  const std::size_t path = line.find(folder);
  if (instruction < begin || instruction >= end || path == line.npos || line.size() <= path + folder.size()) return;
  const int mark = ::open(crash_mark, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const std::string_view name = line.substr(path + folder.size());
  [[maybe_unused]] const auto written = ::write(mark, name.data(), name.size());
  ::close(mark);
}

/// Reads what is mapped where, a line at a time, by nothing but system calls.
void note_code_at(std::uintptr_t instruction) {
  static char text[2 * kLongestPath];
  std::size_t filled = 0;
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  for (ssize_t got = 0; (got = ::read(maps, text + filled, sizeof text - filled)) > 0;) {
    filled += static_cast<std::size_t>(got);
    std::string_view rest(text, filled);
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      note_if_there(rest.substr(0, end + 1), instruction);
      rest.remove_prefix(end + 1);
    }
    std::copy(rest.begin(), rest.end(), text);
    filled = rest.size();
  }
  ::close(maps);
}

void mark(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (info->si_code > 0) note_code_at(instruction_of(context));  // a fault; a signal that was sent says nothing of the code it came to
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

void note_code_at_crash(const std::filesystem::path& folder, const std::filesystem::path& file) {
  const std::lock_guard lock(mutex);
  std::error_code error;
  const std::string code = std::filesystem::canonical(folder, error).native() + "/";  // as the system names what is mapped
  if (marks || error || code.size() >= kLongestPath || file.native().size() >= kLongestPath) return;
  std::ranges::copy(code, code_folder);
  std::ranges::copy(file.native(), crash_mark);
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
