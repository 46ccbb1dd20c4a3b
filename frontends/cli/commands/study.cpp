// gemel study: the published comparisons on this machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/cli/command.h"
#include "frontends/cli/options/arguments.h"
#include "frontends/cli/system/build_info.h"
#include "frontends/cli/system/console.h"
#include "frontends/cli/system/interrupt.h"
#include "frontends/study/peers/peers.h"
#include "frontends/study/report/comparison.h"
#include "frontends/study/report/report.h"
#include "frontends/study/runner/study_runner.h"
#include "frontends/study/study_record.h"

namespace gemel::cli {
namespace {

namespace fs = std::filesystem;
using study::Extent;
using study::Study;

fs::path default_folder(const Study& s) { return s.name + "-study"; }

constexpr double kQuickBudget = 5, kUsualBudget = 45;  // minutes

/// What results say of a statement, each with its folder.
std::string found_of(const std::string& study_name, const std::string& hypothesis, const std::vector<study::FoundResults>& all) {
  std::vector<std::string> words;
  for (const study::FoundResults& results : all) {
    if (results.name != study_name) continue;
    std::string found = results.tests.is_null() ? "no report yet" : "not tested";
    for (const study::Json& test : results.tests)
      if (test.is_object() && test.value("name", "") == hypothesis) found = test.value("claim_holds", "") + ", " + test.value("verdict", "");
    words.push_back(fmt::format("{} ({})", found, results.folder.string()));
  }
  return words.empty() ? "not run here" : fmt::format("here: {}", fmt::join(words, "; "));
}

void print_claims(const Study& s, const std::vector<study::FoundResults>& results) {
  for (const study::Hypothesis& h : s.hypotheses) fmt::print("{:<16} {} ({}) {}\n", s.name, h.claim, h.source, found_of(s.name, h.name, results));
}

/// @throws DataError where a folder that was given has no results
std::vector<study::FoundResults> results_in(const std::vector<std::string>& folders) {
  std::vector<study::FoundResults> out;
  for (const std::string& folder : folders) {
    const std::vector<study::FoundResults> found = study::results_in(folder);
    if (found.empty())
      throw DataError(fmt::format("study list: {} has no results of a study; accepted: a folder of results, or one with such folders in it", folder));
    out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

/// Calls `read`; where `tells`, an error is a line, and not the end: nobody named the folder.
void tell_instead(bool tells, const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& e) {
    if (!tells) throw;
    say("left out: {}\n", e.what());
  }
}

/// In the current folder, or in those in it.
std::vector<study::FoundResults> results_nearby() {
  std::vector<study::FoundResults> out;
  for (const fs::path& folder : study::folders_of_results(".")) tell_instead(true, [&] { out.push_back(study::results_of(folder)); });
  return out;
}

int list(const Arguments& arguments) {
  po::options_description options("options");
  auto option = options.add_options();
  option("claims", po::bool_switch(), "what the published texts say, each with the study that tests it and what it found here");
  option("folders", po::value<std::vector<std::string>>(),
         "with --claims: folders of results, or folders with such in them; may stand without --folders. Default: the current one");
  po::positional_options_description positional;
  positional.add("folders", -1);
  const auto v = parse("study list [--claims [DIR..]]", "The studies.", options, arguments, positional);
  const bool claims = v["claims"].as<bool>();
  const auto folders = v.count("folders") ? v["folders"].as<std::vector<std::string>>() : std::vector<std::string>();
  if (!claims && !folders.empty()) throw UsageError(fmt::format("study list: the folder {} is given without --claims; accepted: with it", folders[0]));
  std::vector<Study> all;
  for (const fs::path& file : study::study_files()) all.push_back(study::read_study(file, Extent::usual));
  if (!claims) {
    for (const Study& s : all) fmt::print("{:<16} {}\n", s.name, s.title);
    return 0;
  }
  const std::vector<study::FoundResults> results = folders.empty() ? results_nearby() : results_in(folders);
  for (const study::FoundResults& own : results) {  // a study that does not come with the program
    if (std::ranges::any_of(all, [&](const Study& s) { return s.name == own.name; })) continue;
    tell_instead(folders.empty(), [&] { all.push_back(study::recorded_study(own.folder)); });
  }
  for (const Study& s : all) print_claims(s, results);
  return 0;
}

/// The first positional argument. @throws UsageError where there is none
std::string first(const po::variables_map& v, const char* name, const char* accepted) {
  if (!v.count(name)) throw UsageError(fmt::format("study: no {} is given; accepted: {}", name, accepted));
  return v[name].as<std::string>();
}

po::options_description extent_options() {
  po::options_description options("options");
  auto option = options.add_options();
  option("name", po::value<std::string>(), "a study that `gemel study list` names, or a file of one");
  option("quick", po::bool_switch(), "the small grid, in at most 5 minutes");
  option("full", po::bool_switch(), "the published sizes, with no bound of time");
  return options;
}

Extent extent_of(const po::variables_map& v) {
  if (v["quick"].as<bool>() && v["full"].as<bool>()) throw UsageError("study: --quick and --full are given; accepted: one of them");
  return v["quick"].as<bool>() ? Extent::quick : v["full"].as<bool>() ? Extent::full : Extent::usual;
}

po::positional_options_description one_name() {
  po::positional_options_description out;
  out.add("name", 1);
  return out;
}

int show(const Arguments& arguments) {
  const auto v = parse("study show NAME", "A study's question, cases and hypotheses.", extent_options(), arguments, one_name());
  const Study s = study::read_study(study::find_study(first(v, "name", "one that `gemel study list` names, or a file")), extent_of(v));
  fmt::print("{}\n{}\n", s.title, s.question);
  if (!s.source.empty()) fmt::print("after: {}\n", s.source);
  fmt::print("\n{} cases\n", s.cases.size());
  for (const study::Case& c : s.cases) fmt::print("  {}\n", c.name);
  if (!s.hypotheses.empty()) fmt::print("\nhypotheses\n");
  for (const study::Hypothesis& h : s.hypotheses) fmt::print("  {}: {} ({})\n", h.name, h.claim, h.source);
  return 0;
}

/// Reads a folder's runs and writes its report. @return the exit status
int report_on(const Study& s, const fs::path& folder) {
  const study::Results results(s, study::read_runs(folder));
  write_report(s, results, folder);
  for (const study::Verdict& v : results.verdicts()) fmt::print("{} {} Here: {}.\n", v.claim, v.sentence, v.claim_holds);
  fmt::print("report: {}\n", (folder / "report.html").string());
  return results.is_whole() ? 0 : 1;
}

int run(const Arguments& arguments) {
  po::options_description options = extent_options();
  auto option = options.add_options();
  option("budget", po::value<double>(),
         fmt::format("minutes that it may take; default {:.0f}, with --quick {:.0f}, with --full no bound", kUsualBudget, kQuickBudget).c_str());
  option("platform", po::value<std::string>()->default_value(""), "OpenCL platform of every case: an index or a part of its name");
  option("device", po::value<std::string>()->default_value(""), "device of the platform, for cases that name none");
  option("data", po::value<std::string>()->default_value("data"), "folder of the data sets, each in a folder of its name: cifar10, sst2");
  option("out", po::value<std::string>()->default_value(""), "folder of the results; default: the study's name with -study behind it");
  option("resume", po::bool_switch(), "go on with the results in the folder: no run that is on record is run again");
  option("peers", po::value<std::string>()->default_value(""), "virtual environment of Python with other frameworks; their cases run too, in the same blocks");
  option("install-peers", po::bool_switch(), "make that environment, with the versions of studies/peers/requirements.txt");
  option("seed", po::value<std::int64_t>()->default_value(1), "of the order of cases and of training runs");
  const auto v = parse("study run NAME|FILE", "Runs a study and writes its report.", options, arguments, one_name());
  const Extent extent = extent_of(v);
  const fs::path file = study::find_study(first(v, "name", "one that `gemel study list` names, or a file"));
  const auto peers = v["peers"].as<std::string>();
  if (v["install-peers"].as<bool>() && peers.empty())
    throw UsageError("--install-peers: --peers is missing; accepted: --peers FOLDER, where the environment is made");
  const Study whole = study::read_study(file, extent), s = peers.empty() ? study::without_peers(whole) : whole;
  double minutes = extent == Extent::quick ? kQuickBudget : extent == Extent::full ? 0 : kUsualBudget;
  if (v.count("budget")) {
    minutes = v["budget"].as<double>();
    if (!(minutes > 0)) throw UsageError(fmt::format("--budget: {} is given; accepted: minutes above 0", minutes));
  }
  const auto out = v["out"].as<std::string>();
  const study::StudyOptions how{.program = fs::read_symlink("/proc/self/exe"),
                                .version = fmt::format("{}, {}", GEMEL_VERSION, commit()),
                                .folder = fs::absolute(out.empty() ? default_folder(s) : fs::path(out)),
                                .platform = v["platform"].as<std::string>(),
                                .device = v["device"].as<std::string>(),
                                .data = fs::absolute(v["data"].as<std::string>()),
                                .budget_s = 60 * minutes,
                                .seed = static_cast<std::uint64_t>(whole_number(v, "seed", 0, 1e15)),
                                .resume = v["resume"].as<bool>(),
                                .peers = peers.empty() ? fs::path() : fs::absolute(peers),
                                .say = [](const std::string& line) { say("{}\n", line); },
                                .interrupted = InterruptGuard::interrupted};
  const InterruptGuard interrupts;
  if (v["install-peers"].as<bool>()) install_peers(how);
  require_peers(how);
  study::run_study(s, how);
  return report_on(study::recorded_study(how.folder), how.folder);
}

int report(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()("folder", po::value<std::string>(), "results of `gemel study run`");
  po::positional_options_description positional;
  positional.add("folder", 1);
  const auto v = parse("study report DIR", "Writes the report of results anew.", options, arguments, positional);
  const fs::path folder = first(v, "folder", "one with results of `gemel study run`");
  return report_on(study::recorded_study(folder), folder);
}

int compare(const Arguments& arguments) {
  po::options_description options("options");
  auto option = options.add_options();
  option("folders", po::value<std::vector<std::string>>(), "two folders of results of the same study");
  option("out", po::value<std::string>()->default_value(""), "file without its ending, of which .html and .md are written; default: print Markdown");
  po::positional_options_description positional;
  positional.add("folders", 2);
  const auto v = parse("study compare A B", "Two machines, drivers or versions side by side, case by case.", options, arguments, positional);
  const auto folders = v.count("folders") ? v["folders"].as<std::vector<std::string>>() : std::vector<std::string>();
  if (folders.size() != 2) throw UsageError(fmt::format("study compare: {} folders are given; accepted: two", folders.size()));
  const study::Page page = study::comparison(folders[0], folders[1]);
  const auto out = v["out"].as<std::string>();
  if (out.empty()) {
    fmt::print("{}", markdown(page));
    return 0;
  }
  write_file_atomically(out + ".md", [&](FileWriter& w) { w.write(markdown(page)); });
  write_file_atomically(out + ".html", [&](FileWriter& w) { w.write(html(page)); });
  return 0;
}

struct Part {
  const char* name;
  int (*run)(const Arguments&);
};
constexpr std::array kParts{Part{"list", list}, Part{"show", show}, Part{"run", run}, Part{"report", report}, Part{"compare", compare}};

constexpr const char* kUsage =
    "usage: gemel study list [--claims [DIR..]]\n"
    "       gemel study show NAME [--quick|--full]\n"
    "       gemel study run NAME|FILE.toml [--quick|--full|--budget MINUTES] [--platform P] [--device D] [--peers FOLDER [--install-peers]] [--data DIR]\n"
    "                 [--out DIR] [--resume] [--seed N]\n"
    "       gemel study report DIR\n"
    "       gemel study compare A B [--out FILE]\n";

}  // namespace

int study(const Arguments& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    fmt::print("{}", kUsage);
    if (arguments.empty()) throw UsageError("study: no part is given; accepted: list, show, run, report, compare");
    throw HelpWanted();
  }
  const auto part = std::ranges::find(kParts, arguments[0], &Part::name);
  if (part == kParts.end()) throw UsageError(fmt::format("study: '{}' is unknown; accepted: list, show, run, report, compare", arguments[0]));
  return part->run({arguments.begin() + 1, arguments.end()});
}

}  // namespace gemel::cli
