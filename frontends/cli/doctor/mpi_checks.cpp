// gemel doctor: mpirun, and an all-reduce of two ranks that it starts as gemel launch does.
#include "frontends/cli/doctor/mpi_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/resource_limits.h"
#include "engine/base/text/shell_quote.h"
#include "frontends/cli/doctor/health_check.h"
#include "frontends/cli/job/job.h"
#include "frontends/cli/launch/hosts.h"
#include "frontends/cli/launch/mpirun.h"
#include "frontends/cli/launch/mpirun_environment.h"
#include "frontends/cli/system/find_program.h"
#include "opencl/device/device.h"
#include "parallel/transport/mpi_communicator.h"

namespace gemel::cli {
namespace {

namespace fs = std::filesystem;
constexpr const char* kMarker = "gemel doctor: ";
constexpr std::int64_t kElements = 1 << 18;  // that two ranks add

MpiVersion version_of(const fs::path& mpirun) {
  const std::vector<HostAnswer> answers = ask_hosts({{"localhost", 1}}, {mpirun.string(), "--version"});
  return answers.front().is_good() ? parse_mpi_version(answers.front().output) : MpiVersion{};
}

/// Another mpirun that fits, and how it becomes the first.
std::string remedy_of_mpirun(const std::vector<fs::path>& all, const MpiVersion& linked) {
  std::vector<fs::path> others(all.begin() + 1, all.end());
  for (const char* folder : {"/usr/bin", "/usr/local/bin", "/usr/lib64/openmpi/bin", "/usr/lib64/mpich/bin"})
    if (const auto found = program_in(folder, "mpirun"); found && std::ranges::find(all, *found) == all.end()) others.push_back(*found);
  for (const fs::path& other : others)
    if (version_of(other) == linked) return fmt::format("export PATH={}:$PATH", shell_word(other.parent_path().string()));
  for (const char* name : {"mpirun.openmpi", "mpirun.mpich"})
    if (const auto found = program_in("/usr/bin", name); found && version_of(*found) == linked)
      return as_root(fmt::format("update-alternatives --set mpirun {}", found->string()));
  return fmt::format("the mpirun of {}, first in PATH; or Gemel built with the MPI that is first", linked.text());
}

Finding mpirun() {
  const MpiVersion linked = parse_mpi_version(parallel::mpi_library());
  const std::vector<fs::path> all = programs_in_path("mpirun");
  if (all.empty())
    return {Health::odd, fmt::format("there is none in PATH, so that gemel launch starts nothing; linked with {}", linked.text()),
            "the package that has it, openmpi-bin for one, or its folder in PATH"};
  const MpiVersion first = version_of(all.front());
  const std::string text = fmt::format("{}: {}; linked with {}", all.front().string(), first.text(), linked.text());
  if (first == linked) return {Health::ok, text};
  if (first.family == linked.family && first.major() == linked.major()) return {Health::odd, text, remedy_of_mpirun(all, linked)};
  return {Health::wrong, text + ": its ranks do not find each other", remedy_of_mpirun(all, linked)};
}

Finding slots() {
  const int cores = allowed_cores().count();
  std::string text = fmt::format("{}, one for each core; gemel launch starts up to 16 ranks a core", cores);
  for (const char* variable : {"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"})
    if (const std::string file = opencl::from_environment(variable); !file.empty())
      return {Health::odd, fmt::format("{}; mpirun by itself takes those of {}, which {} names; gemel launch hides it", text, file, variable),
              fmt::format("unset {}", variable)};
  std::ifstream site("/etc/openmpi/openmpi-default-hostfile");
  for (std::string line; std::getline(site, line);)
    if (const auto begin = line.find_first_not_of(" \t"); begin != std::string::npos && line[begin] != '#')
      return {Health::odd, text + "; mpirun takes those of /etc/openmpi/openmpi-default-hostfile", "an empty file in its place"};
  return {Health::ok, text};
}

/// The words of a job that failed: without rules, banners and what was said twice.
std::string said_by(const std::string& printed) {
  constexpr std::size_t kMost = 400;
  std::vector<std::string> parts;
  std::istringstream in(printed);
  for (std::string line; std::getline(in, line);) {
    const auto begin = line.find_first_not_of(" \t-"), end = line.find_last_not_of(" \t\r");
    if (begin == std::string::npos || std::ranges::find(parts, line.substr(begin, end - begin + 1)) != parts.end()) continue;
    parts.push_back(line.substr(begin, end - begin + 1));
  }
  return fmt::format("{}", fmt::join(parts, " ")).substr(0, kMost);
}

void all_reduce(Report& report) {
  constexpr std::chrono::milliseconds kLimit{9000};
  report.begin("all-reduce", kLimit);
  if (is_rank_of_live_job()) return report.add({Health::ok, "not tried: this process is of a job itself"});
  if (programs_in_path("mpirun").empty()) return report.add({Health::odd, "not tried: there is no mpirun"});
  hide_other_placements();
  if (const auto why = mpirun_cannot()) throw Error(*why);
  const auto begin = std::chrono::steady_clock::now();
  const LaunchOptions launch{.ranks = 2, .command = {"doctor"}};
  const JobEnd end = run_mpirun(launch, {});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const std::string printed = report.printed();
  const auto marker = printed.find(kMarker);
  if (marker == std::string::npos) {
    const std::string how = text_of(end, launch), said = said_by(printed);
    return report.add(
        {Health::wrong, fmt::format("two ranks come to no end: {}{}", how.substr(0, how.find("; where no line")), said.empty() ? "" : "; it said: " + said)});
  }
  const std::size_t from = marker + std::string_view(kMarker).size();
  const std::string text = printed.substr(from, printed.find('\n', from) - from);
  report.add({end.status == 0 ? Health::ok : Health::wrong, fmt::format("{}; {:.1f} s with their start", text, seconds.count())});
}

}  // namespace

MpiVersion parse_mpi_version(const std::string& text) {
  constexpr std::string_view kDigits = "0123456789";
  MpiVersion out;
  if (text.find("Open MPI") != std::string::npos || text.find("OpenRTE") != std::string::npos)
    out.family = "Open MPI";
  else if (text.find("Intel(R) MPI") != std::string::npos)
    out.family = "Intel MPI";
  else if (text.find("HYDRA") != std::string::npos || text.find("MPICH") != std::string::npos)
    out.family = "MPICH";
  for (auto at = text.find_first_of(kDigits); at != std::string::npos; at = text.find_first_of(kDigits, at)) {
    const std::string number = text.substr(at, text.find_first_not_of("0123456789.", at) - at);
    if (number.find('.') != std::string::npos) {
      out.version = number;
      break;
    }
    at += number.size();
  }
  return out;
}

std::string MpiVersion::text() const { return family.empty() ? "an MPI that does not tell its name" : fmt::format("{} {}", family, version); }

std::vector<Check> mpi_checks() { return {{"mpirun", mpirun}, {"slots", slots}, {"all-reduce", all_reduce}}; }

int doctor_rank() {
  return run_job(parallel_options({"--parallel", "ddp"}), {}, [](Job& job) {
    std::vector<float> numbers(kElements);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(static_cast<int>(i % 100) * (job.rank() + 1));
    const std::string how = job.communication()->run([&](parallel::Collectives& c) {
      const parallel::Elements all = parallel::elements_of(numbers);
      c.all_reduce(all);
      return c.choice(all.bytes()).why;
    });
    const int times = job.size() * (job.size() + 1) / 2;
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) wrong += numbers[i] != static_cast<float>(static_cast<int>(i % 100) * times);
    const std::string text = wrong == 0 ? fmt::format("{} ranks have the right sums ({})", job.size(), how)
                                        : fmt::format("{} of {} sums are wrong on rank {} ({})", wrong, kElements, job.rank(), how);
    if (job.rank() == 0 || wrong > 0) fmt::print("{}{}\n", kMarker, text);
    return wrong == 0 ? 0 : 1;
  });
}

}  // namespace gemel::cli
