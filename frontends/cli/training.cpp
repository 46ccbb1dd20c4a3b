#include "frontends/cli/training.h"

#include "engine/autograd.h"
#include "engine/base/span.h"
#include "engine/ops/ops.h"

namespace gemel::cli {
namespace {

/// int64: how many rows have their largest logit at the label.
Value count_correct(const Value& logits, const Value& labels) {
  return sum(cast(equal(argmax(logits.detached(), 1), labels), DType::int64));
}

}  // namespace

Training::Training(Session& session, nn::Module& model, optim::Optimizer* optimizer, Frontend frontend, PassNames passes, double clip_norm)
    : session_(session), model_(model), optimizer_(optimizer), frontend_(frontend), clip_norm_(clip_norm),
      train_graph_(session, [this](const Values& in) { return train_step(in); }, passes),
      evaluation_graph_(session, [this](const Values& in) { return evaluation_step(in); }, passes) {}

/// in: images, labels, random state, one vector of numbers a parameter group
Values Training::train_step(const Values& in) {
  session_.random().begin(in[2]);
  const Value logits = model_(in[0]);
  const Value loss = cross_entropy(logits, in[1]);
  Values gradients = gradient({loss}, values_of(optimizer_->parameters()));
  if (clip_norm_ > 0) gradients = optim::clip_grad_norm(std::move(gradients), clip_norm_).gradients;
  optimizer_->apply_updates(std::move(gradients), Values(in.begin() + 3, in.end()));
  return {loss.detached(), count_correct(logits, in[1])};
}

Values Training::evaluation_step(const Values& in) {
  const GradientMode no_gradients(session_, GradientMode::Mode::off);
  const Value logits = model_(in[0]);
  return {cross_entropy(logits, in[1]), count_correct(logits, in[1])};
}

Values Training::run(graph::Compiled& compiled, Values (Training::*step)(const Values&), Values in) {
  return frontend_ == Frontend::graph ? compiled(in) : (this->*step)(in);
}

Values Training::to_device(const datasets::Batch& batch) {
  return {session_.tensor({batch.shape, DType::float32}, batch.images), session_.tensor({Shape{batch.size()}, DType::int64}, batch.labels)};
}

StepResult Training::train(const datasets::Batch& batch, double rate, std::int64_t step) {
  model_.train();
  Values in = to_device(batch);
  const std::int64_t state[4] = {static_cast<std::int64_t>(session_.seed()), step, batch.first_position, 0};
  in.push_back(session_.tensor(i64({4}), std::as_bytes(std::span(state))));
  for (Value& hyper : optimizer_->hyper(rate)) in.push_back(std::move(hyper));
  const Values out = run(train_graph_, &Training::train_step, std::move(in));
  optimizer_->advance();
  return {read_later(out[0]), read_later(out[1])};
}

StepResult Training::evaluate(const datasets::Batch& batch) {
  model_.eval();
  const Values out = run(evaluation_graph_, &Training::evaluation_step, to_device(batch));
  return {read_later(out[0]), read_later(out[1])};
}

std::int64_t Training::arena_bytes() const { return std::max(train_graph_.arena_bytes(), evaluation_graph_.arena_bytes()); }

}  // namespace gemel::cli
