#include "parallel/horovod/gradient_reducer.h"

#include <mutex>
#include <optional>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"
#include "parallel/ddp/stream_ordered.h"

namespace gemel::parallel::horovod {

/// What a step has asked for and not got. It ends when all of it is done: then the session goes on.
struct GradientReducer::Step {
  std::mutex mutex;
  std::size_t left = 1;  // one that stands for what is not asked for yet
  std::exception_ptr error;
  std::vector<std::int32_t> used;
  int givers = 0;
  std::function<void(int givers)> at_end;
  std::promise<std::vector<std::int32_t>> done;
  std::shared_ptr<Gate> gate;  // opens with this

  void ask() {
    const std::lock_guard lock(mutex);
    ++left;
  }
  /// From any thread.
  void answer(const std::exception_ptr& failed, int of) {
    {
      const std::lock_guard lock(mutex);
      if (!error) error = failed;
      if (of > 0) givers = of;
      if (--left > 0) return;
    }
    if (error) {
      done.set_exception(error);
    } else {
      at_end(givers);
      done.set_value(used);
    }
    gate.reset();
  }
};

/// A parameter's gradient, where it lies.
class GradientReducer::Gradient : public Buffer {
 public:
  Gradient(std::shared_ptr<GradientReducer> reducer, std::shared_ptr<const std::vector<Bucket>> buckets, std::size_t which, Event computed)
      : reducer_(std::move(reducer)), buckets_(std::move(buckets)), which_(which), computed_(std::move(computed)) {}

  std::span<std::byte> open() override {
    if (reducer_->options_.check_finite) reducer_->check_finite(bucket(), computed_);
    begin_ns_ = steady_ns();
    view_ = reducer_->open(bucket().ranges[0], computed_);
    return std::as_writable_bytes(view_.gradients);
  }
  void close() override {
    view_.view.release().wait();
    if (reducer_->options_.keeps_spans) reducer_->add_span(which_, begin_ns_, bucket().bytes);
  }

 private:
  const Bucket& bucket() const { return (*buckets_)[which_]; }
  std::shared_ptr<GradientReducer> reducer_;
  std::shared_ptr<const std::vector<Bucket>> buckets_;
  std::size_t which_;
  Event computed_;
  View view_;
  std::int64_t begin_ns_ = 0;
};

namespace {

ReducerOptions one_a_parameter(ReducerOptions options) {
  options.buckets = {.bytes = 1, .first_bytes = 1};
  return options;
}

}  // namespace

GradientReducer::GradientReducer(Session& session, CommunicationThread& communication, std::vector<NamedValue> parameters, const GradientMemory& memory,
                                 const Options& options)
    : Reducer(session, communication, std::move(parameters), memory, one_a_parameter(options.reducer)), horovod_(options.horovod) {
  how_.prescale = options.prescale;
  how_.postscale = options.postscale;
  if (options_.compression.kind == CompressionOptions::Kind::float16) how_.wire = DType::float16;
  if (options_.compression.kind == CompressionOptions::Kind::bfloat16) how_.wire = DType::bfloat16;
  const bool changes = how_.wire || how_.prescale != 1 || how_.postscale != 1,
             looked_at = options_.check_finite || options_.keeps_spans || horovod_.is_observed();
  asks_ = horovod_.size() > 1 || changes || looked_at;
}

/// It is asked for when it is computed: what is asked for together is fused, and waits for all of it.
void GradientReducer::submit(std::size_t which, const Event& computed) {
  if (!asks_) return;
  if (!step_) step_ = std::make_shared<Step>();
  step_->ask();
  const Bucket& bucket = (*buckets_)[which];
  const auto answered = [step = step_](const std::exception_ptr& error, int givers) { step->answer(error, givers); };
  computed.then([self = self(), answered, name = "gradient." + name_of(bucket.parameters[0]), count = bucket.ranges[0].count,
                 gradient = std::make_shared<Gradient>(self(), buckets_, which, computed), number = communication_.step()] {
    try {
      self->horovod_.all_reduce(name, {gradient, Shape{count}, DType::float32}, self->how_, answered, number);
    } catch (...) {
      answered(std::current_exception(), 0);
    }
  });
}

std::future<std::vector<std::int32_t>> GradientReducer::end_step(std::vector<std::int32_t> used, const Ended& ended) {
  const std::shared_ptr<Step> step = step_ ? std::exchange(step_, nullptr) : std::make_shared<Step>();
  std::future<std::vector<std::int32_t>> done = step->done.get_future();
  step->used = std::move(used);
  const Event computed = mark(session_);
  step->at_end = [self = self(), ended, computed](int givers) { self->add_step(ended, givers, computed); };
  step->gate = std::make_shared<Gate>(make_fence(session_));
  wait_for(session_, step->gate->fence.event());
  const auto answered = [step](const std::exception_ptr& error, int givers) { step->answer(error, givers); };
  computed.then([self = self(), step, answered, number = communication_.step()] {
    const std::span<std::int32_t> flags = step->used;
    try {
      self->horovod_.all_reduce("used parameters", {host_buffer(std::as_writable_bytes(flags)), Shape{std::ssize(flags)}, DType::int32},
                                {.reduction = Reduction::max}, answered, number);
    } catch (...) {
      answered(std::current_exception(), 0);
    }
  });
  return done;
}

}  // namespace gemel::parallel::horovod
