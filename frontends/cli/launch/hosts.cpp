#include "frontends/cli/launch/hosts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/cli/launch/mpirun.h"
#include "frontends/cli/system/find_program.h"

namespace gemel::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kWithin{5};
constexpr std::size_t kMostOutput = 4096;  // bytes that are kept of an answer

bool is_installed(const std::string& program) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), X_OK) == 0;
  return !programs_in_path(program).empty();
}

constexpr const char* kAgentVariables[] = {"PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent"};  // of Open MPI 5, and of those before

/// Empty: none was given.
std::string given_agent() {
  for (const char* variable : kAgentVariables)
    if (const char* given = std::getenv(variable); given && *given) return given;
  return "";
}

/// As mpirun chooses: of several, with colons between, the first that is installed.
Arguments agent() {
  const std::string given = given_agent();
  std::istringstream all(given.empty() ? "ssh : rsh" : given);
  Arguments first;
  for (std::string one; std::getline(all, one, ':');) {
    std::istringstream in(one);
    Arguments words;
    for (std::string word; in >> word;) words.push_back(word);
    if (!words.empty() && is_installed(words[0])) return words;
    if (first.empty()) first = words;
  }
  return first;
}

/// 127.0.1.1 too, which some systems give their own name and no interface.
bool is_loopback(const sockaddr* a) {
  return a->sa_family == AF_INET && ntohl(reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool is_same(const sockaddr* a, const sockaddr* b) {
  if (a == nullptr || b == nullptr || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr == reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr, &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

std::vector<char*> argv_of(Arguments& words) {
  std::vector<char*> out;
  for (std::string& w : words) out.push_back(w.data());
  out.push_back(nullptr);
  return out;
}

/// A process that asks one machine. It has no terminal, on which ssh would ask for a password.
class Question {
 public:
  Question(const std::string& host, const Arguments& command) : answer_{host, {}, {}} {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("launch: no pipe can be made: " + system_message(errno));
    process_ = ::fork();
    if (process_ == 0) ask(command, ends[1]);
    ::close(ends[1]);
    output_ = ends[0];
    ::fcntl(output_, F_SETFL, O_NONBLOCK);
    if (process_ < 0) throw Error("launch: no process can be made: " + system_message(errno));
  }
  ~Question() {
    if (process_ > 0) {
      ::kill(-process_, SIGKILL);
      ::kill(process_, SIGKILL);  // it may not lead its group yet
      ::waitpid(process_, nullptr, 0);
    }
    ::close(output_);
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  int output() const { return output_; }
  const HostAnswer& answer() const { return answer_; }
  /// Takes what was said. @return whether the answer is there
  bool look() {
    if (process_ <= 0) return true;
    int status = 0;
    const bool ended = ::waitpid(process_, &status, WNOHANG) == process_;
    std::array<char, kMostOutput> bytes;
    for (ssize_t count; (count = ::read(output_, bytes.data(), bytes.size())) > 0;)
      answer_.output.append(bytes.data(), std::min(static_cast<std::size_t>(count), kMostOutput - std::min(kMostOutput, answer_.output.size())));
    if (!ended) return false;
    process_ = 0;
    answer_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
  }

 private:
  HostAnswer answer_;
  pid_t process_ = 0;
  int output_ = -1;

  [[noreturn]] void ask(const Arguments& command, int output) const {
    ::setsid();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(output, stream);
    Arguments words = is_here(answer_.host) ? Arguments() : agent();
    if (!words.empty()) words.push_back(answer_.host);
    words.insert(words.end(), command.begin(), command.end());
    const std::vector<char*> argv = argv_of(words);
    ::execvp(argv[0], argv.data());
    const std::string why = argv[0] + (": " + system_message(errno)) + "\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, why.data(), why.size());
    ::_exit(127);
  }
};

}  // namespace

bool is_here(const std::string& host) {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  if (host == "localhost" || host == name.data()) return true;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, nullptr, &found) != 0) return false;
  ifaddrs* own = nullptr;
  if (::getifaddrs(&own) != 0) own = nullptr;
  bool is = false;
  for (const addrinfo* f = found; f; f = f->ai_next) {
    is = is || is_loopback(f->ai_addr);
    for (const ifaddrs* o = own; o; o = o->ifa_next) is = is || is_same(f->ai_addr, o->ifa_addr);
  }
  ::freeaddrinfo(found);
  if (own) ::freeifaddrs(own);
  return is;
}

std::string HostAnswer::first_line() const { return output.substr(0, output.find('\n')); }

std::string HostAnswer::why() const {
  if (!status) return fmt::format("no answer within {} s", kWithin.count());
  const std::size_t end = output.find_last_not_of(" \r\n");
  if (end == std::string::npos) return fmt::format("{} ended with status {}", fmt::join(agent(), " "), *status);
  const std::size_t begin = output.find_last_of("\r\n", end);
  return output.substr(begin == std::string::npos ? 0 : begin + 1, end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

std::vector<HostAnswer> ask_hosts(const std::vector<Host>& hosts, const Arguments& command) {
  constexpr int kLookMilliseconds = 20;
  std::vector<std::unique_ptr<Question>> questions;
  for (const Host& host : hosts) questions.push_back(std::make_unique<Question>(host.name, command));
  const auto until = Clock::now() + kWithin;
  const auto all_there = [&] { return std::ranges::count_if(questions, [](const auto& q) { return !q->look(); }) == 0; };
  while (!all_there() && Clock::now() < until && !stop_asked()) ::poll(nullptr, 0, kLookMilliseconds);
  std::vector<HostAnswer> out;
  for (const auto& q : questions) out.push_back(q->answer());
  return out;
}

void share_agent() {
  const std::string given = given_agent();
  if (given.empty()) return;
  for (const char* variable : kAgentVariables) ::setenv(variable, given.c_str(), 1);
}

std::vector<HostAnswer> silent_hosts(const std::vector<Host>& hosts) {
  std::vector<HostAnswer> out = ask_hosts(hosts, {"true"});
  std::erase_if(out, [](const HostAnswer& a) { return a.is_good(); });
  return out;
}

std::string text_of_silence(const std::vector<HostAnswer>& silent) {
  std::string out;
  for (const HostAnswer& a : silent) out += fmt::format("{}host {} does not answer: {}", out.empty() ? "" : "; ", a.host, a.why());
  return out;
}

void require_answers(const std::vector<Host>& hosts) {
  const std::vector<HostAnswer> silent = silent_hosts(hosts);
  if (stop_asked()) throw Error("launch: interrupted before the job began");
  if (!silent.empty())
    throw Error(
        fmt::format("launch: {}; accepted: hosts on which `{} HOST true` succeeds without a password", text_of_silence(silent), fmt::join(agent(), " ")));
}

}  // namespace gemel::cli
