// One module, one optimizer, written once: a captured step trains as an eager one does, bit for bit. In the reference session.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/core/session.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/graph/compile.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "frontends/optim/clip.h"
#include "frontends/optim/optimizer.h"

namespace gemel {
namespace {

constexpr int kSteps = 4;
constexpr std::int64_t kBatch = 3;
const Shape kImage{kBatch, 6, 6, 2};

std::unique_ptr<nn::Module> small_network(Session& session) {
  auto model = std::make_unique<nn::Sequential>();
  model->emplace<nn::Conv2d>(2, 4, nn::square_kernel(3, 1, 1));
  model->emplace<nn::BatchNorm2d>(4);
  model->emplace<nn::ReLU>();
  model->emplace<nn::MaxPool2d>(nn::square_window(2));
  model->emplace<nn::Flatten>();
  model->emplace<nn::Linear>(4 * 3 * 3, 2);
  model->materialise(session);
  return model;
}

Value batch(Session& session, int step) {
  std::vector<double> numbers(static_cast<std::size_t>(kImage.elements()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<double>(i) * (step + 1));
  return session.tensor({kImage, DType::float32}, std::span<const double>(numbers));
}

/// Every parameter, buffer and loss after training, with rates that differ from step to step.
std::vector<std::vector<double>> trained(std::string_view optimizer_name, bool compiled) {
  const auto session = Session::reference(3);
  const auto model = small_network(*session);
  const auto optimizer = optim::make(optimizer_name, optim::all_in_one(model->parameters()));
  // Inputs: the batch, then what varies from step to step.
  const auto step = [&](const Values& in) -> Values {
    const Value loss = mean(square((*model)(in[0]) - 1.0));
    Values gradients = gradient({loss}, values_of(optimizer->parameters()));
    optimizer->apply_updates(optim::clip_grad_norm(std::move(gradients), 0.5).gradients, {in[1]});
    return {loss.detached()};
  };
  std::vector<std::vector<double>> out;
  graph::Compiled captured = graph::compile(*session, step);
  for (int s = 0; s < kSteps; ++s) {
    const Values in{batch(*session, s % 2), optimizer->hyper(0.005 / (s + 1))[0]};
    out.push_back(read(compiled ? captured(in)[0] : step(in)[0]));
    optimizer->advance();
  }
  EXPECT_EQ(captured.plans().size(), compiled ? 1u : 0u);
  const ParameterSet set = model->parameters();
  EXPECT_EQ(read(*set.find("1.num_batches_tracked")), std::vector<double>{kSteps});
  for (const NamedValue& p : set.parameters()) out.push_back(read(p.value));
  for (const NamedValue& b : set.buffers()) out.push_back(read(b.value));
  for (const NamedValue& s : optimizer->state()) out.push_back(read(s.value));
  return out;
}

class TrainingStep : public ::testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, TrainingStep, ::testing::ValuesIn(optim::names()), [](const auto& i) { return std::string(i.param); });

TEST_P(TrainingStep, trains_the_same_captured_or_eager) {
  const auto eager = trained(GetParam(), false), captured = trained(GetParam(), true);
  ASSERT_EQ(eager.size(), captured.size());
  for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_EQ(eager[i], captured[i]) << i;
  EXPECT_LT(eager[2][0], eager[0][0]);  // the loss of the same batch
}

}  // namespace
}  // namespace gemel
