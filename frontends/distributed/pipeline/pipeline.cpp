#include "frontends/distributed/pipeline/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "datasets/loading/shard.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"
#include "frontends/distributed/data_parallel.h"
#include "frontends/distributed/exposed_communication.h"

namespace gemel::distributed {

using parallel::Collectives;

namespace {

PipelinePlan at_rank(PipelinePlan plan, const PipelinePlace& place) {
  if (place.ranks % place.stages != 0)
    throw UsageError(fmt::format("pipeline: {} stages on {} ranks; accepted: a divisor of the ranks", place.stages, place.ranks));
  plan.first_rank = place.first_rank();
  return plan;
}

}  // namespace

std::vector<int> PipelinePlace::alike() const {
  std::vector<int> out;
  for (int r = stage(); r < ranks; r += stages) out.push_back(r);
  return out;
}

Pipeline::Pipeline(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& micro_batch, PipelinePlan plan)
    : session_(session),
      communication_(communication),
      task_(task),
      place_{plan.shape.stages, communication.rank(), communication.size()},
      micro_batches_(plan.shape.micro_batches),
      notices_(communication) {
  plan = at_rank(std::move(plan), place_);
  if (computes_on_host(session)) communication.submit([](Collectives& c) { c.communicator().wait_as({.spin_ns = 0}); });
  if (plan.trains && place_.copies() > 1) plan.pack = pack_options();
  stage_ = std::make_unique<PipelineStage>(session, communication, task, micro_batch, std::move(plan));
}

/// Slabs are cut alike on the devices of all copies.
PackOptions Pipeline::pack_options() {
  const std::vector<int> ranks = place_.alike();
  auto made = communication_.run([&ranks, on_host = computes_on_host(session_)](Collectives& c) {
    auto alike = std::make_unique<Alike>();
    alike->ranks = c.communicator().group(ranks);
    if (on_host) alike->ranks->wait_as({.spin_ns = 0});
    alike->collectives = std::make_unique<Collectives>(*alike->ranks, c.fixed());
    if (!c.fixed()) alike->collectives->measure_limits();
    return alike;
  });
  // A job lets go of it in the communication thread, also where a stage is refused before this is made.
  alike_ = {made.release(),
            [&communication = communication_](Alike* alike) { communication.submit([owned = std::shared_ptr<Alike>(alike)](Collectives&) {}); }};
  memory_.emplace(session_, communication_, alike_->collectives.get());
  std::int64_t largest = session_.interpreter().largest_allocation();
  communication_.run([&](Collectives&) {
    alike_->collectives->all_reduce({reinterpret_cast<std::byte*>(&largest), 1, DType::int64}, parallel::Reduction::min);
  });
  return {memory_->source(), largest};
}

Pipeline::~Pipeline() {
  try {
    communication_.submit([](Collectives&) {}).wait();  // nothing that was submitted uses the session any more
    reducer_.reset();
    alike_.reset();
  } catch (...) {
    // What failed is told by whoever waited for it.
  }
}

std::vector<optim::Group> Pipeline::groups(const optim::Grouping& grouping) const {
  const ParameterSet mine = task_.module().materialised();
  return mine.trainable().empty() ? std::vector<optim::Group>() : grouping(mine);
}

void Pipeline::attach(optim::Optimizer& optimizer, const parallel::ReducerOptions& options) {
  optimizer_ = &optimizer;
  if (!alike_) return;
  take_from_first_copy(all_of(task_.module().materialised()));
  if (optimizer.parameters().empty()) return;
  parallel::ReducerOptions reducer = options;
  reducer.among = alike_->collectives.get();
  reducer_ = std::make_shared<parallel::Reducer>(session_, communication_, optimizer.parameters(), *memory_, reducer);
}

void Pipeline::take_from_first_copy(std::span<const NamedValue> values) {
  for (const NamedValue& v : values) {
    std::vector<std::byte> bytes = read_bytes(v.value);
    communication_.run([&](Collectives&) { alike_->collectives->broadcast(bytes); });
    write(v.value, bytes);
  }
}

/// As the batch says, or evenly in as many as it has samples for and the schedule takes; those that would be empty are left out.
std::vector<datasets::Batch> Pipeline::micro_batches_of(const datasets::Batch& batch) const {
  std::vector<std::int64_t> counts = batch.micro_batches;
  std::int64_t m = std::min(micro_batches_, batch.samples);
  if (stage_->shape().kind == parallel::ScheduleKind::interleaved && m > place_.stages) m -= m % place_.stages;
  if (counts.empty() && m > 0)
    for (const datasets::SampleRun& run : datasets::shard_of(batch.samples, m, 0, 1)) counts.push_back(run.count);
  std::erase(counts, 0);
  std::vector<datasets::Batch> out;
  for (std::int64_t begin = 0; const std::int64_t count : counts) {
    out.push_back(batch.part(begin, count));
    begin += count;
  }
  return out;
}

train::Pending Pipeline::train(const datasets::Batch& batch, double rate, std::int64_t step, std::optional<double> weight) {
  communication_.at_step(step);
  const std::vector<datasets::Batch> parts = micro_batches_of(batch);
  train::Pending pending(task_, fmt::format("step {}", step));
  Values gradients(optimizer_->parameters().size());
  double exposed_s = 0;
  if (!parts.empty()) {  // a copy whose shard is empty has nothing but the others' gradients
    const PipelineStage::Results results = stage_->run(parts, weight.value_or(task_.weight(batch)), step);
    for (std::size_t k = 0; k < results.micro_batches.size(); ++k) pending.add(parts[k], results.micro_batches[k]);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const auto& memory = optimizer_->parameters()[i].value.storage();
      const auto of = std::ranges::find_if(stage_->parameters(), [&](const NamedValue& p) { return p.value.storage() == memory; });
      gradients[i] = results.gradients[at(of - stage_->parameters().begin())];
    }
    exposed_s = results.exposed_s;
  }
  exposed_s += update(std::move(gradients), rate);
  exposed_ms_.push_back(1e3 * exposed_s);
  return pending;
}

