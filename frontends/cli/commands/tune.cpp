// gemel tune: measures every variant of every operator that models have on this device, and of the products within these, and keeps the names of
// those that are faster than dispatch's own choice.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <set>

#include "engine/base/error.h"
#include "engine/device/dispatch.h"
#include "engine/ops/ops.h"
#include "frontends/cli/command.h"
#include "frontends/cli/options/dataset_options.h"
#include "frontends/cli/options/model_options.h"
#include "frontends/cli/run/bench_case.h"
#include "frontends/cli/run/operator_run.h"
#include "frontends/cli/system/console.h"
#include "frontends/models/pictures/picture_models.h"
#include "opencl/clblast/clblast_gemm.h"
#include "opencl/program/compiler_abort.h"
#include "opencl/program/tuning_table.h"

namespace gemel::cli {
namespace {

constexpr double kClearly = 0.97;  // of the time of dispatch's own choice: less is not noise
constexpr double kHopeless = 3;    // times the best so far, at the first count: not measured any further
constexpr std::int64_t kClblastSize = 1024;

/// Whether more than one variant takes a problem.
bool has_a_choice(const OperatorCase& c, const opencl::DeviceProfile& profile) {
  const Problem p = c.problem();
  return std::ranges::count_if(p.op.variants, [&](const Variant& v) { return !declines(v, p, profile); }) > 1;
}

/// The options with each of --model's names.
std::vector<domains::RunOptions> of_models(const po::variables_map& v) {
  std::vector<domains::RunOptions> out;
  for (const std::string& name : split_at_commas(v["model"].as<std::string>())) {
    out.push_back(run_options(v));
    out.back().set("model", name, true);
    domains::of_model(out.back());
  }
  return out;
}

/// The operators of the models' steps that have a choice, for every input and batch size.
std::vector<OperatorCase> cases_of(const po::variables_map& v, const opencl::DeviceProfile& profile) {
  const auto session = Session::reference();
  std::vector<OperatorCase> cases;
  std::set<std::string> known;
  for (const domains::RunOptions& options : of_models(v)) {
    for (const std::int64_t batch : whole_numbers(v, "batch-size", 1, 1'000'000))
      for (const domains::MadeUp& data : domains::made_up(options, batch)) {
        const auto workload = data.open();
        for (const Work work : {Work::train, Work::infer}) {
          const auto model = workload->model();
          for (OperatorCase& c : distinct_operators(capture_step(*session, *workload->task(*model), workload->batch(batch), work)))
            if (has_a_choice(c, profile) && known.insert(tuning_key(c.problem(), profile)).second) cases.push_back(std::move(c));
        }
      }
  }
  std::ranges::stable_sort(cases, std::greater(), [](const OperatorCase& c) { return c.op->cost ? c.count * c.op->cost(c.problem()).flops : 0; });
  return cases;
}

/// The products within the cases that are computed through some, by dispatch's own choice or the table's. A product that is a case itself is left out.
std::vector<OperatorCase> products_within(const std::vector<OperatorCase>& cases, opencl::DeviceProfile profile, const opencl::TuningTable& table) {
  std::vector<OperatorCase> products;
  std::set<std::string> known;
  for (const OperatorCase& c : cases) known.insert(tuning_key(c.problem(), profile));
  for (const auto& choices : {std::shared_ptr<const opencl::TuningTable>(), std::make_shared<const opencl::TuningTable>(table)}) {
    profile.preferences.tuning = choices;
    for (const OperatorCase& c : cases) {
      const Variant& chosen = choose(c.problem(), profile);
      if (!chosen.products) continue;
      for (OwnedProblem& product : chosen.products(c.problem(), profile)) {
        OperatorCase matmul{&product.op, std::move(product.attributes), std::move(product.inputs), std::move(product.outputs)};
        if (has_a_choice(matmul, profile) && known.insert(tuning_key(matmul.problem(), profile)).second) products.push_back(std::move(matmul));
      }
    }
  }
  return products;
}

/// Times of an operator's variants. On GPUs those of its kernels, as the device tells them: the host's time of a call is longer than many a kernel; and of up
/// to eight sets of operands in turn, so that fewer lie in the caches because they were just used. Elsewhere the host's times of calls on the same operands.
class OperatorTimes {
 public:
  OperatorTimes(Session& session, const OperatorCase& c) : device_(session.device()), on_gpu_(device_.profile().runs_items_in_lanes()) {
    constexpr std::int64_t kMostSets = 8, kMostBytes = std::int64_t{1} << 30;
    std::int64_t bytes = 1;
    for (const Specs* specs : {&c.in, &c.out})
      for (const Spec& s : *specs) bytes += s.bytes();
    const std::int64_t apart = on_gpu_ ? std::min(2 * device_.profile().cache_bytes, kMostBytes) / bytes + 1 : 1;
    for (std::int64_t i = 0; i < std::min(apart, kMostSets); ++i) runs_.push_back(std::make_unique<OperatorRun>(session, c));
  }
  /// The shortest of `count` calls, after a first that does not count.
  double best(const Variant& v, int count) {
    if (!on_gpu_) return best_seconds(device_, count, [&] { next().enqueue(v); });
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i <= count; ++i) {
      const double seconds = seconds_on_device(v);
      if (i) best = std::min(best, seconds);
    }
    return best;
  }
  /// The medians of so many calls of each of two variants in turn.
  std::array<double, 2> in_turn(const std::array<const Variant*, 2>& variants, int count) {
    std::array<std::vector<double>, 2> times;
    for (int i = 0; i < count; ++i)
      for (std::size_t v : {0u, 1u}) times[v].push_back(best(*variants[v], 1));
    return {spread_of(times[0]).median, spread_of(times[1]).median};
  }

