// A language model's steps: micro-batches with unequal numbers of labels add up to the batch, and padding counts nothing.
#include "frontends/train/tasks/language_task.h"

#include <gtest/gtest.h>

#include <cmath>

#include "datasets/texts/token_blocks.h"
#include "frontends/models/texts/gpt2.h"
#include "frontends/train/step.h"
#include "tests/support/device/test_device.h"

namespace gemel::train {
namespace {

constexpr models::Gpt2Config kSmall{
    .vocab_size = 11, .n_positions = 6, .n_embd = 8, .n_layer = 1, .n_head = 2, .embd_pdrop = 0, .attn_pdrop = 0, .resid_pdrop = 0};

/// Of 21 tokens in blocks of 6: the last block has two labels.
datasets::Batch batch() {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 21; ++i) tokens.push_back(i * i % 11);
  const datasets::TokenBlocks blocks({"text", 11, 6}, tokens);
  const std::int64_t all[] = {0, 1, 2, 3};
  return {.tensors = blocks.tensors(all), .samples = 4};
}

class LanguageSteps : public ::testing::TestWithParam<Frontend> {};
INSTANTIATE_TEST_SUITE_P(, LanguageSteps, ::testing::Values(Frontend::eager, Frontend::graph), [](const auto& i) { return std::string(to_string(i.param)); });

TEST_P(LanguageSteps, in_micro_batches_add_up_to_the_batch) {
  const auto trained = [frontend = GetParam()](std::int64_t accumulate) {
    Session session(testing::shared_test_device());
    models::Gpt2 model(kSmall);
    model.materialise(session);
    LanguageTask task(model);
    const auto optimizer = optim::make("sgd", optim::all_in_one(model.parameters()));
    Step step(session, task, optimizer.get(), {frontend, parse_passes("all"), accumulate});
    Sums sums;
    for (int s = 1; s <= 3; ++s) sums += step.train(batch(), 1.0, s).get();
    EXPECT_EQ(sums.weight, 60) << "labels of three steps";
    EXPECT_EQ(sums.samples, 12);
    std::vector<double> out{sums.mean_loss()};
    for (const NamedValue& p : model.parameters().parameters())
      for (const double v : read(p.value)) out.push_back(v);
    return out;
  };
  const auto whole = trained(1);
  EXPECT_LT(whole[0], std::log(11.0)) << "it learns";
  for (const std::int64_t parts : {2, 4}) {
    const auto cut = trained(parts);
    ASSERT_EQ(cut.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(cut[i], whole[i], 1e-6) << parts << " micro-batches, number " << i;  // sums in another order
  }
}

TEST(LanguageTask, has_the_perplexity_of_a_mean_loss) {
  models::Gpt2 model(kSmall);
  const LanguageTask task(model);
  const std::vector<Metric> metrics = task.metrics({.samples = 2, .loss = 6, .weight = 3});
  ASSERT_EQ(metrics.size(), 1u);
  EXPECT_EQ(metrics[0].name, "perplexity");
  EXPECT_NEAR(metrics[0].value, std::exp(2.0), 1e-12);
}

}  // namespace
}  // namespace gemel::train
