#include "opencl/program/compiler_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <system_error>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "opencl/program/compile_request.h"

extern char** environ;

namespace gemel::opencl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "gemel-compile";
constexpr const char* kCacheVariable = "POCL_CACHE_DIR=";

std::vector<std::string> environment_with(const fs::path& cache) {
  std::vector<std::string> out;
  for (char** variable = environ; *variable; ++variable)
    if (cache.empty() || !std::string_view(*variable).starts_with(kCacheVariable)) out.emplace_back(*variable);
  if (!cache.empty()) out.push_back(kCacheVariable + cache.string());
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

/// What posix_spawn is told: descriptors, a process group of its own, which a terminal's signals do not reach, and signals as a program expects them.
class Start {
 public:
  Start(int input, int error) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, error, STDERR_FILENO);
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
  /// @return zero, or the system's error number
  int run(const fs::path& program, std::vector<std::string> words, std::vector<std::string> environment, pid_t& process) const {
    return ::posix_spawn(&process, program.c_str(), &actions_, &attributes_, pointers(words).data(), pointers(environment).data());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

/// LLVM's own line where there is one, else the last that says something.
std::string reason_in(const std::string& text) {
  std::istringstream in(text);
  std::string reason;
  for (std::string line; std::getline(in, line);) {
    if (line.find("LLVM ERROR: ") != std::string::npos || line.find("Assertion ") != std::string::npos) return line;
    if (!line.empty()) reason = line;
  }
  return reason;
}

}  // namespace

fs::path CompilerProcess::program() {
  std::error_code none;
  const fs::path self = fs::read_symlink("/proc/self/exe", none).parent_path();
  for (const fs::path& folder : {self, self.parent_path() / "libexec" / "gemel", fs::path(GEMEL_PROGRAM_FOLDER), fs::path(GEMEL_BUILD_FOLDER)})
    if (const fs::path program = folder / kProgram; program.is_absolute() && ::access(program.c_str(), X_OK) == 0) return program;
  return {};
}

CompilerProcess::CompilerProcess(const Device& device, const fs::path& cache) : cache_(cache) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw DeviceError(fmt::format("{}: no socket: {}", kProgram, system_message(errno)));
  socket_ = Descriptor(ends[0]);
  const Descriptor its(ends[1]);
  said_ = Descriptor(::memfd_create(kProgram, MFD_CLOEXEC));
  const fs::path program = CompilerProcess::program();
  if (const int error = Start(its.get(), said_.get()).run(program, {program.string(), device.platform, device.name}, environment_with(cache), process_))
    throw DeviceError(fmt::format("{} does not start: {}", program.empty() ? kProgram : program.string(), system_message(error)));
}

CompilerProcess::~CompilerProcess() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);  // it may be running what it compiled
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

CompilerProcess::Answer CompilerProcess::ask(std::string_view request) {
  std::string answer;
  if (!send_message(socket_.get(), request) || !receive_message(socket_.get(), answer)) return Answer::ended;
  return receive_message(socket_.get(), answer) ? Answer::compiled : Answer::ended_over_it;
}

std::optional<std::string> CompilerProcess::crash() {
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  const std::array crashes{SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
  if (!WIFSIGNALED(status) || std::ranges::find(crashes, WTERMSIG(status)) == crashes.end()) return std::nullopt;
  const std::string said = last_words();
  return said.empty() ? ::strsignal(WTERMSIG(status)) : said;
}

std::string CompilerProcess::last_words() const {
  std::string text(1 << 16, '\0');
  const ssize_t read = ::pread(said_.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(read, 0)));
  return reason_in(text);
}

}  // namespace gemel::opencl