 private:
  OperatorRun& next() { return *runs_[calls_++ % runs_.size()]; }
  double seconds_on_device(const Variant& v) {
    device_.take_work();
    next().enqueue(v);  // not timed: while it runs the host enqueues what is, of which the device then waits for nothing
    device_.time_work(opencl::Device::Timing::on);
    next().enqueue(v);
    std::int64_t ns = 0;
    for (const opencl::TimedWork& w : device_.take_work()) ns += w.end_ns - w.begin_ns;
    device_.time_work(opencl::Device::Timing::off);
    return 1e-9 * static_cast<double>(ns);
  }

  opencl::Device& device_;
  bool on_gpu_;
  std::vector<std::unique_ptr<OperatorRun>> runs_;
  std::size_t calls_ = 0;
};

/// Measures one operator and notes the best.
/// @param which  "3/48", in front of its line  @return whether the table changed
bool tune_case(Session& session, const OperatorCase& c, int runs, opencl::TuningTable& table, std::string_view which) {
  opencl::DeviceProfile untuned = session.device().profile();
  untuned.preferences.tuning = nullptr;
  const Problem problem = c.problem();
  const std::string key = tuning_key(problem, untuned);
  const Variant& usual = choose(problem, untuned);
  OperatorTimes times(session, c);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto seconds_of = [&](const Variant& v, int count) {
    try {
      return times.best(v, count);
    } catch (const opencl::CompilerAbort& e) {
      say("{:>9}  {} declines: {}\n", which, v.name, e.what());
      return kNever;
    }
  };
  const double usual_seconds = seconds_of(usual, runs);
  const Variant* best = &usual;
  double least = usual_seconds;
  for (const Variant& v : problem.op.variants) {
    if (&v == &usual || declines(v, problem, untuned) || seconds_of(v, 1) > kHopeless * least) continue;
    if (const double seconds = seconds_of(v, runs); seconds < least) least = seconds, best = &v;
  }
  bool clearly = best != &usual && least < kClearly * usual_seconds;
  if (clearly && usual_seconds < kNever) {  // what the best of a few says once may be chance
    const auto [usual_median, best_median] = times.in_turn({&usual, best}, 2 * runs + 1);
    clearly = best_median < kClearly * usual_median;
  }
  say("{:>9}  {:<24} {:>9.3f} ms  {} {}\n", which, clearly ? fmt::format("{} -> {}", usual.name, best->name) : usual.name, 1e3 * usual_seconds,
      clearly ? fmt::format("-> {:.3f} ms ", 1e3 * least) : std::string(), key);
  const std::string* before = table.variant_for(key);
  const std::string after = clearly ? best->name : "";
  if ((before ? *before : "") == after) return false;
  table.set(key, after);
  return true;
}

/// The products within others come last, when it is known which have them.
/// @param limit  in seconds, after which no further operator is begun
void tune_cases(RunScope& scope, const std::vector<OperatorCase>& cases, int runs, double limit, opencl::TuningTable& table) {
  const opencl::DeviceProfile& profile = scope.device().profile();
  const auto begin = std::chrono::steady_clock::now();
  std::size_t measured = 0, left_out = 0;
  std::int64_t changes = 0;
  const auto tune_each = [&](const std::vector<OperatorCase>& some) {
    const std::size_t all = measured + some.size();
    for (const OperatorCase& c : some) {
      scope.begin_batch();
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > limit) {
        left_out = all - measured;
        return;
      }
      if (!tune_case(scope.session(), c, runs, table, fmt::format("{}/{}", ++measured, all))) continue;
      ++changes;
      opencl::write_tuning(profile, table);  // after each, so that an interrupt loses none
    }
  };
  tune_each(cases);
  if (left_out == 0) tune_each(products_within(cases, profile, table));
  say("{} operators measured, {} entries changed, {} in the table\n", measured, changes, table.variants().size());
  if (left_out > 0)
    say("the time is over: {} operators, which compute less, and products within others were left out; a longer --seconds measures them too\n", left_out);
}

