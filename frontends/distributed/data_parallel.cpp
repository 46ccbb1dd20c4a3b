#include "frontends/distributed/data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"
#include "frontends/nn/layers/batch_parts.h"
#include "parallel/ddp/sync_batch_norm.h"
#include "parallel/horovod/gradient_reducer.h"

namespace gemel::distributed {
namespace {

using parallel::Collectives;
using parallel::Elements;

/// The shards of all ranks, for normalisation over the whole batch.
class Shards : public nn::BatchParts {
 public:
  explicit Shards(std::shared_ptr<parallel::MomentsOverRanks> moments) : moments_(std::move(moments)) {}
  PartMoments gather(const Moments& mine, std::int64_t rows) override { return moments_->gather(mine, rows); }

 private:
  std::shared_ptr<parallel::MomentsOverRanks> moments_;
};

}  // namespace

DataParallel::DataParallel(Session& session, parallel::CommunicationThread& communication, const DataParallelOptions& options)
    : session_(session), communication_(communication), options_(options), memory_(session, communication), notices_(communication) {
  if (options.balance) balance_.emplace(communication.size(), options.balance->batch, options.balance->limits);
}

DataParallel::~DataParallel() {
  try {
    if (std::uncaught_exceptions() > exceptions_) communication_.abort(fmt::format("rank {} failed", rank()));
    if (options_.horovod) mark(session_).wait();  // gradients are asked for when they are computed, which may be yet to come
    communication_.submit([](Collectives&) {}).wait();
    const bool ends_in_order = std::uncaught_exceptions() == exceptions_;
    if (ends_in_order && reducer_ && !communication_.has_told_failure()) reducer_->throw_failure();
  } catch (const std::exception& e) {  // of the last steps: nothing was asked behind them that could tell
    fmt::print(stderr, "{}\n", worded(e));
  }
}

void DataParallel::check_models(const nn::Module& module) {
  std::vector<Setting> model;
  for (const NamedValue& v : all_of(module.parameters())) model.push_back({v.name, to_string(v.value.spec()) + (v.value.wants_gradient() ? ", trained" : "")});
  require_same(communication_, model);
}

void DataParallel::synchronise_norm(nn::Module& module) {
  if (options_.norm == NormOver::shard) return;
  moments_ = std::make_shared<parallel::MomentsOverRanks>(session_, communication_);
  module.synchronise_norm(std::make_shared<Shards>(moments_));
}

void DataParallel::pack(train::Task& task, const Specs& inputs) {
  check_models(task.module());
  synchronise_norm(task.module());
  pack(task.module(), train::backward_outline(session_, task, inputs));
}

void DataParallel::pack(nn::Module& module) {
  check_models(module);
  synchronise_norm(module);
  const std::size_t parameters = module.parameters().trainable().size();
  train::BackwardOutline outline{std::vector<std::size_t>(parameters), std::vector<std::int64_t>(parameters)};
  std::iota(outline.order.rbegin(), outline.order.rend(), std::size_t{0});
  pack(module, std::move(outline));
}

/// Where a model does not run alike on all ranks their own orders would differ.
void DataParallel::pack(nn::Module& module, train::BackwardOutline outline) {
  std::int64_t largest = session_.interpreter().largest_allocation();  // slabs are cut alike on every device
  communication_.run([&](Collectives& c) {
    c.broadcast(std::as_writable_bytes(std::span(outline.order)));
    c.broadcast(std::as_writable_bytes(std::span(outline.looked_up)));
    c.all_reduce({reinterpret_cast<std::byte*>(&largest), 1, DType::int64}, parallel::Reduction::min);
  });
  train::pack_parameters(module, outline.order, {memory_.source(), largest});
  const Values parameters = values_of(module.parameters().trainable());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Shape& shape = parameters[i].shape();
    if (outline.looked_up[i] > 0 && parallel::rows_are_less(outline.looked_up[i], shape[0], shape[1])) travel_as_rows_.insert(parameters[i].node().get());
  }
}

