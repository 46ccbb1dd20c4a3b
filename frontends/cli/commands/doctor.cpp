// gemel doctor: what this machine has, what is odd or wrong with it for Gemel, and what mends it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/text/shell_quote.h"
#include "frontends/cli/command.h"
#include "frontends/cli/doctor/health_check.h"
#include "frontends/cli/doctor/isolated_checks.h"
#include "frontends/cli/doctor/print_findings.h"
#include "frontends/cli/job/launch_messages.h"
#include "frontends/cli/launch/mpirun_environment.h"
#include "frontends/cli/options/arguments.h"

namespace gemel::cli {
namespace {

std::vector<Check> all_checks() {
  std::vector<Check> out;
  for (std::vector<Check>& some :
       std::array{machine_checks(), limit_checks(), folder_checks(), gpu_checks(), driver_checks(), network_checks(), scheduler_checks(), mpi_checks()})
    for (Check& check : some) out.push_back(std::move(check));
  return out;
}

/// Ranks come to no end by what other checks found, and launch does not hide from mpirun.
void add_remedy_of_ranks(std::vector<Line>& lines) {
  const auto ranks = std::ranges::find(lines, "all-reduce", &Line::name);
  if (ranks == lines.end() || ranks->finding.health != Health::wrong || !ranks->finding.remedy.empty()) return;
  std::vector<std::string> causes;
  for (const char* name : {"limits", "temporary-folder", "shared-memory", "loopback", "host-name", "rank-variables", "mpirun", "slots", "cores"})
    if (const auto l = std::ranges::find(lines, name, &Line::name); l != lines.end() && l->finding.health != Health::ok) causes.emplace_back(name);
  const std::vector<std::string> settings = variables([](const std::string& name) { return is_mpi_setting(name) && !hides(name); });
  if (!causes.empty())
    ranks->finding.remedy = fmt::format("mend {} first", fmt::join(causes, ", "));
  else if (!settings.empty())
    ranks->finding.remedy = fmt::format("unset {}", fmt::join(settings, " "));
  else
    ranks->finding.remedy =
        fmt::format("mpirun{} --oversubscribe -np 2 {} train --parallel ddp --model perceptron --steps 1 says more, in Open MPI's own words",
                    ::geteuid() == 0 ? " --allow-run-as-root" : "", shell_word(std::filesystem::read_symlink("/proc/self/exe").string()));
}

using Names = std::vector<std::string>;
bool has(const Names& names, const std::string& name) { return std::ranges::find(names, name) != names.end(); }

[[noreturn]] void refuse(const std::string& name, const Names& known) {
  const std::string near = nearest(name, known);
  throw UsageError(
      fmt::format("doctor: check '{}' is unknown{}; accepted: {}", name, near.empty() ? "" : ", did you mean '" + near + "'?", fmt::join(known, ", ")));
}

/// Of the check that a line belongs to: that of the drivers has some for each device.
std::string check_of(const std::string& name) {
  for (const char* begin : {"device-", "variants-", "product-"})
    if (name.starts_with(begin)) return kDrivers;
  return name;
}

/// The lines of these names; all where none is named. @throws UsageError
std::vector<Line> lines_of(const Names& names) {
  std::vector<Check> all = all_checks();
  Names known, wanted;
  for (const Check& c : all)
    if (!has(known, c.name)) known.push_back(c.name);
  for (const std::string& name : names) {
    wanted.push_back(check_of(name));
    if (!has(known, wanted.back())) refuse(name, known);
  }
  if (!names.empty()) std::erase_if(all, [&](const Check& c) { return !has(wanted, c.name); });
  std::vector<Line> lines = run_apart(std::move(all));
  add_driver_remedies(lines);
  add_remedy_of_ranks(lines);
  for (const Line& l : lines)
    if (!has(known, l.name)) known.push_back(l.name);
  // A driver that is broken has no further lines: those that say so stand in their place.
  const bool is_whole = std::ranges::all_of(lines, [](const Line& l) { return check_of(l.name) != kDrivers || l.finding.health == Health::ok; });
  for (const std::string& name : names)
    if (!has(known, name) && is_whole) refuse(name, known);
  if (!names.empty())
    std::erase_if(lines, [&](const Line& l) { return !has(names, l.name) && !has(names, check_of(l.name)) && l.finding.health == Health::ok; });
  return lines;
}

}  // namespace

const char* to_string(Health health) { return health == Health::ok ? "ok" : health == Health::odd ? "odd" : "wrong"; }

int doctor(const Arguments& arguments) {
  if (Launched::is_rank()) return doctor_rank();
  po::options_description options("options");
  auto option = options.add_options();
  option("json", po::bool_switch(), "machine-readable output");
  option("check", po::value<std::vector<std::string>>(), "only this check (repeatable): the name of a line");
  po::positional_options_description positional;
  positional.add("check", -1);
  const auto v = parse("doctor [CHECK...]",
                       "Looks at the machine for Gemel: what it has, what is odd (slower, or with less) or wrong (Gemel cannot run, or runs wrongly), and\n"
                       "what mends it. Exit status 1 where something is wrong. It ends in 10 s whatever is broken.",
                       options, arguments, positional);
  const std::vector<Line> lines = lines_of(v.count("check") ? v["check"].as<Names>() : Names());
  if (v["json"].as<bool>())
    print_json(lines);
  else
    print_lines(lines);
  return std::ranges::any_of(lines, [](const Line& l) { return l.finding.health == Health::wrong; }) ? 1 : 0;
}

}  // namespace gemel::cli