/// @return seconds in which it waited for other stages
double Pipeline::update(Values gradients, double rate) {
  if (reducer_) reducer_->join(gradients);
  const double exposed_s = largest_norm_ > 0 ? clip(gradients) : 0;
  if (!gradients.empty()) optimizer_->apply_updates(std::move(gradients), optimizer_->hyper(rate));
  optimizer_->advance();
  return exposed_s;
}

/// The norm is that of all stages' gradients, a tied weight's once, in the order of stages.
double Pipeline::clip(Values& gradients) {
  Values once = gradients;
  for (std::size_t i = 0; i < once.size(); ++i)
    if (stage_->has_before(optimizer_->parameters()[i].value)) once[i] = {};
  const Value squares = gradients.empty() ? Value() : optimizer_->squares(once);
  double mine = 0;
  if (squares)
    for (const double x : read(squares)) mine += x;
  std::vector<std::vector<std::byte>> all;
  const double exposed_s =
      exposed_seconds(session_, [&] { all = communication_.run([&](Collectives& c) { return c.all_gather(std::as_bytes(std::span(&mine, 1))); }); });
  double sum = 0;
  for (int s = 0; s < place_.stages; ++s) sum += numbers_in(all[at(place_.first_rank() + s)])[0];
  const float total[1] = {static_cast<float>(sum)};
  if (!gradients.empty()) optimizer_->clip_norm(gradients, largest_norm_, session_.tensor(f32({1}), std::as_bytes(std::span(total))));
  return exposed_s;
}

train::Pending Pipeline::evaluate(const datasets::Batch& batch) {
  train::Pending pending(task_, fmt::format("batch {}", batch.index + 1));
  const std::vector<datasets::Batch> parts = micro_batches_of(batch);
  if (parts.empty()) return pending;
  const std::vector<Values> results = stage_->evaluate(parts);
  for (std::size_t k = 0; k < results.size(); ++k) pending.add(parts[k], results[k]);
  return pending;
}

/// The weight of a shard counts once.
void Pipeline::announce(train::Notice notice) {
  if (!stage_->is_last()) notice.weight = 0;
  notices_.announce(std::move(notice));
}

/// None while its sums are under way.
std::optional<double> Pipeline::next_exposed_ms() {
  if (exposed_ms_.empty()) return std::nullopt;
  double out = exposed_ms_.front();
  if (reducer_) {
    const auto sums = reducer_->next_step();
    if (!sums) return std::nullopt;
    out += 1e3 * (sums->waited_within_seconds + sums->waited_behind_seconds);
  }
  exposed_ms_.pop_front();
  return out;
}

std::vector<parallel::Span> Pipeline::take_spans() {
  std::vector<parallel::Span> out = stage_->take_spans();
  if (reducer_) std::ranges::move(reducer_->take_spans(), std::back_inserter(out));
  return out;
}

}  // namespace gemel::distributed