/// [parameter] of the optimizer. Compression is of whole tables; those of which updates move the rows that are met alone travel as rows all the same.
std::vector<bool> DataParallel::tables_by_rows() const {
  if (!options_.rows_travel) return {};
  const bool scales = options_.prescale != 1 || options_.postscale != 1;
  const bool as_they_are = options_.reducer.compression.kind == parallel::CompressionOptions::Kind::none && !scales;
  std::vector<bool> out;
  for (const NamedValue& p : optimizer_->parameters()) {
    const bool moves_rows = p.value.node()->gradient_form == GradientForm::rows;
    if (moves_rows && scales)
      throw UsageError(fmt::format("ranks: the gradient of {} is rows, and gradients are scaled by {} and {}; accepted: factors of 1", p.name,
                                   options_.prescale, options_.postscale));
    out.push_back(moves_rows || (as_they_are && travel_as_rows_.contains(p.value.node().get())));
  }
  return out;
}

void DataParallel::attach(nn::Module& module, optim::Optimizer& optimizer) {
  module_ = &module;
  optimizer_ = &optimizer;
  for (std::size_t i = 0; i < optimizer.parameters().size(); ++i) index_of_[optimizer.parameters()[i].value.node().get()] = i;
  for (const NamedValue& v : all_of(module.parameters())) broadcast(v.value);
  parallel::ReducerOptions reducer = options_.reducer;
  if (options_.replicas == Replicas::copied_each_step) reducer.sums = parallel::SumsOn::first_rank;
  reducer.overlaps = options_.norm == NormOver::shard;
  reducer.by_rows = tables_by_rows();
  if (options_.horovod)
    reducer_ = std::make_shared<parallel::horovod::GradientReducer>(
        session_, communication_, optimizer.parameters(), memory_,
        parallel::horovod::GradientReducer::Options{*options_.horovod, reducer, options_.prescale, options_.postscale});
  else
    reducer_ = std::make_shared<parallel::Reducer>(session_, communication_, optimizer.parameters(), memory_, reducer);
  if (moments_)
    moments_->tell_waits([weak = std::weak_ptr(reducer_)](double seconds) {
      if (const auto reducer_of_steps = weak.lock()) reducer_of_steps->add_exposed(seconds);
    });
  if (options_.replicas == Replicas::copied_each_step)
    replicator_ = std::make_shared<parallel::Replicator>(session_, communication_, optimizer.parameters(), reducer_);
}

void DataParallel::take_parameters() {
  if (replicator_) replicator_->replicate();
}

void DataParallel::announce(train::Notice notice) {
  collect_times();
  notices_.announce(std::move(notice), std::exchange(seen_, {}));
}

train::Notice DataParallel::agreed() {
  Notices::Agreed agreed = notices_.agreed();
  const bool is_of_a_step = std::ranges::any_of(agreed.seen, [](const parallel::LoadBalancer::Seen& s) { return s.samples > 0; });
  if (balance_ && is_of_a_step && balance_->saw(agreed.seen)) options_.balance->changed(*balance_);
  return std::move(agreed.all);
}

void DataParallel::step_begins(std::int64_t samples) {
  begin_step();
  begun_.push_back({samples, std::chrono::steady_clock::now()});
}

/// What a rank computes in a step: on the device from where the sums before are there to the last gradient, or on the host until all is
/// enqueued, whichever takes longer, without what it waits for others meanwhile.
void DataParallel::collect_times() {
  using Seconds = std::chrono::duration<double>;
  if (!reducer_) return;  // ranks that evaluate have no gradients
  while (const auto step = reducer_->next_step()) {
    exposed_ms_.push_back(1e3 * (step->waited_within_seconds + step->waited_behind_seconds));
    if (!begun_.empty()) {
      const Begun begun = begun_.front();
      begun_.pop_front();
      const double on_device = Seconds(step->last_gradient - std::max(begun.time, summed_)).count() - step->waited_within_seconds;
      const double on_host = Seconds(step->enqueued - begun.time).count();
      seen_ = {begun.samples, std::max({0.0, on_device, on_host})};
    }
    summed_ = step->summed;
  }
}

