// gemel bench: time, memory and use of the device of training or inference, case by case.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <ranges>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/cli/command.h"
#include "frontends/cli/commands/specs.h"
#include "frontends/cli/options/ablation_options.h"
#include "frontends/cli/options/dataset_options.h"
#include "frontends/cli/options/model_options.h"
#include "frontends/cli/options/optimizer_options.h"
#include "frontends/cli/options/run_spec.h"
#include "frontends/cli/run/bench_case.h"
#include "frontends/cli/run/joined_trace.h"
#include "frontends/cli/system/build_info.h"
#include "frontends/cli/system/console.h"
#include "frontends/cli/system/units.h"
#include "frontends/models/pictures/picture_models.h"

namespace gemel::cli {
namespace {

constexpr double kMilli = 1e3;  // milliseconds in a second

constexpr double kRate = 1e-4;  // small: nothing grows without bound in some hundred steps on one batch

/// On the command line several are separated by commas.
constexpr std::array kListed{"model", "input", "frontend"};
/// What a case may have otherwise than its neighbours.
constexpr std::array kOfCase{
    "model", "config",       "classes",  "input",      "batch-size", "frontend", "recompute",   "freeze-norm",       "optimizer",     "lr",
    "lstm",  "weight-decay", "momentum", "accumulate", "variant",    "tuning",   "memory-plan", "recorded-launches", "empty-launches"};

/// What inference has no use for.
constexpr std::array kOfTraining{"freeze-norm", "recompute", "accumulate",      "optimizer",   "lr",      "weight-decay",      "momentum",
                                 "sync-bn",     "bucket-mb", "first-bucket-mb", "compression", "no-sync", "pipeline-schedule", "virtual-stages"};

/// @param lists  of a whole command line; else of one case
po::options_description bench_options(bool lists) {
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("work", po::value<std::string>(), "train (forward, cross-entropy, backward, update) or infer; may stand first, without --work");
  option("model", po::value<std::string>()->default_value("resnet18"), fmt::format("one or several, separated by commas; {}", model_help()).c_str());
  add_domain_options(options, domains::OptionUse::model);
  option("classes", po::value<std::int64_t>()->default_value(1000), "size of the last layer; 2 for texts where it is not given");
  option("input", po::value<std::string>()->default_value(""), fmt::format("one or several, separated by commas: {}", made_up_input_help()).c_str());
  if (lists)
    options.add_options()("batch-size", po::value<std::string>()->default_value("16"), "one or several, such as 1,8,16");
  else
    options.add_options()("batch-size", po::value<std::int64_t>()->default_value(16), "samples of a step");
  options.add_options()("frontend", po::value<std::string>()->default_value("eager,graph"), "eager, graph, or both");
  add_recompute_option(options);
  option("freeze-norm", po::bool_switch(), "normalisation uses running statistics in training too");
  option("accumulate", po::value<std::int64_t>()->default_value(1), "micro-batches of a step, whose gradients are added before its update");
  add_optimizer_options(options, kOptimizer, kRate);
  option("runs", po::value<std::int64_t>()->default_value(100), "steps measured");
  option("warmup", po::value<std::int64_t>()->default_value(5), "steps before them");
  option("empty-launches", po::value<std::int64_t>()->default_value(0),
         "launches of a kernel that does nothing at the end of each step: a slowdown of known size, for a comparison to find");
  option("no-sync", po::bool_switch(), "with --parallel: ranks sum nothing, so that what is left is communication's cost less");
  option("json", po::value<std::string>()->default_value(""), "write the results to this file, as Google Benchmark does");
  add_parallel_options(options);
  add_gradient_options(options);
  add_style_options(options, Purpose::train);
  add_common_options(options);
  add_ablation_options(options);
  add_spec_options(options);
  return options;
}

/// "a,b" as a list, "a" as itself.
Json listed(const std::vector<std::string>& words) { return words.size() == 1 ? Json(words.front()) : Json(words); }

/// The whole command's spec: what the line says, before what the file says, before what neither says.
/// @param v  the line as parsed by these options
Json spec_of_line(const po::variables_map& v, const po::options_description& options, const Arguments& arguments) {
  Json all = spec_of("bench", options, v);
  for (const char* key : kListed) all[key] = listed(split_at_commas(all[key].get<std::string>()));
  const std::vector<std::int64_t> batches = whole_numbers(v, "batch-size", 1, 1'000'000);
  all["batch-size"] = batches.size() == 1 ? Json(batches.front()) : Json(batches);
  const Json file = spec_file(arguments);
  for (const auto& [key, value] : file.items()) {
    if (!all.contains(key)) require_option(key, options);
    if (key != "command" && (v.count(key) == 0 || v[key].defaulted())) all[key] = value;
  }
  const std::string of_file = file.is_null() ? "" : file.value("command", "");
  const std::string work = v.count("work") ? v["work"].as<std::string>() : of_file.starts_with("bench ") ? of_file.substr(6) : "";
  check_choice("bench", work, {"train", "infer"});
  if (!file.is_null() && of_file != "bench " + work)
    throw UsageError(fmt::format("spec: command: '{}' is given with gemel bench {}; accepted: \"bench {}\"", of_file, work, work));
  all.erase("work");
  all["command"] = "bench " + work;
  for (const auto& [key, value] : all.items())
    if (value.is_array() && key != "env" && std::ranges::find(kOfCase, key) == kOfCase.end())
      throw UsageError(fmt::format("spec: {}: a list is given; accepted: one value, which all cases share", key));
  return all;
}

/// A case's options, which are all given one value. @param spec  with single values, which are filled in where they are defaults
BenchCase case_of(Json spec) {
  const po::options_description options = bench_options(false);
  const auto v = parse("bench", "", options, words_of_spec(spec, options));
  const Work work = spec["command"] == "bench train" ? Work::train : Work::infer;
  BenchCase c{.work = work,
              .batch_size = whole_number(v, "batch-size", 1, 1'000'000),
              .frontend = parse_frontend(v["frontend"].as<std::string>()),
              .ablation = ablation_options(v),
              .freeze_norm = v["freeze-norm"].as<bool>(),
              .optimizer = optimizer_options(v),
              .accumulate = whole_number(v, "accumulate", 1, 1e9),
              .empty_launches = whole_number(v, "empty-launches", 0, 1'000'000)};
  if (work == Work::infer)
    for (const char* name : kOfTraining)
      if (is_given(v, name)) throw UsageError(fmt::format("bench: --{} is given with infer, which trains nothing; accepted: train", name));
  if (c.accumulate > c.batch_size)
    throw UsageError(fmt::format("--accumulate: {} micro-batches of a --batch-size of {}; accepted: at most one a sample", c.accumulate, c.batch_size));
  const domains::RunOptions of_run = run_options(v);
  c.recompute = recompute_option(of_run);
  const domains::MadeUp data = made_up_once(of_run, c.batch_size);
  c.open = data.open;
  c.input = data.input;
  spec["input"] = data.input;
  c.spec = resolved(std::move(spec), c.optimizer);
  return c;
}

/// All that a line asks for.
struct BenchOptions {
  Json spec;  // of all cases: a key may hold a list
  std::vector<BenchCase> cases;
  CommonOptions common;
  BenchLength length{};
  ParallelOptions parallel;
  bool no_sync = false;
  std::string file;  // of results; empty: none
};

/// Nothing of the cases is opened yet. @throws HelpWanted after printing the spec, where that is asked for
BenchOptions parse_bench_options(const Arguments& arguments) {
  const po::options_description of_line = bench_options(true), of_case = bench_options(false);
  po::positional_options_description positional;
  positional.add("work", 1);
  const auto line = parse("bench", "Measures training or inference: every model with every input, batch size and front end.", of_line, arguments, positional);
  BenchOptions o{.spec = spec_of_line(line, of_line, arguments)};
  for (const Json& one : single_specs(o.spec, {"env", "variant"})) o.cases.push_back(case_of(one));
  const auto v = parse("bench", "", of_case, words_of_spec(o.cases.front().spec, of_case));  // what all cases share
  o.common = common_options(v);
  o.length = {whole_number(v, "warmup", 1, 1e6), whole_number(v, "runs", 1, 1e6)};
  o.parallel = parallel_options(v);
  o.no_sync = v["no-sync"].as<bool>();
  o.file = v["json"].as<std::string>();
  if (o.no_sync && o.parallel.strategy->ranks_are() == RanksAre::one_process)
    throw UsageError("bench: --no-sync is given without --parallel; accepted: with it");
  print_if_asked(line, o.spec);
  return o;
}

/// @throws UsageError where a case cannot be shared by so many ranks
void share(std::vector<BenchCase>& cases, Job& job, bool no_sync) {
  const auto& strategy = job.options().strategy;
  for (BenchCase& c : cases) {
    c.strategy = strategy;
    if (!job.communication()) continue;
    strategy->check(c.purpose(), c.batch_size, job.size());
    c.copies = strategy->copies(job.size());
    c.copy = strategy->copy(job.rank(), job.size());
    c.parallel = no_sync ? kNoSync : strategy->name();
    c.ranks = job.size();
    if (no_sync) c.strategy = alone();
    const std::int64_t batch[] = {c.batch_size};
    if (c.work == Work::train) c.strategy = c.strategy->fitted(job.size(), batch, [&c](std::int64_t samples) { return c.trains_on(samples); });
  }
  for (BenchCase& c : cases) c.micro_batches = c.strategy->micro_batches(c.batch_size, job.size(), c.accumulate);
}

nlohmann::ordered_json json_of(const BenchCase& c, const BenchResult& r) {
  const Spread s = spread_of(r.seconds);
  nlohmann::ordered_json out{{"name", c.name()},
                             {"run_name", c.name()},
                             {"run_type", "iteration"},
                             {"iterations", r.seconds.size()},
                             {"real_time", kMilli * s.mean},
                             {"median", kMilli * s.median},
                             {"min", kMilli * s.min},
                             {"max", kMilli * s.max},
                             {"stddev", kMilli * s.stddev},
                             {"time_unit", "ms"}};
  const double share = static_cast<double>(c.batch_size) / static_cast<double>(c.largest_shard());
  out.update({{"items_per_second", static_cast<double>(c.batch_size) / s.mean},
              {"flops_per_second", static_cast<double>(c.planned.flops) * share / s.mean},
              {"flops", c.planned.flops},
              {"parameters", r.parameters},
              {"peak_bytes", r.peak_bytes},
              {"device_busy", r.busy},
              {"planned_bytes", r.arena.bytes},
              {"least_planned_bytes", r.arena.least},
              {"resident_bytes", r.resident_bytes},
              {"first_time", kMilli * r.first_seconds}});
  if (c.with->tokens() > 0) out["tokens_per_second"] = static_cast<double>(c.batch_size * c.with->tokens()) / s.mean;
  out.update({{"model", c.spec["model"]}, {"batch_size", c.batch_size}, {"input", c.input}, {"frontend", train::to_string(c.frontend)}});
  if (!c.parallel.empty()) out.update({{"parallel", c.parallel}, {"ranks", c.ranks}});
  if (!r.stage_peak_bytes.empty()) out["stage_peak_bytes"] = r.stage_peak_bytes;
  if (!r.exposed_ms.empty()) out["exposed_comm_ms"] = spread_of(r.exposed_ms).median;
  for (const double seconds : r.seconds) out["samples_ms"].push_back(kMilli * seconds);
  out["measured_unix_s"] = {r.measured_from, r.measured_to};
  out["spec"] = c.spec;
  return out;
}

void print_head(std::size_t width) {
  if (!speaks()) return;
  fmt::print("{:<{}} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9} {:>5}\n", "case", width, "median ms", "min", "max", "stddev", "samples/s", "GFLOP/s",
             "peak MiB", "busy");
}

void print(const nlohmann::ordered_json& j, std::size_t width) {
  if (!speaks()) return;
  const auto number = [&](const char* key) { return j[key].get<double>(); };
  fmt::print("{:<{}} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.1f} {:>9.1f} {:>9.1f} {:>4.0f}%{}\n", j["name"].get<std::string>(), width, number("median"),
             number("min"), number("max"), number("stddev"), number("items_per_second"), 1e-9 * number("flops_per_second"),
             mebibytes(j["peak_bytes"].get<std::int64_t>()), 100 * number("device_busy"),
             j.contains("tokens_per_second") ? fmt::format(" {:>9.0f} tokens/s", number("tokens_per_second")) : "");
  std::fflush(stdout);  // a case may take minutes
}

/// Every case, and after each the file, so that an interrupt or a kill loses none that is done.
class BenchReport {
 public:
  BenchReport(RunScope& run, std::string file, std::size_t cases) : run_(run), file_(std::move(file)) {
    context_ = {{"date", fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))},
                {"argv", run.argv()},
                {"library", "gemel"},
                {"version", GEMEL_VERSION},
                {"commit", commit()},
                {"graph_passes", run.options().passes_text},
                {"cases", cases}};  // an interrupted run has fewer
  }
  void add(nlohmann::ordered_json line) {
    if (!context_.contains("device")) {
      context_["device"] = train::json_of(facts_of(run_.session()));
      context_["driver"] = run_.device().profile().driver;
    }
    nlohmann::ordered_json event{{"event", "bench"}};
    event.update(line);
    run_.log().event(event);
    lines_.push_back(std::move(line));
    if (file_.empty()) return;
    const nlohmann::ordered_json all{{"context", context_}, {"benchmarks", lines_}};
    write_file_atomically(file_, [&](FileWriter& out) { out.write(all.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"); });
  }
  const nlohmann::ordered_json& lines() const { return lines_; }

 private:
  RunScope& run_;
  std::string file_;
  nlohmann::ordered_json context_, lines_ = nlohmann::ordered_json::array();
};

nlohmann::ordered_json measured(RunScope& run, Job& job, BenchCase& c, const BenchLength& length, std::size_t width) {
  job.progress(c.name());
  run.ablate(c.ablation);
  try {
    const BenchResult result = run_case(run, job, c, length);
    const auto line = json_of(c, result);
    print(line, width);
    return line;
  } catch (const MemoryError& e) {
    if (job.size() > 1) throw;  // the other ranks may have room
    const std::int64_t needed = c.bytes_needed(), limit = run.device().memory().statistics().limit;
    fmt::print("{:<{}} does not fit: about {:.1f} MiB are needed, {:.1f} MiB may be held\n", c.name(), width, mebibytes(needed), mebibytes(limit));
    return {{"name", c.name()},          {"run_name", c.name()},   {"run_type", "iteration"}, {"error_occurred", true},
            {"error_message", e.what()}, {"bytes_needed", needed}, {"bytes_limit", limit},    {"spec", c.spec}};
  }
}

void run_cases(RunScope& run, Job& job, BenchOptions options) {
  const std::string file = job.rank() == 0 ? options.file : "";
  std::vector<BenchCase>& cases = options.cases;
  if (!file.empty()) check_can_write(file);
  share(cases, job, options.no_sync);
  if (job.communication()) {
    std::vector<distributed::Setting> settings = settings_of(cases.front().spec);
    for (std::size_t i = 1; i < cases.size(); ++i) settings.push_back({fmt::format("case {}", i + 1), cases[i].name()});
    distributed::require_same(*job.communication(), settings);
  }
  run.open_device(job);
  for (BenchCase& c : cases) {
    run.ablate(c.ablation);
    c.plan(run.device());
  }
  std::size_t width = 4;
  for (const BenchCase& c : cases) width = std::max(width, c.name().size());
  print_head(width);
  BenchReport report(run, file, cases.size());
  for (BenchCase& c : cases) report.add(measured(run, job, c, options.length, width));
  join_traces(run, job);
  run.summary()["cases"] = report.lines();
  if (std::ranges::all_of(report.lines(), [](const auto& line) { return line.contains("error_occurred"); })) {
    const auto needed = [](const auto& line) { return line["bytes_needed"].template get<std::int64_t>(); };
    throw MemoryError(
        fmt::format("bench: no case fits: {} bytes may be held, the smallest needs about {}; accepted: a larger --memory-limit, a smaller "
                    "--batch-size, --input or --model",
                    run.device().memory().statistics().limit, std::ranges::min(report.lines() | std::views::transform(needed))));
  }
}

}  // namespace

Json bench_spec(const Arguments& arguments) { return parse_bench_options(arguments).spec; }

int bench(const Arguments& arguments) {
  require_launched(arguments);
  BenchOptions options = parse_bench_options(arguments);
  for (BenchCase& c : options.cases) c.with = c.open();  // once for all ranks that are threads
  return run_job(options.parallel, options.common.device, [&](Job& job) {
    RunScope run(of_rank(options.common, job), "bench", arguments, {{"spec", options.spec}});
    return run.carry_out([&] { run_cases(run, job, options); });
  });
}

}  // namespace gemel::cli
