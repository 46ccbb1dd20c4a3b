#include "frontends/distributed/pipeline/model_cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"
#include "engine/gradients/autograd.h"
#include "engine/graph/cut/split.h"
#include "engine/ops/ops.h"
#include "engine/parameters/parameter_slab.h"
#include "frontends/distributed/data_parallel.h"
#include "frontends/distributed/pipeline/piece_timing.h"
#include "frontends/nn/state/symbolic_state.h"
#include "parallel/pipeline/simulate.h"

namespace gemel::distributed {
namespace {

// Of no device in particular: what counts is how many operations take as long as a byte of memory.
constexpr double kFlopsPerSecond = 1e11, kBytesPerSecond = 1e10;
// Of messages between ranks of a machine.
constexpr double kMessageSeconds = 5e-5, kSecondsPerByte = 1 / 4e9;

double estimated_seconds(const Program& program, std::size_t first, std::size_t last) {
  double out = 0;
  for (std::size_t i = first; i < last; ++i) {
    const Program::Instruction& step = program.code[i];
    if (!step.op->cost) continue;
    const Cost cost = step.op->cost({*step.op, step.attributes, specs_of(step.inputs), specs_of(step.outputs)});
    out += std::max(static_cast<double>(cost.flops) / kFlopsPerSecond, static_cast<double>(cost.bytes) / kBytesPerSecond);
  }
  return out;
}

std::size_t given_count(const Piece& piece) { return piece.own.size() + piece.arrives.size(); }

std::int64_t bytes_of(const std::vector<Program::Use>& uses) {
  std::int64_t out = 0;
  for (const auto& u : uses) out += u.spec.bytes();
  return out;
}

/// Forwards alone keep nothing but what is on its way.
parallel::PipelineUnit evaluated_unit(const Piece& piece) {
  return {.forward_s = estimated_seconds(piece.program, 0, piece.program.code.size()),
          .activation_bytes = bytes_of(piece.arrives),
          .boundary_bytes = bytes_of(piece.leaves)};
}

/// From a piece's forward and backward pass, traced as one program.
parallel::PipelineUnit trained_unit(Session& session, const Piece& piece, const TracedInputs& inputs, const PipelineMeans& means) {
  Specs specs;
  for (std::size_t i = 0; i < given_count(piece); ++i) specs.push_back(piece.program.inputs[i].spec);
  for (const auto& u : piece.program.outputs)
    if (u.tracked) specs.push_back(u.spec);
  std::size_t forward = 0;
  std::int64_t left = 0;
  const Program both = capture(session, specs, [&](const Values& in) {
    Values given(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(given_count(piece))), targets, seeds;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const bool differs = i < piece.own.size() ? inputs.is_parameter(piece.own[i]) : piece.arrives[i - piece.own.size()].tracked;
      if (differs) targets.push_back(given[i] = leaf(given[i]));
    }
    const auto parameters = at(std::ranges::count_if(piece.own, [&](std::size_t i) { return inputs.is_parameter(i); }));
    GradientOptions options;
    options.postpone = [&](std::size_t i, const Value& a, const Value& b) {
      if (i < parameters) left += left_bytes(a.spec(), b.spec(), means.shape.micro_batches);
      return false;
    };
    const Values outputs = run(session, piece, given);
    forward = session.trace().instructions();
    std::size_t next = given.size();
    for (const auto& u : piece.program.outputs) seeds.push_back(u.tracked ? in[next++] : Value());
    Values out;
    if (next > given.size() && !targets.empty())
      for (Value& g : gradient(outputs, targets, std::move(seeds), options))
        if (g) out.push_back(std::move(g));
    return out;
  });
  parallel::PipelineUnit unit{.forward_s = estimated_seconds(both, 0, forward), .backward_s = estimated_seconds(both, forward, both.code.size())};
  unit.activation_bytes = bytes_of(piece.arrives);
  unit.boundary_bytes = bytes_of(piece.leaves);
  const std::int64_t saved = forward < both.code.size() ? bytes_of(crossing(both, forward)) : 0;
  unit.other_bytes = left;
  (means.stage.kept == Kept::inputs ? unit.recomputed_bytes : unit.activation_bytes) += saved;
  return unit;
}

/// Before modules that have parameters: what has none (activations, pooling) is best computed with what comes before it, and there it is
/// fused and makes what crosses smaller.
std::vector<CutPoint> places_to_cut(const Program& program, const TracedInputs& inputs) {
  std::vector<CutPoint> points = cut_points(program);
  std::vector<std::size_t> cuts;
  for (const CutPoint& point : points) cuts.push_back(point.index);
  const std::vector<Piece> parts = split(program, cuts, {});
  std::vector<CutPoint> out;
  for (std::size_t k = 0; k < points.size(); ++k)
    if (std::ranges::any_of(parts[k + 1].own, [&](std::size_t i) { return inputs.is_parameter(i); })) out.push_back(std::move(points[k]));
  return out;
}

double seconds(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The least of a few times.
void measure(parallel::PipelineUnit& unit, Session& session, const Piece& traced, const TracedInputs& inputs, const PipelineMeans& means) {
  constexpr int kTimes = 3;
  PieceOnZeros piece(session, traced, inputs, means.stage, means.trains);
  mark(session).wait();
  for (int i = 0; i <= kTimes; ++i) {  // the first one builds kernels
    const double forward = seconds([&] {
      piece.forward(0);
      mark(session).wait();
    });
    const double backward = !means.trains ? 0 : seconds([&] {
      piece.backward(0);
      mark(session).wait();
    });
    for (int k = 1; k < means.shape.micro_batches && piece.has_left(); ++k) {  // of all micro-batches
      piece.forward(0);
      piece.backward(0);
    }
    mark(session).wait();
    const double finish = !means.trains ? 0 : seconds([&] {
      piece.finish();
      mark(session).wait();
    });
    if (i == 0) continue;
    unit.forward_s = i == 1 ? forward : std::min(unit.forward_s, forward);
    unit.backward_s = i == 1 ? backward : std::min(unit.backward_s, backward);
    unit.step_s = i == 1 ? finish : std::min(unit.step_s, finish);
  }
}

}  // namespace

Program trace_over_names(Session& session, train::Task& task, const Specs& inputs) {
  task.cut_into_stages();
  nn::StateNames state(task.module());
  const std::vector<std::string> names = task.inputs();
  Specs all = inputs;
  all.insert(all.end(), state.specs().begin(), state.specs().end());
  return capture(
      session, all,
      [&](const Values& in) {
        session.random().begin(in[names.size()]);
        state.fill(std::span(in).subspan(names.size() + 1));
        const train::Outcome outcome = task.forward(train::Inputs(names, std::span(in).first(names.size())));
        Values out{outcome.loss};
        for (const Value& v : outcome.outputs) out.push_back(v.detached());
        return out;
      },
      Outside::bound_for_replay);
}

namespace {

/// A model's parts, with what they cost by estimate until they are measured.
struct Parts {
  PipelineCosts costs;
  std::vector<Piece> pieces;
  TracedInputs inputs;
};

Parts traced_parts(Session& session, train::Task& task, const Specs& micro_batch, const PipelineMeans& means) {
  if (means.trains)
    task.module().train();
  else
    task.module().eval();
  Specs all = micro_batch;
  all.push_back(i64({4}));
  const Program program = trace_over_names(session, task, all);
  const nn::StateNames state(task.module());
  const TracedInputs inputs{all.size(), state.parameters()};
  Parts out{{.units = {}, .modules = {""}}, {}, inputs};
  std::vector<std::size_t> cuts;
  for (const CutPoint& point : places_to_cut(program, inputs)) {
    cuts.push_back(point.index);
    out.costs.modules.push_back(point.module);
  }
  out.pieces = split(program, cuts, {});
  std::set<std::size_t> counted;  // a tied weight lies where it is used first
  for (const Piece& piece : out.pieces) {
    parallel::PipelineUnit unit = means.trains ? trained_unit(session, piece, inputs, means) : evaluated_unit(piece);
    for (std::size_t k = 0; k < piece.own.size(); ++k)
      if (const std::size_t i = piece.own[k]; inputs.is_parameter(i) && counted.insert(i).second)
        (state.is_trained(i - inputs.first_state) || !means.trains ? unit.parameter_bytes : unit.other_bytes) +=
            Slab::pages_for(piece.program.inputs[k].spec) * Slab::kPageElements * std::int64_t{sizeof(float)};
    if (means.trains) unit.backward_s += static_cast<double>(unit.parameter_bytes) / kBytesPerSecond;  // what a gradient is added to is read
    out.costs.units.push_back(unit);
  }
  return out;
}

/// Of a copy that no cache holds, within half of the device's memory.
double measured_bytes_per_second(Session& session, std::int64_t memory_bytes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24, kBytes = 2 * sizeof(float);  // elements; of one in both arrays
  const Spec spec = f32({std::clamp<std::int64_t>(memory_bytes / 2 / kBytes, 1, kMost)});
  const Value from = full(session, spec, 0), to = full(session, spec, 0);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 4; ++i) {
    mark(session).wait();
    least = std::min(least, seconds([&] {
                       apply(copy_def(), list(from), {}, std::span(&to, 1));
                       mark(session).wait();
                     }));
  }
  return static_cast<double>(2 * spec.bytes()) / least;
}

void measure(Parts& parts, Session& session, const PipelineMeans& means) {
  parts.costs.bytes_per_second = measured_bytes_per_second(session, means.memory_bytes);
  for (std::size_t u = 0; u < parts.pieces.size(); ++u) {
    measure(parts.costs.units[u], session, parts.pieces[u], parts.inputs, means);
    session.interpreter().trim();
  }
}

/// Where one rank has not the memory for it all refuse: the others would wait for its times.
void measure_on_all(Parts& parts, Session& session, parallel::CommunicationThread& communication, const PipelineMeans& means) {
  std::string refusal;
  try {
    measure(parts, session, means);
  } catch (const MemoryError& e) {
    refusal = e.what();
  }
  for (const std::string& of_rank : texts_of_ranks(communication, refusal))
    if (!of_rank.empty()) throw MemoryError(of_rank);
}

}  // namespace

