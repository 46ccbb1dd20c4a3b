// The bubble of a pipeline of equal layers, by schedule and micro-batches: a step over its computes alone, which every rank runs at the same time:
//   mpirun --bind-to core -np 2 build/gemel_pipeline
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "benchmarks/micro/benchmark_main.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"
#include "frontends/cli/options/arguments.h"
#include "frontends/cli/options/common_options.h"
#include "frontends/distributed/pipeline/model_cut.h"
#include "frontends/distributed/pipeline/piece_timing.h"
#include "frontends/distributed/pipeline/stage.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "frontends/nn/state/symbolic_state.h"
#include "parallel/transport/mpi_communicator.h"

namespace gemel {
namespace {

using distributed::PipelineStage;
using parallel::CommunicationThread;
using parallel::ScheduleKind;

struct Sizes {
  std::int64_t layers, width, samples, rounds;  // samples: of a micro-batch
};

/// Layers, each with its activation, whose loss is that of a classification.
std::unique_ptr<nn::Module> chain(const Sizes& sizes) {
  auto model = std::make_unique<nn::Sequential>();
  model->emplace<nn::Flatten>();
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    model->emplace<nn::Linear>(sizes.width, sizes.width);
    model->emplace<nn::ReLU>();
  }
  return model;
}

/// Before every layer that begins a piece.
std::vector<std::string> even_cuts(const Sizes& sizes, int pieces) {
  std::vector<std::string> out;
  for (int p = 1; p < pieces; ++p) out.push_back(std::to_string(1 + 2 * (p * sizes.layers / pieces)));
  return out;
}

Specs specs_of(const Sizes& sizes) { return {f32({sizes.samples, 1, 1, sizes.width}), i64({sizes.samples})}; }

std::vector<datasets::Batch> micro_batches(const Sizes& sizes, std::int64_t count) {
  const std::vector<float> pictures(at(sizes.samples * sizes.width), 0.5F);
  std::vector<std::int64_t> labels(at(sizes.samples));
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i) % sizes.width;
  std::vector<datasets::Batch> out;
  for (std::int64_t k = 0; k < count; ++k)
    out.push_back({.tensors = {datasets::host_tensor<float>("images", {sizes.samples, 1, 1, sizes.width}, pictures),
                               datasets::host_tensor<std::int64_t>("labels", {sizes.samples}, labels)},
                   .samples = sizes.samples,
                   .first_position = k * sizes.samples});
  return out;
}

/// Of the slowest rank, from a barrier on until its session has computed all.
template <class Work>
double seconds_of(CommunicationThread& communication, Session& session, const Work& work) {
  using Clock = std::chrono::steady_clock;
  communication.run([](parallel::Collectives& c) { c.barrier(); });
  const auto begin = Clock::now();
  work();
  mark(session).wait();
  std::vector<float> took{std::chrono::duration<float>(Clock::now() - begin).count()};
  communication.run([&](parallel::Collectives& c) { c.all_reduce(parallel::elements_of(took), parallel::Reduction::max); });
  return took[0];
}

/// What a stage computes in a step, without messages and without waiting.
class Computes {
 public:
  Computes(Session& session, train::Task& task, const Specs& micro_batch, const distributed::PipelinePlan& plan, int stage) {
    const parallel::PipelineShape& shape = plan.shape;
    Specs inputs = micro_batch;
    inputs.push_back(i64({4}));
    task.module().train();
    const Program program = distributed::trace_over_names(session, task, inputs);
    const distributed::TracedInputs traced{inputs.size(), nn::StateNames(task.module()).parameters()};
    const std::vector<Piece> pieces = split(program, cuts_before(program, std::get<std::vector<std::string>>(plan.cuts)), {});
    for (int p = stage; p < shape.pieces(); p += shape.stages)
      pieces_.emplace(p, std::make_unique<distributed::PieceOnZeros>(session, pieces[at(p)], traced, plan.options));
    actions_ = parallel::make_schedule(shape).actions[at(stage)];
  }
  /// In the order of the schedule, which decides what is still in the caches.
  void step() {
    using Kind = parallel::Action::Kind;
    for (const parallel::Action& a : actions_) {
      if (a.kind == Kind::forward) pieces_.at(a.piece)->forward(a.micro_batch);
      if (a.kind == Kind::backward) pieces_.at(a.piece)->backward(a.micro_batch);
    }
    for (const auto& [p, piece] : pieces_) piece->finish();
  }

