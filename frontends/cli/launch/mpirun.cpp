#include "frontends/cli/launch/mpirun.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/resource_limits.h"
#include "engine/base/text/shell_quote.h"
#include "engine/base/usage/process_state.h"
#include "frontends/cli/launch/hosts.h"
#include "frontends/cli/launch/mpirun_network.h"
#include "frontends/cli/launch/mpirun_stderr.h"
#include "frontends/cli/system/console.h"

namespace gemel::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// mpirun passes it on to the ranks, of Ctrl-C it makes their end (frontends/cli/system/interrupt.h).
constexpr int kStopAndSave = SIGUSR2;
constexpr int kStopRequests[] = {SIGINT, SIGTERM, SIGHUP};
volatile std::sig_atomic_t job = 0;  // process of mpirun, which leads a group of its own
volatile std::sig_atomic_t asked = 0;
volatile std::sig_atomic_t quits = 0;

/// The first request is passed on when the ranks can note it (`status_of`), the second one ends them.
void note_request(int) {
  if (asked && job > 0)
    ::kill(-static_cast<pid_t>(job), SIGTERM);
  else if (asked)
    ::_exit(1);
  asked = 1;
}

/// Ctrl-\ ends all at once; the ranks are in groups of their own.
void note_quit(int signal) {
  if (job > 0) {
    quits = 1;
    return;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// No request is lost between a look whether there was one and the start that it would have stopped.
class HeldStopRequests {
 public:
  HeldStopRequests() {
    sigset_t requests;
    ::sigemptyset(&requests);
    for (const int signal : kStopRequests) ::sigaddset(&requests, signal);
    ::sigprocmask(SIG_BLOCK, &requests, &before_);
  }
  ~HeldStopRequests() { release(); }
  HeldStopRequests(const HeldStopRequests&) = delete;
  HeldStopRequests& operator=(const HeldStopRequests&) = delete;
  void release() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

/// A terminal, or one file. mpirun passes on each stream of a rank by itself, so that lines of two would come in any order.
bool streams_end_in_one_place() {
  struct stat output {
  }, errors{};
  return ::fstat(STDOUT_FILENO, &output) == 0 && ::fstat(STDERR_FILENO, &errors) == 0 && output.st_dev == errors.st_dev && output.st_ino == errors.st_ino;
}

std::filesystem::path own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

/// mpirun would ask an agent for this machine by most of its own names and addresses.
std::vector<Host> as_mpirun_knows(std::vector<Host> hosts) {
  for (Host& host : hosts)
    if (is_here(host.name)) host.name = "localhost";
  return hosts;
}

/// Says all that a site's policy would say otherwise. Left to itself mpirun binds each of two ranks to one core; and it binds to cores outside of this
/// process's mask, which ranks that are not bound inherit.
Arguments placement(const LaunchOptions& launch) {
  if (!launch.hosts.empty()) return {"--host", text_of(as_mpirun_knows(launch.hosts)), "--map-by", "slot", "--bind-to", "none"};
  const AllowedCores cores = allowed_cores();
  if (launch.outlives_ranks || launch.ranks > cores.count() || !cores.is_whole_machine()) return {"--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none"};
  return {"--use-hwthread-cpus", "--map-by", fmt::format("slot:PE={}", cores.count() / launch.ranks), "--bind-to", "hwthread"};
}

/// `-x NAME` for what ranks of all machines get of this environment.
Arguments passed_on(const LaunchOptions& launch) {
  std::set<std::string> names{Launched::kVariable};
  for (char** one = environ; one && *one; ++one) {
    const std::string_view variable = *one;
    if (variable.starts_with("GEMEL_") || variable.starts_with("HOROVOD_")) names.emplace(variable.substr(0, variable.find('=')));
  }
  for (const auto& [name, value] : launch.environment) names.insert(name);
  Arguments out;
  for (const std::string& name : names) out.insert(out.end(), {"-x", name});
  return out;
}

/// @param ours  what is for the launcher alone
Arguments command_line_of(const LaunchOptions& launch, const Arguments& ours) {
  Arguments words{"mpirun", "-np", std::to_string(launch.ranks)};
  words.insert(words.end(), ours.begin(), ours.end());
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  if (launch.outlives_ranks) words.emplace_back("--enable-recovery");  // of Open MPI 4 and 5: it then ends with 0, whatever becomes of its ranks
  for (const Arguments& more : {placement(launch), Arguments{own_program().string()}, launch.command}) words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// @param errors  its standard error
[[noreturn]] void become(Arguments words, const LaunchOptions& launch, const Launched& launched, int errors) {
  ::setpgid(0, 0);  // the terminal's Ctrl-C is not for mpirun
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (const auto& [name, value] : launch.environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv(Launched::kVariable, launched.text().c_str(), 1);
  share_agent();
  ::dup2(errors, STDERR_FILENO);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);  // a group in the background is stopped when it reads the terminal
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

/// Of Open MPI's words the first page, which tells the cause of those that follow; where there is none, the first line. Of a long page its beginning.
std::string first_of(const std::vector<std::string>& words) {
  constexpr std::size_t kMost = 600;
  const auto page = std::ranges::find_if(words, [](const std::string& w) { return w.ends_with('\n'); });
  std::istringstream in(page == words.end() ? words.front() : *page);
  std::string out;
  for (std::string word; in >> word;) {
    if (out.size() + word.size() > kMost) return out + " ...";
    out += (out.empty() ? "" : " ") + word;
  }
  return out;
}

/// Those of this machine, which mpirun itself has started.
std::vector<pid_t> ranks_of(pid_t mpirun) {
  std::vector<pid_t> out;
  const std::filesystem::path self = own_program();
  for (const pid_t child : children_of(mpirun)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(fmt::format("/proc/{}/exe", child), gone) == self) out.push_back(child);
  }
  return out;
}

/// Whether a rank has begun to note requests: before that the signal would end it, and mpirun drops what it has no ranks for.
bool notes_requests(pid_t rank) { return has_handler(rank, kStopAndSave); }

void end_at_once(pid_t mpirun) {
  for (const pid_t rank : ranks_of(mpirun)) ::kill(rank, SIGKILL);
  ::kill(-mpirun, SIGKILL);
}

/// Waits for mpirun. Where a machine is lost it would wait for that one as long as TCP does: its own ranks have ended then, or a rank has told of
/// the loss, and it is ended. Where ranks say that they lost rank 0, rank 0 has a moment to say that it goes on without them.
JobEnd end_of(pid_t mpirun, const Launched& launched, const MpirunErrors& errors) {
  constexpr milliseconds kLook{50}, kLookForLosses{500};
  constexpr seconds kWithoutRanks{3}, kAfterLoss{5}, kStart{10}, kForRank0{3};
  std::optional<Clock::time_point> end;
  bool passed_on = false;
  std::size_t most = 0;  // ranks seen at once
  JobEnd out;
  const auto begin = Clock::now();
  auto next_look = begin;
  int status = 0;
  for (; ::waitpid(mpirun, &status, WNOHANG) != mpirun; std::this_thread::sleep_for(kLook)) {
    if (quits) end_at_once(mpirun);
    const auto now = Clock::now();
    const std::vector<pid_t> ranks = ranks_of(mpirun);
    const bool has = !ranks.empty();
    out.had_ranks = out.had_ranks || has;
    out.began = out.began || std::ranges::any_of(ranks, notes_requests);
    if (stop_asked() && !passed_on && ((has && std::ranges::all_of(ranks, notes_requests)) || now > begin + kStart)) {
      ::kill(mpirun, kStopAndSave);
      passed_on = true;
    }
    if (out.had_ranks && !has && !end) end = now + kWithoutRanks;
    if (launched.survives && !end) {
      most = std::max(most, ranks.size());
      const ToldByRanks& told = errors.told();
      // Those that wait for it in MPI's initialisation wait for ever.
      out.lost_early = !told.ranks_may_be_lost() && !told.status() && !told.loss_of_rank_0(now) && ranks.size() < most;
      if (told.status() || out.lost_early) end = now + kAfterLoss;
      if (told.loss_of_rank_0(now - kForRank0)) end = now;
    }
    if (now >= next_look) {
      next_look = now + kLookForLosses;
      if (!end && !told_losses(launched).empty()) end = now + kAfterLoss;
    }
    if (end && now > *end) end_at_once(mpirun);
  }
  out.status = WIFSIGNALED(status) ? JobEnd::kOfSignal + WTERMSIG(status) : WEXITSTATUS(status);
  return out;
}

/// For mpirun, which ends with 0 whatever becomes of ranks.
void tell_how_it_ended(const ToldByRanks& ranks, const Launched& launched, JobEnd& end) {
  const auto loss = ranks.loss_of_rank_0(Clock::now());
  if (end.status == 0 || ranks.status() || loss) end.status = ranks.status().value_or(Launched::kToldFailure);
  if (ranks.status() || loss) end.lost_early = false;  // a line has said why
  if (!loss) return;
  say("gemel: {}\n", loss->lost.text());
  tell_loss(launched, loss->by, loss->lost);
}

}  // namespace

void note_stop_requests() {
  for (const int signal : kStopRequests) std::signal(signal, note_request);
  std::signal(SIGQUIT, note_quit);
}

bool stop_asked() { return asked != 0; }

JobEnd run_mpirun(const LaunchOptions& launch, Launched launched) {
  launched.survives = launch.outlives_ranks && !launched.checks;
  launched.joins_streams = streams_end_in_one_place();
  choose_network(launch.hosts);
  const Arguments words = command_line_of(launch, passed_on(launch));
  MpirunErrors errors;
  {
    const HeldStopRequests held;
    if (stop_asked()) return {.status = 1};
    const pid_t child = ::fork();
    if (child < 0) throw Error("launch: no process can be made: " + system_message(errno));
    if (child == 0) {
      held.release();
      become(words, launch, launched, errors.end_for_mpirun());
    }
    job = child;
  }
  errors.begin();
  JobEnd end = end_of(job, launched, errors);
  job = 0;
  end.words = errors.finish();
  if (launched.survives) tell_how_it_ended(errors.told(), launched, end);
  if (quits) {
    std::signal(SIGQUIT, SIG_DFL);
    std::raise(SIGQUIT);
  }
  if (end.status == 127) throw Error("launch: mpirun cannot be started; accepted: Open MPI, of the package openmpi-bin");
  return end;
}

std::string JobEnd::signal_text() const { return fmt::format("signal {} ({}) ended it", status - kOfSignal, ::strsignal(status - kOfSignal)); }

std::string text_of(const JobEnd& end, const LaunchOptions& launch) {
  Arguments words = command_line_of(launch, {});
  for (std::string& w : words) w = shell_word(w);
  const std::string said = end.words.empty() ? "" : fmt::format(" ({})", first_of(end.words));
  return fmt::format("mpirun ended with status {}{}; where no line above says why, Open MPI does to `{}`, and `gemel doctor` looks for what is wrong here",
                     end.status, said, fmt::join(words, " "));
}

int exit_status(const JobEnd& end, const LaunchOptions& launch) {
  if (end.status == 0 || end.status == kWrongUsage) return end.status;
  if (end.lost_early) throw Error("launch: a rank was lost before training began");
  if (end.status == Launched::kToldFailure || stop_asked()) return 1;
  if (end.by_signal() && end.began && launch.ranks > 1) return 1;  // of which the others tell
  if (end.by_signal() && end.began) throw Error("launch: the rank was lost: " + end.signal_text());
  throw Error("launch: " + text_of(end, launch));
}

}  // namespace gemel::cli
