#include "parallel/ddp/reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"
#include "engine/gradients/row_gradient.h"
#include "engine/ops/ops.h"
#include "parallel/ddp/stream_ordered.h"

namespace gemel::parallel {

void execute_join(Reducer& reducer, const std::vector<std::int64_t>& unused) { reducer.finish(unused); }

namespace {

/// In no catalog: a State stays in its process.
const OpDef& join_gradients_def() {
  static const OpDef def{
      .name = "join_gradients",
      .doc = "What is enqueued behind it sees gradients that are sums over all ranks.",
      .inputs = {"gradients", "rows..."},
      .outputs = {},
      .attributes = {{"reducer", Type::state, "which sums them"},
                     {"unused", Type::integers, "parameters that have no gradient on this rank"},
                     {"last", Type::boolean, "whether it is the last slab of gradients"}},
      .infer = [](const Specs&, const Attributes&) { return Specs{}; },
      .cost = [](const Problem&) { return Cost{}; },
      .writes = {0},
      .execute =
          [](Interpreter&, const Attributes& a, std::span<const Value>, std::span<const Value>) {
            if (a.boolean("last")) execute_join(static_cast<Reducer&>(*a.state("reducer")), a.integers("unused"));
          },
  };
  return def;
}

}  // namespace

Reducer::Reducer(Session& session, CommunicationThread& communication, std::vector<NamedValue> parameters, const GradientMemory& memory,
                 const ReducerOptions& options)
    : session_(session),
      communication_(communication),
      options_(options),
      parameters_(std::move(parameters)),
      values_(values_of(parameters_)),
      slabs_(slabs_of(values_)) {
  std::vector<std::int64_t> elements;
  for (const auto& slab : slabs_) {
    in_place_.push_back(memory.find(slab->gradients()));
    elements.push_back(slab->gradients().whole().elements());
  }
  compression_ = make_compression(options.compression, options.sums, elements);
  if (computes_on_host(session)) communication_.submit([](Collectives& c) { c.communicator().wait_as({.spin_ns = 0}); });
}

const std::vector<Bucket>& Reducer::buckets() {
  std::vector<bool> frozen;
  for (const Value& p : values_) frozen.push_back(!p.wants_gradient());
  if (!buckets_ || frozen != frozen_) {
    frozen_ = std::move(frozen);
    buckets_ = std::make_shared<const std::vector<Bucket>>(buckets_of(values_, slabs_, options_.buckets, options_.by_rows));
    bucket_of_.assign(values_.size(), buckets_->size());
    for (std::size_t b = 0; b < buckets_->size(); ++b)
      for (const std::size_t p : (*buckets_)[b].parameters) bucket_of_[p] = b;
    std::vector<SlabRange> trained;
    for (const Value& p : values_)
      if (p.wants_gradient()) trained.push_back(gradient_range(p, slabs_));
    gradients_ = std::make_shared<const std::vector<SlabRange>>(std::move(trained));
  }
  return *buckets_;
}

void Reducer::begin_step() {
  if (std::exchange(under_way_, true)) return;
  missing_.clear();
  for (const Bucket& b : buckets()) missing_.push_back(b.parameters.size());
  has_arrived_.assign(values_.size(), false);
  submitted_.assign(missing_.size(), false);
}

GradientReady Reducer::gradient_ready() {
  if (options_.sums == SumsOn::first_rank || !options_.overlaps) return {};
  return [weak = weak_from_this()](std::size_t i, const Value& gradient) {
    const auto self = weak.lock();
    // What lies elsewhere is brought to its place by `join`.
    if (!self || row_values(gradient) || gradient.storage() != dense_gradient_place(self->values_[i]).storage()) return;
    self->begin_step();
    self->arrived(i);
  };
}

void Reducer::arrived(std::size_t parameter) {
  if (bucket_of_[parameter] == buckets_->size() || has_arrived_[parameter]) return;
  has_arrived_[parameter] = true;
  --missing_[bucket_of_[parameter]];
  submit_complete();
}

/// Buckets go in their order on every rank, whatever the order in which they are complete, unless the ranks agree on another.
void Reducer::submit_complete() {
  for (std::size_t b = 0; b < missing_.size(); ++b) {
    if (submitted_[b]) continue;
    if (missing_[b] == 0) {
      submitted_[b] = true;
      submit(b, mark(session_));
    } else if (!in_any_order()) {
      return;
    }
  }
}

void Reducer::submit(std::size_t bucket, const Event& computed) {
  communication_.submit([self = shared_from_this(), buckets = buckets_, bucket, computed](Collectives& c) {
    self->reduce(self->group(c), bucket, (*buckets)[bucket], computed);
  });
}

void Reducer::join(Values& gradients, int divided_by) {
  divided_by_ = divided_by;
  std::vector<std::int64_t> unused;
  Values rows;  // are read when the last slab is joined
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!values_[i].wants_gradient()) continue;
    if (travels_as_rows(i)) {
      gradients[i] = join_rows(i, std::move(gradients[i]), rows);
      continue;
    }
    const Value place = dense_gradient_place(values_[i]);
    if (!gradients[i]) {
      unused.push_back(static_cast<std::int64_t>(i));
      apply(session_, full_def(), {}, {{"shape", place.shape()}, {"dtype", DType::float32}, {"value", 0.0}}, std::span(&place, 1));
    } else if (row_values(gradients[i])) {
      gradients[i] = to_dense(gradients[i], place);
    }
    if (gradients[i] && gradients[i].storage() != place.storage()) apply(copy_def(), list(gradients[i]), {}, std::span(&place, 1));
    if (gradients[i]) gradients[i] = place;
  }
  joining_ = !session_.capturing();
  for (const auto& slab : slabs_) {
    const bool last = slab == slabs_.back();
    Values in{slab->gradients().whole()};
    if (last) in.insert(in.end(), rows.begin(), rows.end());
    apply(join_gradients_def(), std::move(in), {{"reducer", std::shared_ptr<State>(shared_from_this())}, {"unused", unused}, {"last", last}});
  }
  if (!std::exchange(joining_, false)) return;
  for (const std::int64_t i : unused)
    if (used_[at(i)]) gradients[at(i)] = dense_gradient_place(values_[at(i)]);
}