PipelineCosts pipeline_costs(train::Task& task, const Specs& micro_batch, const PipelineMeans& means) {
  const auto reference = Session::reference();
  return traced_parts(*reference, task, micro_batch, means).costs;
}

namespace {

/// A stage's update reads and writes all copies of the parameters.
std::vector<parallel::PipelineUnit> with_update(const PipelineCosts& costs, const PipelineMeans& means) {
  std::vector<parallel::PipelineUnit> units = costs.units;
  for (parallel::PipelineUnit& u : units) u.step_s += static_cast<double>(2 * means.parameter_copies * u.parameter_bytes) / costs.bytes_per_second;
  return units;
}

}  // namespace

parallel::PartitionProblem partition_problem(const PipelineCosts& costs, const PipelineMeans& means) {
  const std::size_t stages = at(means.shape.stages);
  return {.units = means.trains ? with_update(costs, means) : costs.units,
          .shape = means.shape,
          .rates = std::vector<double>(stages, 1.0),
          .memory_bytes = std::vector<std::int64_t>(stages, means.memory_bytes),
          .parameter_copies = means.trains ? means.parameter_copies : 1,
          .seconds_per_byte = kSecondsPerByte,
          .latency_s = kMessageSeconds};
}

std::vector<std::string> cut_modules(const PipelineCosts& costs, const std::vector<int>& first) {
  std::vector<std::string> out;
  for (std::size_t p = 1; p < first.size(); ++p) out.push_back(costs.modules[at(first[p])]);
  return out;
}

