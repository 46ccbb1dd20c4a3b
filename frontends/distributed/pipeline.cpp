#include "frontends/distributed/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "datasets/shard.h"
#include "engine/base/error.h"
#include "engine/base/span.h"
#include "engine/device_access.h"

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

Pipeline::Pipeline(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& micro_batch, PipelinePlan plan)
    : session_(session), communication_(communication), task_(task), place_{plan.shape.stages, communication.rank(), communication.size()},
      micro_batches_(plan.shape.micro_batches), notices_(communication) {
  if (computes_on_host(session)) communication.submit([](Collectives& c) { c.communicator().wait_as({.spin_ns = 0}); });
  stage_ = std::make_unique<PipelineStage>(session, communication, task, micro_batch, at_rank(std::move(plan), place_));
  if (place_.copies() == 1) return;
  std::vector<int> ranks(at(place_.copies()));
  for (int c = 0; c < place_.copies(); ++c) ranks[at(c)] = c * place_.stages + place_.stage();
  communication.run([&](Collectives& c) {
    alike_ = c.communicator().group(ranks);
    among_ = std::make_unique<Collectives>(*alike_);
  });
}

Pipeline::~Pipeline() {
  try {
    communication_.submit([](Collectives&) {}).wait();  // nothing that was submitted uses the session any more
    reducer_.reset();
    communication_.submit([this](Collectives&) {
      among_.reset();
      alike_.reset();
    }).wait();
  } catch (...) {
    // What failed is told by whoever waited for it.
  }
}

std::vector<optim::Group> Pipeline::groups() const {
  std::vector<optim::Group> all = optim::all_in_one(task_.module().materialised());
  if (all[0].parameters.empty()) all.clear();
  return all;
}

void Pipeline::attach(optim::Optimizer& optimizer, const parallel::ReducerOptions& options) {
  optimizer_ = &optimizer;
  if (place_.copies() == 1) return;
  for (const NamedValue& v : held()) {
    std::vector<std::byte> bytes = read_bytes(v.value);
    communication_.run([&](Collectives&) { among_->broadcast(bytes); });
    write(v.value, bytes);
  }
  memory_.emplace(session_, communication_);
  if (optimizer.parameters().empty()) return;
  parallel::ReducerOptions reducer = options;
  reducer.among = among_.get();
  reducer_ = std::make_shared<parallel::Reducer>(session_, communication_, optimizer.parameters(), *memory_, reducer);
}

std::vector<NamedValue> Pipeline::held() const {
  const ParameterSet set = task_.module().materialised();
  std::vector<NamedValue> out(set.parameters().begin(), set.parameters().end());
  out.insert(out.end(), set.buffers().begin(), set.buffers().end());
  return out;
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
  const std::vector<datasets::Batch> parts = micro_batches_of(batch);
  train::Pending pending(task_, fmt::format("step {}", step));
  Values gradients(optimizer_->parameters().size());
  double waited_s = 0;
  if (!parts.empty()) {  // a copy whose shard is empty has nothing but the others' gradients
    const PipelineStage::Results results = stage_->run(parts, weight.value_or(task_.weight(batch)), step);
    for (std::size_t k = 0; k < results.micro_batches.size(); ++k) pending.add(parts[k], results.micro_batches[k]);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const auto& memory = optimizer_->parameters()[i].value.storage();
      const auto of = std::ranges::find_if(stage_->parameters(), [&](const NamedValue& p) { return p.value.storage() == memory; });
      gradients[i] = results.gradients[at(of - stage_->parameters().begin())];
    }
    waited_s = results.waited_s;
  }
  exposed_ms_.push_back(1e3 * waited_s);
  update(std::move(gradients), rate);
  return pending;
}

void Pipeline::update(Values gradients, double rate) {
  if (reducer_) reducer_->join(gradients);
  if (largest_norm_ > 0) clip(gradients);
  if (!gradients.empty()) optimizer_->apply_updates(std::move(gradients), optimizer_->hyper(rate));
  optimizer_->advance();
}

/// The norm is that of all stages' gradients, a tied weight's once, in the order of stages.
void Pipeline::clip(Values& gradients) {
  Values once = gradients;
  for (std::size_t i = 0; i < once.size(); ++i)
    if (stage_->has_before(optimizer_->parameters()[i].value)) once[i] = {};
  const Value squares = gradients.empty() ? Value() : optimizer_->squares(once);
  double mine = 0;
  if (squares)
    for (const double x : read(squares)) mine += x;
  const auto all = communication_.run([&](Collectives& c) { return c.all_gather(std::as_bytes(std::span(&mine, 1))); });
  double sum = 0;
  for (int s = 0; s < place_.stages; ++s) sum += numbers_in(all[at(place_.first_rank() + s)])[0];
  const float total[1] = {static_cast<float>(sum)};
  if (!gradients.empty()) optimizer_->clip_norm(gradients, largest_norm_, session_.tensor(f32({1}), std::as_bytes(std::span(total))));
}

train::Pending Pipeline::evaluate(const datasets::Batch& batch) {
  train::Pending pending(task_, fmt::format("batch {}", batch.index + 1));
  if (batch.samples == 0) return pending;
  if (const Values results = stage_->evaluate(batch); !results.empty()) pending.add(batch, results);
  return pending;
}

/// The weight of a shard counts once.
void Pipeline::announce(train::Notice notice) {
  if (!stage_->is_last()) notice.weight = 0;
  notices_.announce(std::move(notice));
}

std::optional<double> Pipeline::next_exposed_ms() {
  if (exposed_ms_.empty()) return std::nullopt;
  const double out = exposed_ms_.front();
  exposed_ms_.pop_front();
  return out;
}

}  // namespace gemel::distributed