po::options_description tune_options() {
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("model", po::value<std::string>()->default_value("resnet18,resnet50,vgg16,mobilenet_v2"),
         fmt::format("one or several, whose operators are measured; {}", model_help()).c_str());
  option("batch-size", po::value<std::string>()->default_value("16"), "one or several, such as 1,8,16");
  option("classes", po::value<std::int64_t>()->default_value(1000), "size of the last layer");
  option("input", po::value<std::string>()->default_value(""), fmt::format("one or several, separated by commas: {}", made_up_input_help()).c_str());
  option("runs", po::value<std::int64_t>()->default_value(5), "the best of so many counts");
  option("seconds", po::value<double>()->default_value(0), "no operator is begun later; those that compute most come first; 0: all are measured");
  option("clblast", po::bool_switch(), "have CLBlast's own tuners measure its GEMM too: minutes on a GPU, far more on a CPU");
  option("clblast-fraction", po::value<double>()->default_value(64), "one in so many of its parameters is tried");
  option("forget", po::bool_switch(), "empty this device's table");
  add_domain_options(options, domains::OptionUse::model);
  add_common_options(options);
  return options;
}

}  // namespace

int tune(const Arguments& arguments) {
  const auto v = parse("tune",
                       "Measures kernel variants on this device and keeps the best. train, eval, infer and bench then choose them wherever an\n"
                       "operator has exactly the shapes that were measured: with these models at these batch sizes, inputs and classes.",
                       tune_options(), arguments);
  if (!v["clblast-fraction"].defaulted() && !v["clblast"].as<bool>())
    throw UsageError("--clblast-fraction: CLBlast's own tuners are not asked for; accepted: with --clblast");
  check_range("--clblast-fraction", v["clblast-fraction"].as<double>(), 1, 1e6);
  const auto runs = static_cast<int>(whole_number(v, "runs", 1, 1e6));
  check_range("--seconds", v["seconds"].as<double>(), 0, 1e9);
  const double limit = v["seconds"].as<double>() > 0 ? v["seconds"].as<double>() : std::numeric_limits<double>::infinity();
  for (const domains::RunOptions& options : of_models(v)) domains::made_up(options, 1);
  whole_numbers(v, "batch-size", 1, 1'000'000);
  const bool forget = v["forget"].as<bool>();
  CommonOptions common = common_options(v);
  if (common.device.gemm != opencl::GemmChoice::automatic) throw UsageError("--gemm: every provider is measured; accepted: auto");
  common.device.ablation.tuning = !forget;  // a table that no device opens with can be forgotten too
  RunScope scope(std::move(common), "tune", arguments);
  return scope.carry_out([&] {
    scope.open_device();
    const opencl::DeviceProfile& profile = scope.device().profile();
    opencl::TuningTable table = forget ? opencl::TuningTable() : opencl::read_tuning(profile);
    say("table: {}\n", opencl::write_tuning(profile, table).string());
    if (forget) return;
    for (const std::string_view kernel : opencl::clblast_kernels()) {
      if (!v["clblast"].as<bool>()) break;
      scope.begin_batch();
      say("clblast {}\n", kernel);
      table.clblast[std::string(kernel)] = opencl::tune_clblast(scope.device(), kernel, kClblastSize, v["clblast-fraction"].as<double>());
      opencl::write_tuning(profile, table);
    }
    tune_cases(scope, cases_of(v, profile), runs, limit, table);
  });
}

}  // namespace gemel::cli