namespace {

/// [piece] its first unit; empty where a module begins no unit, or one that is not behind those before it.
std::vector<int> first_units(const PipelineCosts& costs, const std::vector<std::string>& modules) {
  std::vector<int> out{0};
  for (const std::string& name : modules) {
    const auto found = std::ranges::find(costs.modules, name);
    const auto unit = static_cast<int>(found - costs.modules.begin());
    if (found == costs.modules.end() || unit <= out.back()) return {};
    out.push_back(unit);
  }
  return out;
}

/// @param trains  false: forward passes alone
double step_seconds(const parallel::PartitionProblem& problem, const std::vector<int>& first, bool trains) {
  parallel::SimulatedCosts costs{.update_s = std::vector<double>(at(problem.shape.stages), 0.0)};
  for (std::size_t p = 0; p < first.size(); ++p) {
    const bool is_last = p + 1 == first.size();
    const auto begin = problem.units.begin() + first[p], end = is_last ? problem.units.end() : problem.units.begin() + first[p + 1];
    const double rate = problem.rates[at(problem.shape.stage_of(static_cast<int>(p)))];
    parallel::PipelineUnit sum;
    for (auto u = begin; u != end; ++u) {
      sum.forward_s += u->forward_s;
      sum.backward_s += u->backward_s;
      sum.step_s += u->step_s;
    }
    costs.forward_s.push_back(sum.forward_s / rate);
    costs.backward_s.push_back(sum.backward_s / rate);
    costs.update_s[at(problem.shape.stage_of(static_cast<int>(p)))] += sum.step_s / rate;
    if (!is_last) costs.transfer_s.push_back(problem.latency_s + problem.seconds_per_byte * static_cast<double>(std::prev(end)->boundary_bytes));
  }
  if (trains) return parallel::simulate(parallel::make_schedule(problem.shape), costs).total_s;
  std::vector<double> stage_s(at(problem.shape.stages), 0.0);  // the first micro-batch goes through all, and the others follow at the slowest one's pace
  for (std::size_t p = 0; p < first.size(); ++p) stage_s[at(problem.shape.stage_of(static_cast<int>(p)))] += costs.forward_s[p];
  return std::accumulate(stage_s.begin(), stage_s.end(), 0.0) + std::accumulate(costs.transfer_s.begin(), costs.transfer_s.end(), 0.0) +
         (problem.shape.micro_batches - 1) * std::ranges::max(stage_s);
}

}  // namespace

