// The classifiers with an LSTM and with a GRU against the same in PyTorch; padding; their configurations.
#include "frontends/models/texts/recurrent_classifier.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/nn/state/file_layout.h"
#include "frontends/nn/state/state_dict.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/operators/expected_values.h"
#include "tests/support/operators/op_harness.h"
#include "tests/support/temporary_folder.h"

namespace gemel::models {
namespace {

using namespace gemel::testing;
using List = std::vector<double>;
constexpr RecurrentKind kLstm = RecurrentKind::lstm, kGru = RecurrentKind::gru;

/// That of tests/data/recurrent_classifier/make.py.
RecurrentClassifierConfig small_classifier() {
  return {.vocab_size = 30, .embedding_size = 6, .hidden_size = 5, .num_hidden_layers = 2, .embedding_dropout_prob = 0, .hidden_dropout_prob = 0};
}

class RecurrentClassifier : public ::testing::TestWithParam<RecurrentKind> {
 protected:
  static std::string file(const char* what) {
    return fmt::format("recurrent_classifier/{}.{}.safetensors", GetParam() == RecurrentKind::lstm ? "lstm" : "gru", what);
  }
};

TEST_P(RecurrentClassifier, gives_pytorchs_logits_and_gradients) {
  Session& session = test_session();
  const Expected expected(file("expected"));
  const auto model = recurrent_classifier(GetParam(), small_classifier(), 3);
  EXPECT_TRUE(nn::load_weights(*model, session, test_data(file("weights"))).fresh.empty());
  Values leaves;
  std::vector<std::pair<std::string, nn::Parameter*>> parameters;
  model->visit([&](const std::string& path, nn::Module& m) {
    for (const auto& p : m.own_parameters()) {
      parameters.emplace_back(path + "." + p->name, p.get());
      leaves.push_back(p->tensor());
    }
  });
  const Value ids = expected.tensor(session, "ids"), logits = (*model)({ids, ids}).at(0);
  // Two layers of nine steps in float32, whose last place is 6e-8, forth and in a gradient back.
  EXPECT_LE(relative_error(read(logits), expected.numbers("logits")), 2e-6);
  const Values gradients = gradient({cross_entropy(logits, expected.tensor(session, "labels"))}, leaves);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    ASSERT_TRUE(gradients[i]) << parameters[i].first;
    const nn::Parameter& p = *parameters[i].second;
    const List as_file = numbers_from_bytes(DType::float32, nn::to_file_layout(p.spec, p.layout, read_bytes(gradients[i])));
    EXPECT_LE(relative_error(as_file, expected.numbers("gradient." + parameters[i].first)), 1e-5) << parameters[i].first;
  }
}

TEST_P(RecurrentClassifier, looks_at_no_padding_and_at_no_types) {
  Session& session = test_session();
  const Expected expected(file("expected"));
  const auto model = recurrent_classifier(GetParam(), small_classifier(), 3);
  nn::load_weights(*model, session, test_data(file("weights")));
  model->eval();
  const Value ids = expected.tensor(session, "ids");
  const List all = read((*model)({ids, ids}).at(0));
  const Value longer = pad(ids, {0, 0}, {0, 3});
  EXPECT_LE(relative_error(read((*model)({longer, full(session, longer.spec(), 1)}).at(0)), all), 1e-6);
  const Value one = slice(ids, {1, 0}, {2, 4});  // alone, and without its padding
  EXPECT_LE(relative_error(read((*model)({one, one}).at(0)), List(all.begin() + 3, all.begin() + 6)), 1e-6);
}

TEST_P(RecurrentClassifier, gives_a_number_for_a_text_of_nothing) {
  Session& session = test_session();
  const auto model = recurrent_classifier(GetParam(), small_classifier(), 3);
  nn::load_weights(*model, session, test_data(file("weights")));
  model->eval();
  const Value none = full(session, i64({1, 4}), 0);
  for (const double logit : read((*model)({none, none}).at(0))) EXPECT_TRUE(std::isfinite(logit));
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecurrentClassifier, ::testing::Values(RecurrentKind::lstm, RecurrentKind::gru),
                         [](const auto& kind) { return std::string(kind.param == RecurrentKind::lstm ? "lstm" : "gru"); });

TEST(RecurrentClassifiers, has_the_sizes_of_its_configurations_and_refuses_others) {
  // Embeddings; for each layer and direction weights and two biases; the classifier.
  EXPECT_EQ(recurrent_classifier(kLstm, recurrent_classifier_config(kLstm, "tiny"), 2)->parameter_elements(),
            30522 * 128 + 2 * (512 * (128 + 128) + 2 * 512) + 512 * 2 + 2);
  EXPECT_EQ(recurrent_classifier(kLstm, recurrent_classifier_config(kLstm, "small"), 2)->parameter_elements(),
            30522 * 256 + 2 * (1024 * (256 + 256) + 2048) + 2 * (1024 * (512 + 256) + 2048) + 1024 * 2 + 2);
  EXPECT_EQ(recurrent_classifier(kGru, recurrent_classifier_config(kGru, "tiny"), 2)->parameter_elements(),
            30522 * 128 + 2 * (384 * (128 + 128) + 2 * 384) + 512 * 2 + 2);
  EXPECT_EQ(message_of<UsageError>([] { recurrent_classifier(kGru, small_classifier(), 0); }), "gru_classifier: 0 classes given; accepted: 1 or more");
  EXPECT_EQ(message_of<UsageError>([] { recurrent_classifier_config(kLstm, "huge"); }),
            "lstm_classifier: the configuration 'huge' is neither known nor a file; accepted: tiny, mini, small, base, or a config.json");
  RecurrentClassifierConfig wrong = small_classifier();
  wrong.hidden_size = 0;
  EXPECT_EQ(message_of<UsageError>([&] { recurrent_classifier(kLstm, wrong, 2); }), "lstm_classifier: hidden_size is 0; accepted: 1..65536");
  wrong = small_classifier();
  wrong.pad_token_id = 30;
  EXPECT_EQ(message_of<UsageError>([&] { recurrent_classifier(kLstm, wrong, 2); }), "lstm_classifier: pad_token_id is 30; accepted: 0..29");
  EXPECT_EQ(message_of<UsageError>([&] { recurrent_classifier(kLstm, small_classifier(), 0); }), "lstm_classifier: 0 classes given; accepted: 1 or more");
  Session& session = test_session();
  const auto model = recurrent_classifier(kLstm, small_classifier(), 2);
  model->materialise(session);
  const Value ids = full(session, i64({1, 3}), 1);
  EXPECT_NE(message_of<ShapeError>([&] {
              (*model)({ids, full(session, i64({1, 4}), 1)});
            }).find("accepted: ids and types, int64 [N, T] each"),
            std::string::npos);
}

TEST(RecurrentClassifiers, reads_a_configuration_from_a_file) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "config.json";
  write_text(file, R"({"model_type": "lstm_classifier", "vocab_size": 99, "embedding_size": 12, "hidden_size": 34, "num_hidden_layers": 3, "pad_token_id": 2,
    "embedding_dropout_prob": 0.25, "hidden_dropout_prob": 0, "initializer_range": 0.5})");
  const RecurrentClassifierConfig c = recurrent_classifier_config(kLstm, file.string());
  EXPECT_EQ((std::vector{c.vocab_size, c.embedding_size, c.hidden_size, c.num_hidden_layers, c.pad_token_id}), (std::vector<std::int64_t>{99, 12, 34, 3, 2}));
  EXPECT_EQ((List{c.embedding_dropout_prob, c.hidden_dropout_prob, c.initializer_range}), (List{0.25, 0, 0.5}));
  const auto refusal = [&](const char* text) {
    write_text(file, text);
    return message_of<DataError>([&] { recurrent_classifier_config(kLstm, file.string()); });
  };
  EXPECT_EQ(refusal(R"({"model_type": "bert"})"), "configuration: " + file.string() + ": model_type is \"bert\"; accepted: \"lstm_classifier\"");
  EXPECT_EQ(message_of<DataError>([&] { recurrent_classifier_config(kGru, file.string()); }),
            "configuration: " + file.string() + ": model_type is \"bert\"; accepted: \"gru_classifier\"");
  EXPECT_EQ(refusal(R"({"num_hidden_layers": 0})"), "configuration: " + file.string() + ": lstm_classifier: num_hidden_layers is 0; accepted: 1..1024");
}

}  // namespace
}  // namespace gemel::models
