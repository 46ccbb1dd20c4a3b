// gemel bench: time, memory and use of the device of training or inference, case by case.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <ranges>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/cli/command.h"
#include "frontends/cli/job/pipeline_plan.h"
#include "frontends/cli/options/dataset_options.h"
#include "frontends/cli/options/model_options.h"
#include "frontends/cli/run/bench_case.h"
#include "frontends/cli/run/joined_trace.h"
#include "frontends/cli/system/build_info.h"
#include "frontends/cli/system/console.h"
#include "frontends/cli/system/units.h"
#include "frontends/models/pictures/picture_models.h"

namespace gemel::cli {
namespace {

constexpr double kMilli = 1e3;  // milliseconds in a second

/// Every model with every input, batch size and front end, in that order.
std::vector<BenchCase> cases_of(const po::variables_map& v, std::uint64_t seed) {
  const auto text = [&](const char* option) { return v[option].as<std::string>(); };
  check_choice("bench", text("work"), {"train", "infer"});
  const Work work = text("work") == "train" ? Work::train : Work::infer;
  class_count(v, 1);
  const bool freeze_norm = v["freeze-norm"].as<bool>();
  if (freeze_norm && work == Work::infer) throw UsageError("bench: --freeze-norm is given with infer, which uses running statistics anyhow; accepted: train");
  std::vector<BenchCase> cases;
  for (const std::string& model : model_names(v)) {
    const models::RecomputedParts recompute = recompute_option(v, model);
    if (work == Work::infer && recompute != models::RecomputedParts::none)
      throw UsageError("bench: --recompute blocks is given with infer, which has no backward pass; accepted: train");
    const std::size_t inputs = made_up(v, model, 1, seed).size();
    for (std::size_t i = 0; i < inputs; ++i)
      for (const std::int64_t batch : whole_numbers(v, "batch-size", 1, 1'000'000)) {
        const MadeUp data = made_up(v, model, batch, seed)[i];
        const std::shared_ptr<const Workload> with = make_workload(data.work);
        for (const std::string& frontend : words_of(text("frontend")))
          cases.push_back({.work = work,
                           .with = with,
                           .input = data.input,
                           .batch_size = batch,
                           .frontend = parse_frontend(frontend),
                           .recompute = recompute,
                           .freeze_norm = freeze_norm});
      }
  }
  return cases;
}

/// @throws UsageError where a case cannot be shared by so many ranks
void share(std::vector<BenchCase>& cases, const Job& job, bool no_sync) {
  if (!job.options().style.empty())
    for (BenchCase& c : cases) {
      if (c.work == Work::infer) throw UsageError("bench: --parallel is given with infer, which needs no communication; accepted: train");
      const int copies = job.options().copies(job.size());
      job.options().check_ranks(c.batch_size, job.size());
      c.copies = copies;
      c.copy = job.options().copy(job.rank(), job.size());
      if (auto pipeline = job.options().pipeline) {
        const std::int64_t batch[] = {c.batch_size};
        pipeline->micro_batches =
            micro_batches_for(*pipeline, job.size(), shards_of(batch, copies), [&c](std::int64_t samples) { return c.trains_on(samples); });
        c.micro_batches = static_cast<int>(pipeline->micro_batches_of(c.largest_shard(), job.size()));
        c.pipeline = fmt::format("{}-{}", parallel::to_string(pipeline->schedule), c.micro_batches);
      }
      c.parallel = no_sync ? kNoSync : job.options().style;
      c.ranks = job.size();
    }
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
              {"peak_bytes", r.peak_bytes},
              {"device_busy", r.busy},
              {"planned_bytes", r.arena.bytes},
              {"least_planned_bytes", r.arena.least},
              {"resident_bytes", r.resident_bytes},
              {"first_time", kMilli * r.first_seconds}});
  if (c.with->tokens() > 0) out["tokens_per_second"] = static_cast<double>(c.batch_size * c.with->tokens()) / s.mean;
  if (!c.parallel.empty()) out.update({{"parallel", c.parallel}, {"ranks", c.ranks}});
  if (!r.stage_peak_bytes.empty()) out["stage_peak_bytes"] = r.stage_peak_bytes;
  if (!r.exposed_ms.empty()) out["exposed_comm_ms"] = spread_of(r.exposed_ms).median;
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

nlohmann::ordered_json measured(RunScope& run, Job& job, const BenchCase& c, const BenchLength& length, std::size_t width) {
  job.progress(c.name());
  try {
    const auto line = json_of(c, run_case(run, job, c, length));
    print(line, width);
    return line;
  } catch (const MemoryError& e) {
    if (job.size() > 1) throw;  // the other ranks may have room
    const std::int64_t needed = c.bytes_needed(), limit = run.device().memory().statistics().limit;
    fmt::print("{:<{}} does not fit: about {:.1f} MiB are needed, {:.1f} MiB may be held\n", c.name(), width, mebibytes(needed), mebibytes(limit));
    return {{"name", c.name()},          {"run_name", c.name()},   {"run_type", "iteration"}, {"error_occurred", true},
            {"error_message", e.what()}, {"bytes_needed", needed}, {"bytes_limit", limit}};
  }
}

struct BenchOrder {
  BenchLength length;
  std::string file;  // of results; empty: none
  bool no_sync;
};

void run_cases(RunScope& run, Job& job, std::vector<BenchCase> cases, const BenchOrder& order) {
  if (!order.file.empty()) check_can_write(order.file);
  share(cases, job, order.no_sync);
  if (job.communication()) {
    std::vector<distributed::Setting> settings = job.options().settings(!run.options().profile.empty());
    settings.push_back({"compression", job.options().compression_text});
    settings.push_back({"denormals", to_string(run.options().device.denormals)});
    settings.push_back({"normalised over", job.options().sync_bn ? "the whole batch" : "a rank's shard"});
    settings.push_back({"steps", fmt::format("{} + {}", order.length.warmup, order.length.runs)});
    for (std::size_t i = 0; i < cases.size(); ++i) settings.push_back({fmt::format("case {}", i + 1), cases[i].name()});
    distributed::require_same(*job.communication(), settings);
  }
  run.open_device();
  for (BenchCase& c : cases) c.plan(run.device().profile());
  std::size_t width = 4;
  for (const BenchCase& c : cases) width = std::max(width, c.name().size());
  print_head(width);
  BenchReport report(run, order.file, cases.size());
  for (const BenchCase& c : cases) report.add(measured(run, job, c, order.length, width));
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

po::options_description bench_options() {
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("work", po::value<std::string>()->required(), "train (forward, cross-entropy, backward, momentum update) or infer; may stand first, without --work");
  option("model", po::value<std::string>()->default_value("resnet18"),
         fmt::format("one or several, separated by commas; {}", model_help(ModelKinds::all)).c_str());
  option("batch-size", po::value<std::string>()->default_value("16"), "one or several, such as 1,8,16");
  option("input", po::value<std::string>()->default_value(""), fmt::format("one or several, separated by commas: {}", kInputHelp).c_str());
  option("frontend", po::value<std::string>()->default_value("eager,graph"), "eager, graph, or both");
  option("classes", po::value<std::int64_t>()->default_value(1000), "size of the last layer; 2 for texts where it is not given");
  option("runs", po::value<std::int64_t>()->default_value(100), "steps measured");
  option("warmup", po::value<std::int64_t>()->default_value(5), "steps before them");
  option("no-sync", po::bool_switch(), "with --parallel: ranks sum nothing, so that what is left is communication's cost less");
  option("freeze-norm", po::bool_switch(), "normalisation uses running statistics in training too");
  option("json", po::value<std::string>()->default_value(""), "write the results to this file, as Google Benchmark does");
  add_config_option(options);
  add_recompute_option(options);
  add_parallel_options(options);
  add_gradient_options(options);
  add_pipeline_options(options);
  add_schedule_options(options);
  add_common_options(options);
  return options;
}

}  // namespace

int bench(const Arguments& arguments) {
  po::positional_options_description positional;
  positional.add("work", 1);
  const auto v =
      parse("bench", "Measures training or inference: every model with every input, batch size and front end.", bench_options(), arguments, positional);
  const CommonOptions common = common_options(v);
  const auto cases = cases_of(v, common.seed);
  const BenchLength length{whole_number(v, "warmup", 1, 1e6), whole_number(v, "runs", 1, 1e6)};
  const ParallelOptions parallel = parallel_options(v);
  const bool no_sync = v["no-sync"].as<bool>();
  if (no_sync && parallel.style.empty()) throw UsageError("bench: --no-sync is given without --parallel; accepted: with it");
  return run_job(parallel, common.device, [&](Job& job) {
    RunScope run(of_rank(common, job), "bench", arguments);
    return run.carry_out([&] { run_cases(run, job, cases, {length, job.rank() == 0 ? v["json"].as<std::string>() : "", no_sync}); });
  });
}

}  // namespace gemel::cli