 private:
  std::map<int, std::unique_ptr<distributed::PieceOnZeros>> pieces_;
  std::vector<parallel::Action> actions_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(CommunicationThread& communication, Session& session, const Sizes& sizes, const parallel::PipelineShape& shape, train::Frontend frontend) {
  const distributed::PipelinePlan plan{.cuts = even_cuts(sizes, shape.pieces()), .shape = shape, .options = {.frontend = frontend}};
  const auto model = chain(sizes);
  train::ClassificationTask task(*model, sizes.width);
  Computes computes(session, task, specs_of(sizes), plan, communication.rank());
  PipelineStage stage(session, communication, task, specs_of(sizes), plan);
  const std::vector<datasets::Batch> batches = micro_batches(sizes, shape.micro_batches);
  std::vector<double> steps, ideals, bubbles;
  for (std::int64_t round = -2; round < sizes.rounds; ++round) {
    const double ideal = seconds_of(communication, session, [&] { computes.step(); });
    const double step = seconds_of(communication, session, [&] { stage.run(batches, static_cast<double>(sizes.samples * shape.micro_batches), 1); });
    if (round < 0) continue;  // kernels are built
    ideals.push_back(ideal);
    steps.push_back(step);
    bubbles.push_back(step / ideal - 1);
  }
  if (communication.rank() != 0) return;
  const double formula = static_cast<double>(shape.stages - 1) / (shape.virtual_stages * shape.micro_batches), bubble = median(bubbles);
  fmt::print("{:<6} {:<12} {:>4} {:>10.2f} {:>10.2f} {:>8.3f} {:>15} {:>8.3f} {:>8.3f}\n", train::to_string(frontend), parallel::to_string(shape.kind),
             shape.micro_batches, 1e3 * median(steps), 1e3 * median(ideals), bubble,
             fmt::format("({:.3f}..{:.3f})", *std::ranges::min_element(bubbles), *std::ranges::max_element(bubbles)), formula, bubble - formula);
  std::fflush(stdout);
}

int run_benchmark(const std::vector<std::string>& arguments) {
  namespace po = cli::po;
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("layers", po::value<std::int64_t>()->default_value(8), "of the chain, linear ones; a multiple of twice the ranks");
  option("width", po::value<std::int64_t>()->default_value(2048), "of a layer");
  option("samples", po::value<std::int64_t>()->default_value(64), "of a micro-batch");
  option("microbatches", po::value<std::string>()->default_value("2,4,8"), "one or several numbers of them, multiples of the ranks");
  option("rounds", po::value<std::int64_t>()->default_value(20), "steps measured of each, in turn with their computes; medians are printed");
  cli::add_device_options(options);
  const auto v = cli::parse("gemel_pipeline", "The bubble of a pipeline of equal layers: mpirun --bind-to core -np 2 gemel_pipeline.", options, arguments);
  const Sizes sizes{cli::whole_number(v, "layers", 1, 1e4), cli::whole_number(v, "width", 1, 1e5), cli::whole_number(v, "samples", 1, 1e6),
                    cli::whole_number(v, "rounds", 1, 1e6)};
  const auto counts = cli::whole_numbers(v, "microbatches", 1, 1e4);
  opencl::DeviceOptions device = cli::device_options(v);
  if (!parallel::mpi_launch()) throw UsageError("mpirun did not start this process; accepted: mpirun --bind-to core -np 2 gemel_pipeline");
  if (device.threads == 0) device.threads = 1;
  CommunicationThread communication(parallel::mpi_communicator);
  const int stages = communication.size();
  if (sizes.layers % (2 * stages) != 0)
    throw UsageError(fmt::format("--layers: {} over {} ranks; accepted: a multiple of {}", sizes.layers, stages, 2 * stages));
  communication.run([](parallel::Collectives& c) { c.communicator().wait_as({.spin_ns = 0}); });
  Session session(opencl::Device::open(device));
  if (communication.rank() == 0) {
    cli::say_device(session.device().profile());
    fmt::print("{:<6} {:<12} {:>4} {:>10} {:>10} {:>8} {:>15} {:>8} {:>8}\n", "", "schedule", "m", "step ms", "computes", "bubble", "(least..most)", "formula",
               "above");
  }
  for (const train::Frontend frontend : {train::Frontend::eager, train::Frontend::graph})
    for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved})
      for (const std::int64_t m : counts)
        measure(communication, session, sizes, {kind, stages, kind == ScheduleKind::interleaved ? 2 : 1, static_cast<int>(m)}, frontend);
  return 0;
}

}  // namespace
}  // namespace gemel

int main(int count, char** values) { return gemel::benchmark_main("gemel_pipeline", gemel::run_benchmark, count, values); }
