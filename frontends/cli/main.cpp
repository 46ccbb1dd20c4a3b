// The `gemel` program.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <thread>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "engine/base/error.h"
#include "frontends/cli/command.h"
#include "frontends/cli/doctor/health_check.h"
#include "frontends/cli/fatal.h"
#include "frontends/cli/job/job.h"
#include "frontends/cli/job/launch_messages.h"
#include "frontends/cli/options/arguments.h"
#include "frontends/cli/standard_output.h"
#include "frontends/cli/system/build_info.h"
#include "parallel/transport/mpi_communicator.h"

namespace gemel::cli {
namespace {

struct Command {
  const char *name, *about;
  int (*run)(const Arguments&);
};
constexpr std::array kCommands{
    Command{"devices", "lists every OpenCL platform and device", devices},
    Command{"summary", "a table of a model's layers: shapes, parameters, FLOPs, memory", summary},
    Command{"train", "trains a model", train},
    Command{"launch", "starts the processes of a job with mpirun, and again where one is lost", launch},
    Command{"eval", "loss and accuracy of a weight file on a data set", eval},
    Command{"infer", "runs a model on an array of inputs", infer},
    Command{"generate", "a language model goes on from a text", generate},
    Command{"bench", "measures training and inference, case by case", bench},
    Command{"study", "published comparisons on this machine, with a report", study},
    Command{"monitor", "runs as they go, on a page in the browser", monitor},
    Command{"roofline", "counts what each operator of a step moves and computes, against the device's bounds", roofline},
    Command{"tune", "measures kernel variants on this device and keeps the best", tune},
    Command{"tokenize", "texts to the numbers of a vocabulary", tokenize},
    Command{"ops", "the operator reference", ops},
    Command{"doctor", "what this machine has, what is odd or wrong with it, and what mends it", doctor},
};

/// One line, whatever a file's contents brought into the message. Nothing is thrown where standard error is closed or full.
void print_error(std::string_view what) {
  std::string line = "gemel: ";
  for (const char c : what) {
    if (c == '\n')
      line += "\\n";
    else if (static_cast<unsigned char>(c) < ' ' || c == '\x7f')
      line += fmt::format("\\x{:02x}", c);
    else
      line += c;
  }
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void print_usage(std::FILE* to) {
  fmt::print(to, "usage: gemel COMMAND [options]\n\n");
  for (const Command& c : kCommands) fmt::print(to, "  {:<9} {}\n", c.name, c.about);
  fmt::print(to, "\n`gemel COMMAND --help` lists a command's options.\n");
}

int run(const std::string& name, const Arguments& rest) {
  if (name == "--help" || name == "-h" || name == "help") {
    print_usage(stdout);
    return 0;
  }
  if (name == "--version") {
    fmt::print("gemel {} ({})\n", GEMEL_VERSION, commit());
    return 0;
  }
  for (const Command& c : kCommands)
    if (name == c.name) return c.run(rest);
  std::vector<std::string> names;
  for (const Command& c : kCommands) names.emplace_back(c.name);
  const std::string near = nearest(name, names);
  throw UsageError(fmt::format("command '{}' is unknown{}; `gemel --help` lists them", name, near.empty() ? "" : ", did you mean '" + near + "'?"));
}

/// Of the processes of a job, which were started with one command line, the first says what is wrong with it. Variables that a job has left behind make no
/// process one of its ranks.
bool speaks_for_all() {
  try {
    const auto launch = parallel::mpi_launch();
    return !launch || launch->rank == 0 || !is_rank_of_live_job();
  } catch (const CommError&) {
    return true;
  }
}

/// Open MPI ends all processes of a job where one has failed, and since version 5 (which sets the variable) at once: those that leave it to the first one
/// to say why wait for its end, which is theirs. Where that one sees nothing wrong, for it was started with other words, they end by themselves.
void leave_last_word() {
  constexpr std::chrono::seconds kAtMost{5};
  if (std::getenv("PRTE_LAUNCHED")) std::this_thread::sleep_for(kAtMost);
}

/// Of a process that failed before or beside a job, which tells its own end: mpirun ends with 0 where the launcher lets others outlive it.
void tell_of_end(int status) noexcept {
  try {
    if (Launched::here().survives) tell_end(status);
  } catch (const std::exception&) {
    // The variable is not the launcher's, which is what failed.
  }
}

/// glibc keeps freed blocks for itself, ever larger ones the more of them it has seen: 18 MiB beside resnet50 at batch 1.
void give_back_large_blocks() {
#ifdef __GLIBC__
  constexpr int kLarge = 4 << 20, kKept = 1 << 20;  // bytes: of a block, and at the end of the heap
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_TRIM_THRESHOLD, kKept);
#endif
}

}  // namespace
}  // namespace gemel::cli

int main(int count, char** values) {
  using namespace gemel;
  cli::give_back_large_blocks();
  cli::end_with_a_line();
  const std::vector<std::string> arguments(values + 1, values + count);
  if (arguments.empty()) {
    cli::print_usage(stderr);
    return cli::kWrongUsage;
  }
  if (arguments[0] != "launch") cli::end_at_quit();  // which ends its job's processes first
  try {
    return cli::run_and_print([&] { return cli::run(arguments[0], {arguments.begin() + 1, arguments.end()}); });
  } catch (const cli::ReportedError& told) {
    return told.status;
  } catch (const UsageError& e) {
    if (cli::speaks_for_all()) {
      cli::print_error(e.what());
      cli::tell_of_end(cli::kWrongUsage);
    } else {
      cli::leave_last_word();
    }
    return cli::kWrongUsage;
  } catch (const std::exception& e) {
    cli::print_error(worded(e));
    cli::tell_of_end(cli::Launched::failed());
    return cli::Launched::failed();
  }
}