void DataParallel::broadcast(const Value& value, int root) {
  std::vector<std::byte> bytes = rank() == root ? read_bytes(value) : std::vector<std::byte>(at(value.spec().bytes()));
  communication_.run([&](Collectives& c) { c.broadcast(bytes, root); });
  if (rank() != root) write(value, bytes);
}

void DataParallel::broadcast_steps(optim::Hyperparameters& hyper, int root) {
  std::vector<std::int64_t> steps = hyper.parameter_steps();
  steps.push_back(hyper.steps);
  communication_.run([&](Collectives& c) { c.broadcast(std::as_writable_bytes(std::span(steps)), root); });
  hyper.steps = steps.back();
  for (std::size_t i = 0; i < hyper.rows.size(); ++i) hyper.rows[i].steps = steps[i];
}

void DataParallel::join_model() {
  const ParameterSet set = module_->parameters();
  if (replicator_)
    for (const NamedValue& p : set.parameters()) broadcast(p.value);
  for (const NamedValue& b : set.buffers()) {
    if (options_.buffers == Buffers::of_rank_0 || b.value.dtype() != DType::float32) {
      broadcast(b.value);
      continue;
    }
    std::vector<std::byte> bytes = read_bytes(b.value);
    communication_.run([&](Collectives& c) { c.all_reduce({bytes.data(), b.value.elements(), DType::float32}, parallel::Reduction::mean); });
    write(b.value, bytes);
  }
}

void DataParallel::check_same() {
  std::vector<int> ranks(at(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  require_same_contents(communication_, all_of(module_->parameters()), ranks);
}

void DataParallel::join_state(nn::Module& module, optim::Optimizer& optimizer, train::RunState& state) {
  for (const NamedValue& v : all_of(module.parameters())) broadcast(v.value);
  for (const NamedValue& v : optimizer.state()) broadcast(v.value);
  optim::Hyperparameters& hyper = *optimizer.hyperparameters();
  std::vector<double> numbers{static_cast<double>(state.step), static_cast<double>(state.epoch), static_cast<double>(state.batch),
                              static_cast<double>(hyper.steps)};
  for (const std::int64_t steps : hyper.parameter_steps()) numbers.push_back(static_cast<double>(steps));
  put(numbers, state.sums);
  const auto all = communication_.run([&](Collectives& c) { return c.all_gather(std::as_bytes(std::span(numbers))); });
  const auto first = numbers_in(all[0]);
  hyper.steps = static_cast<std::int64_t>(first[3]);
  for (std::size_t i = 0; i < hyper.rows.size(); ++i) hyper.rows[i].steps = static_cast<std::int64_t>(first[4 + i]);
  step_ = static_cast<std::int64_t>(first[0]);
  state = {static_cast<std::int64_t>(first[0]), static_cast<std::int64_t>(first[1]), static_cast<std::int64_t>(first[2]),
           sums_in(first.subspan(4 + hyper.rows.size())), std::move(state.ranks)};
  join_ranks_state(state.ranks);
}

std::string DataParallel::collective() {
  if (replicator_) return "rank 0 adds what the others send: it alone updates";
  std::int64_t bytes = options_.horovod ? options_.horovod->statistics().tuned.fusion_bytes : 0;
  for (const parallel::Bucket& b : reducer_->buckets()) bytes = std::max(bytes, b.bytes);
  return communication_.run([bytes](Collectives& c) {
    const Collectives::Chosen chosen = c.choice(bytes);
    return fmt::format("{}: {}", parallel::to_string(chosen.algorithm), chosen.why);
  });
}

std::optional<double> DataParallel::next_exposed_ms() {
  collect_times();
  if (exposed_ms_.empty()) return std::nullopt;
  const double out = exposed_ms_.front();
  exposed_ms_.pop_front();
  return out;
}

}  // namespace gemel::distributed
