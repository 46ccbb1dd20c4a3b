#include "frontends/cli/training.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "engine/autograd.h"
#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "frontends/nn/loss.h"
#include "frontends/optim/schedule.h"

namespace gemel::cli {
namespace {

template <class T>
std::vector<T> numbers_of(std::span<const std::byte> bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

Value guesses_of(const Value& logits) { return argmax(logits.detached(), 1); }

}  // namespace

std::int64_t StepResult::correct() const {
  return std::inner_product(labels.begin(), labels.end(), guesses.begin(), std::int64_t{0}, std::plus<>(), std::equal_to<>());
}

PendingStep::PendingStep(const Value& loss, const Value& guesses, datasets::BatchBytes labels, std::string what)
    : loss_(read_later(loss)), guesses_(read_later(guesses)), labels_(std::move(labels)), what_(std::move(what)) {}

StepResult PendingStep::get() {
  try {
    const std::vector<double> guesses = guesses_();
    return {loss_()[0], numbers_of<std::int64_t>(*labels_), {guesses.begin(), guesses.end()}};
  } catch (const DataError& e) {
    throw DataError(fmt::format("{}: {}", what_, e.what()));
  }
}

DeviceBatch Training::to_device(const datasets::Batch& batch) {
  return {session_.tensor({batch.shape, DType::float32}, batch.images), session_.tensor({Shape{batch.size()}, DType::int64}, batch.labels),
          batch.labels, batch.index, batch.first_position};
}

Training::Training(Session& session, nn::Module& model, optim::Optimizer* optimizer, Frontend frontend, PassNames passes, double clip_norm)
    : session_(session), model_(model), optimizer_(optimizer), frontend_(frontend), clip_norm_(clip_norm),
      train_graph_(session, [this](const Values& in) { return train_step(in); }, passes),
      evaluation_graph_(session, [this](const Values& in) { return evaluation_step(in); }, passes) {}

/// in: images, labels, random state, one vector of numbers a parameter group
Values Training::train_step(const Values& in) {
  session_.random().begin(in[2]);
  const Value logits = model_(in[0]);
  const Value loss = nn::classification_loss(model_, logits, in[1]);
  Values gradients = gradient({loss}, values_of(optimizer_->parameters()), {}, {.into = optimizer_->gradient_places()});
  if (clip_norm_ > 0) optimizer_->clip_norm(gradients, clip_norm_);
  optimizer_->apply_updates(std::move(gradients), Values(in.begin() + 3, in.end()));
  return {loss.detached(), guesses_of(logits)};
}

Values Training::evaluation_step(const Values& in) {
  const GradientMode no_gradients(session_, GradientMode::Mode::off);
  const Value logits = model_(in[0]);
  return {cross_entropy(logits, in[1]), guesses_of(logits)};
}

Values Training::run(graph::Compiled& compiled, Values (Training::*step)(const Values&), Values in) {
  return frontend_ == Frontend::graph ? compiled(in) : (this->*step)(in);
}

PendingStep Training::train(const DeviceBatch& batch, double rate, std::int64_t step) {
  model_.train();
  Values in{batch.images, batch.labels};
  const std::int64_t state[4] = {static_cast<std::int64_t>(session_.seed()), step, batch.first_position, 0};
  in.push_back(session_.tensor(i64({4}), std::as_bytes(std::span(state))));
  for (Value& hyper : optimizer_->hyper(rate)) in.push_back(std::move(hyper));
  const Values out = run(train_graph_, &Training::train_step, std::move(in));
  optimizer_->advance();
  return {out[0], out[1], batch.host_labels, fmt::format("step {}", step)};
}

PendingStep Training::evaluate(const DeviceBatch& batch) {
  model_.eval();
  const Values out = run(evaluation_graph_, &Training::evaluation_step, {batch.images, batch.labels});
  return {out[0], out[1], batch.host_labels, fmt::format("batch {}", batch.index + 1)};
}

graph::ArenaUse Training::arena() const {
  const graph::ArenaUse train = train_graph_.arena(), evaluation = evaluation_graph_.arena();
  return train.bytes >= evaluation.bytes ? train : evaluation;
}

}  // namespace gemel::cli
