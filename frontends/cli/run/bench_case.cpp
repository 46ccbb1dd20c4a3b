#include "frontends/cli/run/bench_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>

#include "datasets/loading/data_loader.h"
#include "engine/base/clock.h"
#include "engine/base/numbers.h"
#include "frontends/cli/options/ablation_options.h"
#include "frontends/cli/run/joined_trace.h"
#include "frontends/cli/system/resident_peak.h"
#include "frontends/optim/optimizer.h"
#include "frontends/train/step.h"

namespace gemel::cli {
namespace {

datasets::Batch batch_of(const BenchCase& c) {
  datasets::DataLoaderOptions options;
  options.batch_size = c.batch_size;
  options.shuffle = datasets::Shuffle::off;
  options.workers = 0;
  options.rank = c.copy;
  options.ranks = c.copies;
  options.micro_batches = c.accumulate;
  datasets::DataLoader loader(c.with->train_data(), options);
  loader.start(0);
  return *loader.next();
}

double seconds_of(const std::function<void()>& step) {
  const auto begin = std::chrono::steady_clock::now();
  step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Runs steps on one batch, which lies on the device, and takes their times.
class Meter {
 public:
  Meter(RunScope& run, Job& job, const BenchLength& length) : run_(run), job_(job), length_(length) {}

  void run(BenchCase& c, Session& session, train::Task& task) {
    c.strategy = c.strategy->measured(session, job_, task, use_of(c));
    c.micro_batches = c.strategy->micro_batches(c.batch_size, job_.size(), c.accumulate);
    const auto model = c.strategy->model(session, job_, task, use_of(c));
    run_.device().memory().trim();
    run_.device().memory().reset_peak();
    model->build({});
    is_helped_ = c.work == Work::train && model->is_helped();
    try {
      c.work == Work::train ? train(c, *model) : infer(c, *model);
    } catch (const Interrupted&) {
      if (is_helped_) end_help(*model, true);
      throw;
    }
    add_communication(run_, model->take_spans());
    if (is_helped_)
      run_.begin_batch(end_help(*model, false));
    else
      model->end();
    join_seconds();
    result_.arena = model->arena();
  }

  BenchResult& result() { return result_; }

 private:
  ModelUse use_of(const BenchCase& c) const {
    return {.purpose = c.purpose(),
            .batch = c.with->batch(c.batch_size),
            .shard = c.with->batch(c.largest_shard()),
            .micro_batches = c.micro_batches,
            .frontend = c.frontend,
            .passes = run_.options().passes,
            .recompute = c.recompute,
            .sync_bn = job_.options().sync_bn,
            .keeps_spans = !run_.options().profile.empty(),
            .memory_bytes = run_.memory_limit(),
            .parameter_copies = c.optimizer.make()->parameter_copies()};
  }

  void train(const BenchCase& c, RankModel& model) {
    model.attach(c.optimizer.make(model.groups(optim::all_in_one)));
    train::Stepper& stepper = model.stepper();
    const datasets::Batch batch = batch_of(c);
    const train::DeviceBatch on_device = c.accumulate == 1 ? stepper.to_device(batch) : train::DeviceBatch();
    std::int64_t step = 0;
    const auto train_once = [&] {
      const double rate = c.optimizer.rate, weight = static_cast<double>(c.batch_size);
      ++step;
      (c.accumulate == 1 ? stepper.train(on_device, rate, step, weight) : stepper.train(batch, rate, step, weight)).get();
      finish(c.empty_launches);
    };
    if (is_helped_ && job_.rank() != 0) {
      result_.seconds.assign(static_cast<std::size_t>(length_.runs), 0);  // those of rank 0 count
      return train_once();
    }
    measure([&] {
      train_once();
      const auto exposed = model.ranks().next_exposed_ms();
      if (exposed && step > length_.warmup) result_.exposed_ms.push_back(*exposed);
    });
  }

  void infer(const BenchCase& c, RankModel& model) {
    const auto forward = model.inference(batch_of(c));
    measure([&] {
      const Values out = forward();
      finish(c.empty_launches);
    });
  }

  /// Ends a step.
  void finish(std::int64_t empty_launches) {
    if (empty_launches > 0) {
      opencl::Device& device = run_.device();
      opencl::Kernel& empty = device.generated_kernel(
          "empty", [] { return std::string("__kernel void empty() {}"); }, "empty");
      for (std::int64_t i = 0; i < empty_launches; ++i) device.run(empty, opencl::range1(1, 1), {});
    }
    run_.device().finish();
  }

  /// A step is as long as on the slowest rank.
  void join_seconds() {
    if (!job_.communication()) return;
    const auto all = job_.communication()->run([&](parallel::Collectives& c) { return c.all_gather(std::as_bytes(std::span(result_.seconds))); });
    for (const auto& bytes : all)
      for (std::size_t i = 0; i < result_.seconds.size(); ++i) {
        double seconds = 0;
        std::memcpy(&seconds, bytes.data() + i * sizeof seconds, sizeof seconds);
        result_.seconds[i] = std::max(result_.seconds[i], seconds);
      }
  }
  /// All ranks stop before the same step.
  bool interrupted() { return is_helped_ ? InterruptGuard::interrupted() : on_some_rank(InterruptGuard::interrupted()); }
  /// Collective. @return whether it was interrupted
  bool end_help(RankModel& model, bool interrupted) {
    model.end();
    return on_some_rank(interrupted);
  }
  bool on_some_rank(bool is) {
    std::int32_t some = is;
    if (job_.communication())
      job_.communication()->run([&some](parallel::Collectives& c) {
        c.all_reduce({reinterpret_cast<std::byte*>(&some), 1, DType::int32}, parallel::Reduction::max);
      });
    return some != 0;
  }
  void measure(const std::function<void()>& step) {
    result_.first_seconds = seconds_of(step);
    for (std::int64_t i = 1; i < length_.warmup; ++i) {
      run_.begin_batch(interrupted());
      step();
    }
    run_.times().take_busy_seconds();
    std::vector<double> timed;
    result_.measured_from = unix_seconds();
    for (std::int64_t i = 0; i < length_.runs; ++i) {
      const bool is_timed = run_.begin_batch(interrupted());
      result_.seconds.push_back(seconds_of(step));
      if (is_timed) timed.push_back(result_.seconds.back());
    }
    result_.measured_to = unix_seconds();
    result_.busy = run_.times().take_busy_seconds() / (static_cast<double>(length_.runs) * spread_of(timed).mean);
  }

  RunScope& run_;
  Job& job_;
  BenchLength length_;
  BenchResult result_;
  bool is_helped_ = false;  // rank 0 alone makes the steps
};

/// Collective.
std::vector<std::int64_t> numbers_of_ranks(Job& job, std::int64_t mine) {
  std::vector<std::int64_t> out;
  for (const std::string& text : distributed::texts_of_ranks(*job.communication(), std::to_string(mine))) out.push_back(std::stoll(text));
  return out;
}

}  // namespace

std::string BenchCase::name() const {
  std::string cut = strategy->cut(purpose(), micro_batches);
  if (!cut.empty()) cut = "/" + cut;
  return fmt::format("{}/{}/{}/{}/{}{}{}{}{}{}{}{}", work == Work::train ? "train" : "infer", with->title(), batch_size, input, train::to_string(frontend),
                     recompute == models::RecomputedParts::blocks ? "/recompute" : "", freeze_norm ? "/freeze-norm" : "",
                     work == Work::infer || optimizer.name == kOptimizer ? "" : "/" + optimizer.name,
                     accumulate > 1 ? fmt::format("/accumulate:{}", accumulate) : "", parallel.empty() ? "" : fmt::format("/{}:{}{}", parallel, ranks, cut),
                     ablation_suffix(spec), empty_launches > 0 ? fmt::format("/empty-launches:{}", empty_launches) : "");
}

std::unique_ptr<nn::Module> BenchCase::make_model(models::RecomputedParts parts) const {
  auto made = with->model({.recompute = parts});
  if (freeze_norm) made->freeze_norm();
  return made;
}

bool BenchCase::trains_on(std::int64_t samples) const {
  const auto made = make_model(models::RecomputedParts::none);
  return cli::trains_on(*with->task(*made), with->batch(samples));
}

void BenchCase::plan(const opencl::Device& device) {
  const auto made = make_model(recompute);
  const Specs batch = with->batch(largest_shard());
  const std::int64_t part = ceil_div(largest_shard(), accumulate);
  held_bytes = state_bytes(*made) + (work == Work::train ? (optimizer.make()->parameter_copies() - 1) * slab_bytes(*made) : 0);
  for (const Spec& s : batch) held_bytes += s.bytes();
  planned = plan_step(*with->task(*made), with->batch(part), work, &device);
  if (recompute == models::RecomputedParts::blocks) {
    const auto plain = make_model(models::RecomputedParts::none);  // the rate is of the model's own work, done once
    planned.flops = plan_step(*with->task(*plain), with->batch(part), work).flops;
  }
  planned.flops = planned.flops * largest_shard() / part;
}

Spread spread_of(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const std::size_t n = v.size();
  Spread s{std::reduce(v.begin(), v.end()) / static_cast<double>(n), n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2, v.front(), v.back()};
  double squares = 0;
  for (const double x : v) squares += (x - s.mean) * (x - s.mean);
  s.stddev = n > 1 ? std::sqrt(squares / static_cast<double>(n - 1)) : 0;
  return s;
}

BenchResult run_case(RunScope& run, Job& job, BenchCase& c, const BenchLength& length) {
  opencl::Allocator& memory = run.device().memory();
  memory.trim();
  memory.reset_peak();
  const std::int64_t before = memory.statistics().in_use;
  const ResidentPeak resident;
  Session session(run.shared_device(), run.options().seed);
  if (c.frontend == Frontend::eager && run.device().profile().builds_ahead()) {
    const auto unbuilt = c.make_model(c.recompute);
    build_step(session, *c.with->task(*unbuilt), c.with->batch(ceil_div(c.largest_shard(), c.accumulate)), c.work);
  }
  const auto model = c.make_model(c.strategy->recomputed_by_model(c.recompute));
  const auto task = c.with->task(*model);
  Meter meter(run, job, length);
  meter.run(c, session, *task);
  meter.result().parameters = model->parameter_elements();
  meter.result().peak_bytes = memory.statistics().peak_in_use - before;
  meter.result().resident_bytes = resident.bytes();
  if (!job.communication()) return meter.result();
  if (job.strategy().ranks_are() != RanksAre::threads) {
    const std::vector<std::int64_t> of_ranks = numbers_of_ranks(job, resident.bytes());
    meter.result().resident_bytes = std::accumulate(of_ranks.begin(), of_ranks.end(), std::int64_t{0});
  }
  if (c.strategy->splits_model()) meter.result().stage_peak_bytes = numbers_of_ranks(job, meter.result().peak_bytes);
  return meter.result();
}

}  // namespace gemel::cli
