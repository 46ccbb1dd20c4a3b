#include "frontends/cli/run/bench_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>

#include "datasets/loading/data_loader.h"
#include "engine/base/numbers.h"
#include "frontends/cli/job/pipeline_plan.h"
#include "frontends/cli/options/ablation_options.h"
#include "frontends/cli/run/joined_trace.h"
#include "frontends/cli/system/resident_peak.h"
#include "frontends/optim/optimizer.h"
#include "frontends/train/inference.h"
#include "frontends/train/step.h"

namespace gemel::cli {
namespace {

datasets::Batch batch_of(const BenchCase& c) {
  datasets::LoaderOptions options;
  options.batch_size = c.batch_size;
  options.shuffle = datasets::Shuffle::off;
  options.workers = 0;
  options.rank = c.copy;
  options.ranks = c.copies;
  options.micro_batches = c.accumulate;
  datasets::Loader loader(c.with->train_data(), options);
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

  void train(const BenchCase& c, Session& session, nn::Module& model) {
    const auto owned = c.with->task(model);
    train::Task& task = *owned;
    if (!c.pipeline.empty()) return train_stage(c, session, task);
    std::unique_ptr<parallel::horovod::Horovod> horovod;
    std::optional<distributed::DataParallel> shared;
    if (c.parallel.empty() || c.parallel == kNoSync) {
      train::pack_parameters(session, task, c.with->batch(c.largest_shard()));
    } else {
      horovod = job_.begin_cycles();
      shared.emplace(session, *job_.communication(), job_.options().data_parallel({.keeps_spans = !run_.options().profile.empty(), .horovod = horovod.get()}));
      shared->pack(task, c.with->batch(c.batch_size));
    }
    const auto optimizer = c.optimizer.make(optim::all_in_one(model.parameters()));
    if (shared) shared->attach(model, *optimizer);
    train::Step training(session, task, optimizer.get(),
                         {.frontend = c.frontend, .passes = run_.options().passes, .accumulate = c.accumulate, .ranks = shared ? &*shared : nullptr});
    const datasets::Batch batch = batch_of(c);
    const train::DeviceBatch on_device = c.accumulate == 1 ? training.to_device(batch) : train::DeviceBatch();
    std::int64_t step = 0;
    measure([&] {
      const double rate = c.optimizer.rate, weight = static_cast<double>(c.batch_size);
      ++step;
      (c.accumulate == 1 ? training.train(on_device, rate, step, weight) : training.train(batch, rate, step, weight)).get();
      const auto exposed = shared ? shared->next_exposed_ms() : std::nullopt;
      if (exposed && step > length_.warmup) result_.exposed_ms.push_back(*exposed);
    });
    if (shared) add_communication(run_, shared->reducer().take_spans());
    if (horovod) horovod->shutdown();  // here, where an error that it meets is told
    result_.arena = training.arena();
  }

  void train_stage(const BenchCase& c, Session& session, train::Task& task) {
    const datasets::Batch batch = batch_of(c);
    const Specs shard = c.with->batch(c.largest_shard());
    const bool keeps_spans = !run_.options().profile.empty();
    const PlannedPipeline planned = planned_pipeline(session, job_, task, shard,
                                                     {.shape = {.micro_batches = c.micro_batches},
                                                      .memory_bytes = run_.memory_limit(),
                                                      .parameter_copies = c.optimizer.parameter_copies(),
                                                      .stage = {.frontend = c.frontend,
                                                                .passes = run_.options().passes,
                                                                .kept = c.recompute == models::RecomputedParts::none ? Kept::all : Kept::inputs,
                                                                .keeps_spans = keeps_spans}});
    run_.device().memory().trim();
    run_.device().memory().reset_peak();
    distributed::Pipeline stage(session, *job_.communication(), task, planned.micro_batch, planned.plan);
    const auto optimizer = c.optimizer.make(stage.groups());
    stage.attach(*optimizer, job_.options().data_parallel({.keeps_spans = keeps_spans}).reducer);
    std::int64_t step = 0;
    measure([&] {
      stage.train(batch, c.optimizer.rate, ++step, static_cast<double>(c.batch_size)).get();
      run_.device().finish();
      const auto exposed = stage.next_exposed_ms();
      if (exposed && step > length_.warmup) result_.exposed_ms.push_back(*exposed);
    });
    add_communication(run_, stage.take_spans());
    result_.arena = stage.arena();
  }

  void infer(const BenchCase& c, Session& session, nn::Module& model) {
    train::Inference inference(session, model, c.frontend, run_.options().passes);
    const datasets::Batch batch = batch_of(c);
    std::vector<std::string> names = c.with->task(model)->inputs();
    names.pop_back();  // the labels
    Values in;
    for (const std::string& name : names) in.push_back(session.tensor(batch[name].spec, *batch[name].bytes));
    measure([&] {
      const Values out = inference(in);
      run_.device().finish();
    });
    result_.arena = inference.arena();
  }

  BenchResult& result() { return result_; }

 private:
  /// All ranks stop before the same step.
  bool interrupted() {
    std::int32_t some = InterruptGuard::interrupted();
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
    for (std::int64_t i = 0; i < length_.runs; ++i) {
      const bool is_timed = run_.begin_batch(interrupted());
      result_.seconds.push_back(seconds_of(step));
      if (is_timed) timed.push_back(result_.seconds.back());
    }
    result_.busy = run_.times().take_busy_seconds() / (static_cast<double>(length_.runs) * spread_of(timed).mean);
  }

  RunScope& run_;
  Job& job_;
  BenchLength length_;
  BenchResult result_;
};

}  // namespace

std::string BenchCase::name() const {
  return fmt::format("{}/{}/{}/{}/{}{}{}{}{}{}{}", work == Work::train ? "train" : "infer", with->title(), batch_size, input, train::to_string(frontend),
                     recompute == models::RecomputedParts::blocks ? "/recompute" : "", freeze_norm ? "/freeze-norm" : "",
                     work == Work::infer || optimizer.name == kOptimizer ? "" : "/" + optimizer.name,
                     accumulate > 1 ? fmt::format("/accumulate:{}", accumulate) : "",
                     parallel.empty() ? "" : fmt::format("/{}:{}{}{}", parallel, ranks, pipeline.empty() ? "" : "/", pipeline), ablation_suffix(spec));
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

void BenchCase::plan(const opencl::DeviceProfile& device) {
  const auto made = make_model(recompute);
  const Specs batch = with->batch(largest_shard());
  const std::int64_t part = ceil_div(largest_shard(), accumulate);
  held_bytes = state_bytes(*made) + (work == Work::train ? (optimizer.parameter_copies() - 1) * slab_bytes(*made) : 0);
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

BenchResult run_case(RunScope& run, Job& job, const BenchCase& c, const BenchLength& length) {
  opencl::Allocator& memory = run.device().memory();
  memory.trim();
  memory.reset_peak();
  const std::int64_t before = memory.statistics().in_use;
  const ResidentPeak resident;
  Session session(run.shared_device(), run.options().seed);
  const auto model = c.make_model(c.pipeline.empty() ? c.recompute : models::RecomputedParts::none);  // a stage computes its pieces again
  if (c.pipeline.empty()) model->materialise(session);
  Meter meter(run, job, length);
  if (c.work == Work::train)
    meter.train(c, session, *model);
  else
    meter.infer(c, session, *model);
  meter.result().peak_bytes = memory.statistics().peak_in_use - before;
  meter.result().resident_bytes = resident.bytes();
  if (!c.pipeline.empty())
    for (const std::string& text : distributed::texts_of_ranks(*job.communication(), std::to_string(meter.result().peak_bytes)))
      meter.result().stage_peak_bytes.push_back(std::stoll(text));
  return meter.result();
}

}  // namespace gemel::cli
