// NeuMF against PyTorch's, with the same weights: logits and the gradients of all parameters; its names, sizes and configurations.
#include "frontends/models/ratings/ncf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/files/safetensors.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/nn/loss.h"
#include "frontends/nn/state/file_layout.h"
#include "frontends/nn/state/state_dict.h"
#include "tests/support/device/test_device.h"
#include "tests/support/expect_near.h"
#include "tests/support/message_of.h"
#include "tests/support/operators/expected_values.h"
#include "tests/support/temporary_folder.h"

namespace gemel::models {
namespace {

using List = std::vector<double>;
using testing::expect_near;
using testing::message_of;
using testing::test_data;
using testing::test_session;

/// Those of tests/data/ncf/make.py.
constexpr NcfConfig kSmallNcf{.factor_num = 4};
constexpr NcfSizes kSizes{7, 11};

/// float32 sums of up to 32 products of numbers about 1: 1e-5.
TEST(Ncf, gives_pytorchs_logits_loss_and_gradients) {
  Session& session = test_session();
  const testing::Expected expected("ncf/expected.safetensors");
  const auto model = ncf(kSmallNcf, kSizes);
  EXPECT_TRUE(nn::load_weights(*model, session, test_data("ncf/weights.safetensors")).fresh.empty());
  const Value logits = (*model)({expected.tensor(session, "users"), expected.tensor(session, "items")}).at(0);
  ASSERT_EQ(logits.shape(), (Shape{5, 3}));
  expect_near(read(logits), expected.numbers("logits"), 1e-5, "logits");
  const Value labels = expected.tensor(session, "labels");
  expect_near(read(nn::binary_cross_entropy(logits, labels, LossReduction::sum)), expected.numbers("loss"), 1e-5, "loss");
  const ParameterSet parameters = model->parameters();
  Values leaves;
  for (const NamedValue& p : parameters.parameters()) leaves.push_back(p.value);
  const Values gradients = gradient({nn::binary_cross_entropy(logits, labels)}, leaves);
  std::size_t i = 0;
  model->visit([&](const std::string& path, nn::Module& m) {
    for (const auto& p : m.own_parameters()) {
      const std::string name = path + "." + p->name;
      ASSERT_EQ(parameters.parameters()[i].name, name);
      ASSERT_TRUE(gradients[i]) << name;
      expect_near(numbers_from_bytes(DType::float32, nn::to_file_layout(p->spec, p->layout, read_bytes(gradients[i]))), expected.numbers("gradient." + name),
                  1e-5, name);
      ++i;
    }
  });
  EXPECT_EQ(i, 12u);
}

TEST(Ncf, saves_what_it_loads_under_the_same_names) {
  Session& session = test_session();
  const testing::TemporaryFolder folder;
  const auto model = ncf(kSmallNcf, kSizes);
  nn::load_weights(*model, session, test_data("ncf/weights.safetensors"));
  nn::save_weights(*model, folder / "saved.safetensors");
  const SafetensorsFile given(test_data("ncf/weights.safetensors")), saved(folder / "saved.safetensors");
  ASSERT_EQ(saved.tensors().size(), given.tensors().size());
  for (const NamedTensor& t : given.tensors()) {
    const NamedTensor* const same = saved.find(t.name);
    ASSERT_TRUE(same) << t.name;
    EXPECT_EQ(same->spec, t.spec) << t.name;
    EXPECT_TRUE(std::ranges::equal(same->data, t.data)) << t.name;
  }
}

/// The paper's start: deviations of 0.01 for factors. Of 40 000 draws the deviation is within 5 / sqrt(80 000), 2 %.
TEST(Ncf, starts_with_small_factors_and_no_biases) {
  Session& session = test_session();
  const auto model = ncf(ncf_config("tiny"), {1250, 1250});
  model->materialise(session);
  const auto deviation = [&](const char* name) {
    double squares = 0;
    const List numbers = read(*model->parameters().find(name));
    for (const double x : numbers) squares += x * x;
    return std::sqrt(squares / static_cast<double>(numbers.size()));
  };
  EXPECT_NEAR(deviation("embed_user_MLP.weight"), 0.01, 2e-4);
  EXPECT_NEAR(deviation("embed_item_MLP.weight"), 0.01, 2e-4);
  // Uniform within sqrt(6 / (64 + 32)) is of deviation sqrt(2 / 96); of 2 048 draws it is within 5 %.
  EXPECT_NEAR(deviation("MLP_layers.1.weight"), std::sqrt(2.0 / 96), 0.05 * std::sqrt(2.0 / 96));
  EXPECT_EQ(deviation("MLP_layers.7.bias"), 0);
  EXPECT_EQ(deviation("predict_layer.bias"), 0);
}

TEST(Ncf, has_the_sizes_of_its_configurations_and_refuses_others) {
  // Tables of 64 and of 256 a user and an item; layers 512-256-128-64 and 128-1 with biases.
  EXPECT_EQ(ncf(ncf_config("base"), {6040, 3706})->parameter_elements(), (6040 + 3706) * (64 + 256) + 513 * 256 + 257 * 128 + 129 * 64 + 129);
  EXPECT_EQ(ncf_config("tiny").factor_num, 8);
  EXPECT_EQ(message_of<UsageError>([] { ncf_config("huge"); }),
            "ncf: the configuration 'huge' is neither known nor a file; accepted: tiny, mini, small, base, or a config.json");
  EXPECT_EQ(message_of<UsageError>([] { ncf({.factor_num = 0}, kSizes); }), "ncf: factor_num is 0; accepted: 1..65536");
  EXPECT_EQ(message_of<UsageError>([] { ncf({.num_layers = 13}, kSizes); }), "ncf: num_layers is 13; accepted: 1..12");
  EXPECT_EQ(message_of<UsageError>([] { ncf(kSmallNcf, {7, 0}); }), "ncf: 7 users and 0 items; accepted: 1 or more of each");
  Session& session = test_session();
  const auto model = ncf(kSmallNcf, kSizes);
  model->materialise(session);
  const Value users = full(session, i64({3, 1}), 0), items = full(session, i64({3, 2}), 0);
  EXPECT_NE(message_of<ShapeError>([&] { (*model)({users, items}); }).find("ncf: accepted: users and items, int64 [N, K] each"), std::string::npos);
}

TEST(Ncf, is_configured_by_a_file) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder / "config.json";
  testing::write_text(file, R"({"model_type": "ncf", "factor_num": 12, "num_layers": 2, "dropout": 0.25})");
  const NcfConfig c = ncf_config(file.string());
  EXPECT_EQ(c.factor_num, 12);
  EXPECT_EQ(c.num_layers, 2);
  EXPECT_EQ(c.dropout, 0.25);
  const auto refusal = [&](std::string_view text) {
    testing::write_text(file, text);
    return message_of<DataError>([&] { ncf_config(file.string()); });
  };
  EXPECT_EQ(refusal(R"({"factor_num": 0})"), "configuration: " + file.string() + ": ncf: factor_num is 0; accepted: 1..65536");
  EXPECT_EQ(refusal(R"({"model_type": "bert"})"), "configuration: " + file.string() + ": model_type is \"bert\"; accepted: \"ncf\"");
  EXPECT_EQ(refusal(R"({"dropout": 2})"), "configuration: " + file.string() + ": dropout is 2; accepted: a number, 0..1");
}

}  // namespace
}  // namespace gemel::models