/// A step does not wait for its own communication: what ended it is told by a later one.
void Reducer::throw_failure() {
  using namespace std::chrono_literals;
  while (!joined_.empty() && joined_.front().wait_for(0s) == std::future_status::ready) {
    std::future<std::vector<std::int32_t>> first = std::move(joined_.front());
    joined_.pop_front();
    try {
      first.get();
    } catch (...) {
      communication_.tell_failure();
      throw;
    }
  }
}

void Reducer::finish(const std::vector<std::int64_t>& unused) {
  throw_failure();
  begin_step();
  missing_.assign(missing_.size(), 0);
  submit_complete();
  for (RowsInStep& rows : std::exchange(rows_, {})) sum_rows(std::move(rows));
  under_way_ = false;
  std::vector<std::int32_t> used(values_.size(), 1);
  for (const std::int64_t i : unused) used[at(i)] = 0;
  const auto last_gradient = std::make_shared<std::promise<Clock::time_point>>();
  mark(session_).then([last_gradient] { last_gradient->set_value(Clock::now()); });
  auto done = end_step(std::move(used), {Clock::now(), last_gradient->get_future().share(), divided_by_, gradients_});
  if (unused.empty()) {
    joined_.push_back(std::move(done));
    return;
  }
  used_ = done.get();
  if (joining_) return;
  for (const std::int64_t i : unused)
    if (used_[at(i)])
      throw UsageError(fmt::format("ranks: {} has a gradient on another rank and none on this one, in a captured step; accepted: the eager front end",
                                   parameters_[at(i)].name));
}

std::future<std::vector<std::int32_t>> Reducer::end_step(std::vector<std::int32_t> used, const Ended& ended) {
  return submit_stream_ordered(session_, communication_,
                               [self = shared_from_this(), used = std::move(used), ended](Collectives& all_ranks, const Event& computed) mutable {
                                 Collectives& c = self->group(all_ranks);
                                 c.all_reduce({reinterpret_cast<std::byte*>(used.data()), std::ssize(used), DType::int32}, Reduction::max);
                                 self->add_step(ended, c.communicator().participation().givers(), computed);
                                 return used;
                               });
}