MeasuredCuts balanced_cuts(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& micro_batch,
                           const PipelineMeans& means) {
  Parts parts = traced_parts(session, task, micro_batch, means);
  std::vector<parallel::PipelineUnit>& units = parts.costs.units;
  const auto of_all_ranks = [&](const std::vector<double>& mine) {
    std::vector<std::vector<double>> out;
    for (const auto& bytes : communication.run([&](parallel::Collectives& c) { return c.all_gather(std::as_bytes(std::span(mine))); })) {
      if (bytes.size() != mine.size() * sizeof(double))
        throw CommError(fmt::format("pipeline: a rank sent {} bytes of its measurements; accepted: {}", bytes.size(), mine.size() * sizeof(double)));
      const auto* const first = reinterpret_cast<const double*>(bytes.data());
      out.emplace_back(first, first + bytes.size() / sizeof(double));
    }
    return out;
  };
  const std::size_t stages = at(means.shape.stages);
  const bool chooses = means.modules.empty() && means.shape.pieces() > 1;
  const std::vector<int> given = first_units(parts.costs, means.modules);
  if (given.empty()) return {means.modules, std::numeric_limits<double>::infinity()};
  parallel::PartitionProblem problem = partition_problem(parts.costs, means);
  const auto memory = of_all_ranks({static_cast<double>(means.memory_bytes)});
  for (std::size_t r = 0; r < memory.size(); ++r) {  // of the copies of a stage the smallest counts
    const auto bytes = static_cast<std::int64_t>(memory[r][0]);
    problem.memory_bytes[r % stages] = r < stages ? bytes : std::min(problem.memory_bytes[r % stages], bytes);
  }
  if (chooses) (void)parallel::partition(problem);  // refuses what fits in no way, for which there may not be the memory to measure it
  measure_on_all(parts, session, communication, means);
  std::vector<double> mine;
  for (const parallel::PipelineUnit& u : units) mine.insert(mine.end(), {u.forward_s, u.backward_s, u.step_s / means.shape.micro_batches});
  const auto times = of_all_ranks(mine);
  for (std::size_t u = 0; u < units.size(); ++u) {
    units[u].forward_s = times[0][3 * u];
    units[u].backward_s = times[0][3 * u + 1];
    units[u].step_s = times[0][3 * u + 2] * means.shape.micro_batches;
  }
  parts.costs.bytes_per_second = of_all_ranks({parts.costs.bytes_per_second})[0][0];
  problem.units = partition_problem(parts.costs, means).units;
  const auto total = [&](std::size_t r) { return std::max(1e-9, std::accumulate(times[r].begin(), times[r].end(), 0.0)); };
  for (std::size_t r = 0; r < times.size(); ++r) {  // the slowest
    const double rate = total(0) / total(r);
    problem.rates[r % stages] = r < stages ? rate : std::min(problem.rates[r % stages], rate);
  }
  const std::vector<int> first = chooses ? parallel::partition(problem).first : given;
  return {cut_modules(parts.costs, first), step_seconds(problem, first, means.trains)};
}

}  // namespace gemel::distributed
