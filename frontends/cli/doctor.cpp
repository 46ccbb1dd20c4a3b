// gemel doctor: what this machine has, what is odd or wrong with it for Gemel, and what mends it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "frontends/cli/arguments.h"
#include "frontends/cli/command.h"
#include "frontends/cli/doctor_apart.h"
#include "frontends/cli/doctor_check.h"
#include "frontends/cli/doctor_print.h"
#include "frontends/cli/launched.h"

namespace gemel::cli {
namespace {

std::vector<Check> all_checks() {
  std::vector<Check> out;
  for (std::vector<Check>& some :
       std::array{machine_checks(), limit_checks(), folder_checks(), gpu_checks(), driver_checks(), network_checks(), scheduler_checks(), mpi_checks()})
    for (Check& check : some) out.push_back(std::move(check));
  return out;
}

/// Those that are named; all where none is. @throws UsageError
std::vector<Check> chosen(const std::vector<std::string>& names) {
  std::vector<Check> all = all_checks();
  std::vector<std::string> known;
  for (const Check& c : all)
    if (std::ranges::find(known, c.name) == known.end()) known.push_back(c.name);
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string near = nearest(name, known);
    throw UsageError(
        fmt::format("doctor: check '{}' is unknown{}; accepted: {}", name, near.empty() ? "" : ", did you mean '" + near + "'?", fmt::join(known, ", ")));
  }
  if (!names.empty()) std::erase_if(all, [&](const Check& c) { return std::ranges::find(names, c.name) == names.end(); });
  return all;
}

/// Ranks come to no end by what other checks found, and launch does not hide from mpirun.
void add_remedy_of_ranks(std::vector<Line>& lines) {
  const auto ranks = std::ranges::find(lines, "all-reduce", &Line::name);
  if (ranks == lines.end() || ranks->finding.health != Health::wrong || !ranks->finding.remedy.empty()) return;
  std::vector<std::string> causes;
  for (const char* name : {"limits", "temporary-folder", "shared-memory", "loopback", "host-name", "rank-variables", "mpirun", "slots", "cores"})
    if (const auto l = std::ranges::find(lines, name, &Line::name); l != lines.end() && l->finding.health != Health::ok) causes.emplace_back(name);
  ranks->finding.remedy = causes.empty() ? "mpirun -np 2 hostname says more, in Open MPI's own words" : fmt::format("mend {} first", fmt::join(causes, ", "));
}

}  // namespace

const char* to_string(Health health) { return health == Health::ok ? "ok" : health == Health::odd ? "odd" : "wrong"; }

int doctor(const Arguments& arguments) {
  if (Launched::is_rank()) return doctor_rank();
  po::options_description options("options");
  options.add_options()("json", po::bool_switch(), "machine-readable output")("check", po::value<std::vector<std::string>>(),
                                                                              "only this check (repeatable): the name of a line");
  po::positional_options_description positional;
  positional.add("check", -1);
  const auto v = parse("doctor [CHECK...]",
                       "Looks at the machine for Gemel: what it has, what is odd (slower, or with less) or wrong (Gemel cannot run, or runs wrongly), and\n"
                       "what mends it. Exit status 1 where something is wrong. It ends in 10 s whatever is broken.",
                       options, arguments, positional);
  std::vector<Line> lines = run_apart(chosen(v.count("check") ? v["check"].as<std::vector<std::string>>() : std::vector<std::string>()));
  add_driver_remedies(lines);
  add_remedy_of_ranks(lines);
  if (v["json"].as<bool>())
    print_json(lines);
  else
    print_lines(lines);
  return std::ranges::any_of(lines, [](const Line& l) { return l.finding.health == Health::wrong; }) ? 1 : 0;
}

}  // namespace gemel::cli