void Reducer::add_step(const Ended& ended, int givers, const Event& computed) {
  if (ended.divided_by > 0 && givers > 0 && givers != ended.divided_by) {
    const float factor = static_cast<float>(ended.divided_by) / static_cast<float>(givers);
    for (const SlabRange& range : *ended.gradients) {
      View opened = open(range, computed);
      for (float& x : opened.gradients) x *= factor;
      opened.view.release().wait();
    }
  }
  const auto now = Clock::now(), last_computed = ended.computed.get();
  const std::lock_guard lock(mutex_);
  steps_.push_back(
      {ended.enqueued, last_computed, now, std::exchange(more_exposed_, 0), std::max(0.0, std::chrono::duration<double>(now - last_computed).count())});
}

/// It ends now.
void Reducer::add_span(std::string what, std::int64_t begin_ns, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  spans_.push_back({std::move(what), begin_ns, steady_ns(), bytes});
}

void Reducer::add_exposed(double seconds) {
  const std::lock_guard lock(mutex_);
  more_exposed_ += seconds;
}

std::optional<Reducer::StepTimes> Reducer::next_step() {
  const std::lock_guard lock(mutex_);
  if (steps_.empty()) return std::nullopt;
  const StepTimes out = steps_.front();
  steps_.pop_front();
  return out;
}

std::vector<Span> Reducer::take_spans() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

void Reducer::reduce(Collectives& c, std::size_t which, const Bucket& bucket, const Event& computed) {
  const CommunicationThread::Doing doing(communication_, names_in(bucket));
  if (options_.check_finite) check_finite(bucket, computed);
  if (options_.keeps_spans) computed.wait();
  const std::int64_t begin = steady_ns();
  for (const SlabRange& range : bucket.ranges) {
    View opened = open(range, computed);
    compression_->sum(c, opened.gradients, range);
    opened.view.release().wait();
  }
  if (options_.keeps_spans) add_span(which, begin, bucket.bytes);
}

/// Once it is summed every rank has it, and none can say whose it was.
void Reducer::check_finite(const Bucket& bucket, const Event& computed) const {
  for (const std::size_t p : bucket.parameters) {
    HostView view = map(dense_gradient_place(values_[p]), Access::read, computed);
    const auto bytes = view.bytes();
    check_finite(p, {reinterpret_cast<const float*>(bytes.data()), at(values_[p].elements())});
  }
}

void Reducer::check_finite(std::size_t parameter, std::span<const float> gradient) const {
  const auto bad = std::ranges::find_if(gradient, [](float x) { return !std::isfinite(x); });
  if (bad == gradient.end()) return;
  throw Error(fmt::format("ranks: the gradient of {} has {} at element {} on rank {} ({}); accepted: finite numbers", parameters_[parameter].name, *bad,
                          bad - gradient.begin(), communication_.rank(), communication_.placement().hosts[at(communication_.rank())]));
}

Reducer::View Reducer::open(const SlabRange& range, const Event& computed, Access access) {
  View out;
  std::byte* first = nullptr;
  if (in_place_[range.slab]) {
    computed.wait();
    first = in_place_[range.slab] + range.begin * std::int64_t{sizeof(float)};
  } else {
    out.view = map(slabs_[range.slab]->gradients().whole().view(f32({range.count}), range.begin), access, computed);
    first = out.view.bytes().data();
  }
  out.gradients = {reinterpret_cast<float*>(first), at(range.count)};
  return out;
}

/// "the gradients of layer4.1.conv2.weight ... fc.bias"
std::string Reducer::names_in(const Bucket& bucket) const {
  const std::string& first = parameters_[bucket.parameters.front()].name;
  return bucket.parameters.size() == 1 ? "the gradient of " + first
                                       : fmt::format("the gradients of {} ... {}", first, parameters_[bucket.parameters.back()].name);
}

std::span<float> Reducer::residual(std::size_t parameter) {
  SlabRange range = gradient_range(values_[parameter], slabs_);
  range.count = values_[parameter].elements();
  return compression_->residual(range);
}

}  // namespace gemel::parallel
