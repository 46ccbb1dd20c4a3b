// gemel launch: starts the ranks of a job with mpirun, and passes Ctrl-C on as the request to stop and save.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/file.h"
#include "frontends/cli/arguments.h"
#include "frontends/cli/command.h"

namespace gemel::cli {
namespace {

/// mpirun passes it on to the ranks, of Ctrl-C it makes their end (frontends/cli/interrupt.h).
constexpr int kStopAndSave = SIGUSR2;
volatile std::sig_atomic_t job = 0;  // process of mpirun, which leads a group of its own
volatile std::sig_atomic_t asked = 0;

void pass_on(int) {
  if (job > 0) ::kill(asked ? -static_cast<pid_t>(job) : static_cast<pid_t>(job), asked ? SIGTERM : kStopAndSave);
  asked = 1;
}

struct Launch {
  std::int64_t ranks = 0;
  std::string hosts;
  Arguments command;  // of each rank
};

/// Options of the launch come before the command that it starts.
Launch parse_launch(const Arguments& arguments) {
  const auto command = std::ranges::find_if(arguments, [](const std::string& word) { return word == "train" || word == "bench" || word == "eval"; });
  po::options_description options("options", 110);
  options.add_options()
      ("np", po::value<std::int64_t>(), "processes")
      ("hosts", po::value<std::string>()->default_value(""), "machines and their processes, such as a:2,b:2 (default: this machine)");
  const auto v = parse("launch --np N train ... --parallel ddp", "Starts the processes of a job with mpirun, with what the machine needs.", options,
                       {arguments.begin(), command});
  if (!v.count("np")) throw UsageError("launch: --np is missing; accepted: gemel launch --np 2 train --parallel ddp ...");
  if (command == arguments.end()) throw UsageError("launch: there is no command to start; accepted: gemel launch --np 2 train --parallel ddp ...");
  const std::int64_t ranks = whole_number(v, "np", 1, 1 << 20);
  const auto is_parallel = [](const std::string& word) { return word == "--parallel" || word.starts_with("--parallel="); };
  if (ranks > 1 && std::none_of(command, arguments.end(), is_parallel))
    throw UsageError(fmt::format("launch: --parallel is missing, so that each of {} processes would run for itself and write the same files; accepted: gemel launch --np {} {} --parallel ddp ...",
                                 ranks, ranks, *command));
  return {ranks, v["hosts"].as<std::string>(), {command, arguments.end()}};
}

/// Left to itself mpirun binds each of two ranks to one core.
std::vector<std::string> placement(const Launch& launch) {
  const std::int64_t processors = std::thread::hardware_concurrency();
  if (!launch.hosts.empty()) return {"--host", launch.hosts, "--bind-to", "none"};
  if (launch.ranks > processors) return {"--oversubscribe", "--bind-to", "none"};
  return {"--use-hwthread-cpus", "--map-by", fmt::format("slot:PE={}", processors / launch.ranks)};
}

std::vector<std::string> mpirun_words(const Launch& launch) {
  std::vector<std::string> words{"mpirun", "-np", std::to_string(launch.ranks)};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  const std::vector<std::string> where = placement(launch);
  words.insert(words.end(), where.begin(), where.end());
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  words.insert(words.end(), launch.command.begin(), launch.command.end());
  return words;
}

[[noreturn]] void become(std::vector<std::string> words) {
  ::setpgid(0, 0);  // the terminal's Ctrl-C is not for mpirun
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);  // a group in the background is stopped when it reads the terminal
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

/// The ranks on this machine, which mpirun itself has started.
bool has_ranks(pid_t mpirun) {
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", mpirun));
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  for (pid_t child; children >> child;) {
    std::error_code gone;
    if (std::filesystem::read_symlink(fmt::format("/proc/{}/exe", child), gone) == self) return true;
  }
  return false;
}

/// Waits for mpirun. Where its own ranks have ended it waits for those of a machine that is lost as long as TCP does: it is not waited for.
int status_of(pid_t mpirun) {
  constexpr auto kLook = std::chrono::milliseconds(50);
  constexpr int kPatience = 60;  // looks without a rank
  int status = 0, without = 0;
  for (bool had_ranks = false; ::waitpid(mpirun, &status, WNOHANG) != mpirun; std::this_thread::sleep_for(kLook)) {
    const bool has = has_ranks(mpirun);
    had_ranks = had_ranks || has;
    without = has || !had_ranks ? 0 : without + 1;
    if (without == kPatience) ::kill(-mpirun, SIGKILL);
  }
  return status;
}

}  // namespace

int launch(const Arguments& arguments) {
  const std::vector<std::string> words = mpirun_words(parse_launch(arguments));
  const pid_t child = ::fork();
  if (child < 0) throw Error("launch: no process can be made: " + system_message(errno));
  if (child == 0) become(words);
  job = child;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, pass_on);
  const int status = status_of(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) throw Error("launch: mpirun cannot be started; accepted: Open MPI, of the package openmpi-bin");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

}  // namespace gemel::cli
