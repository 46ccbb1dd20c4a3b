// BERT against Hugging Face's, with the same weights: logits and the gradients of all parameters, in every interpreter.
#include "frontends/models/texts/bert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "engine/core/session.h"
#include "engine/files/safetensors.h"
#include "engine/gradients/autograd.h"
#include "engine/gradients/row_gradient.h"
#include "engine/ops/ops.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/state/file_layout.h"
#include "frontends/nn/state/state_dict.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/operators/expected_values.h"
#include "tests/support/operators/op_harness.h"
#include "tests/support/temporary_folder.h"

namespace gemel::models {
namespace {

using List = std::vector<double>;
using testing::message_of;
using testing::relative_error;
using testing::test_data;
using testing::test_session;

/// That of tests/data/bert/make.py.
BertConfig small_bert() {
  return {.vocab_size = 40,
          .hidden_size = 24,
          .num_hidden_layers = 2,
          .num_attention_heads = 3,
          .intermediate_size = 48,
          .max_position_embeddings = 12,
          .hidden_dropout_prob = 0,
          .attention_probs_dropout_prob = 0};
}

/// As they lie in files.
List file_numbers(const nn::Parameter& p, const Value& gradient) {
  return numbers_from_bytes(DType::float32, nn::to_file_layout(p.spec, p.layout, read_bytes(gradient)));
}

TEST(Bert, gives_hugging_faces_logits_and_gradients) {
  Session& session = test_session();
  const testing::Expected expected("bert/expected.safetensors");
  const auto model = bert_classifier(small_bert(), 3);
  EXPECT_TRUE(nn::load_weights(*model, session, test_data("bert/weights.safetensors")).fresh.empty());
  Values leaves;
  std::vector<std::pair<std::string, nn::Parameter*>> parameters;
  model->visit([&](const std::string& path, nn::Module& m) {
    for (const auto& p : m.own_parameters()) {
      parameters.emplace_back(path.empty() ? p->name : path + "." + p->name, p.get());
      leaves.push_back(p->tensor());
    }
  });
  const Value logits = (*model)({expected.tensor(session, "ids"), expected.tensor(session, "types")}).at(0);
  EXPECT_LE(relative_error(read(logits), expected.numbers("logits")), 1e-4);
  const Values gradients = gradient({cross_entropy(logits, expected.tensor(session, "labels"))}, leaves);
  // Keys' biases change no weight of attention: their gradients count as none.
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    ASSERT_TRUE(gradients[i]) << parameters[i].first;
    EXPECT_LE(relative_error(file_numbers(*parameters[i].second, gradients[i]), expected.numbers("gradient." + parameters[i].first)), 1e-3)
        << parameters[i].first;
  }
}

TEST(Bert, looks_all_its_embeddings_up) {
  Session& session = test_session();
  const testing::Expected expected("bert/expected.safetensors");
  const auto model = bert_classifier(small_bert(), 3);
  ASSERT_TRUE(nn::embed_by_rows(*model));
  nn::load_weights(*model, session, test_data("bert/weights.safetensors"));
  const Value loss = sum((*model)({expected.tensor(session, "ids"), expected.tensor(session, "types")}).at(0));
  Values tables;
  for (const char* name : {"word_embeddings", "position_embeddings", "token_type_embeddings"})
    tables.push_back(*model->parameters().find(std::string("bert.embeddings.") + name + ".weight"));
  for (const Value& g : gradient({loss}, tables)) EXPECT_TRUE(row_values(g)) << "one process would move the table as a whole, and ranks by rows";
}

TEST(Bert, looks_at_no_padding) {
  Session& session = test_session();
  const testing::Expected expected("bert/expected.safetensors");
  const auto model = bert_classifier(small_bert(), 3);
  nn::load_weights(*model, session, test_data("bert/weights.safetensors"));
  model->eval();
  const Value ids = expected.tensor(session, "ids"), types = expected.tensor(session, "types");
  const List all = read((*model)({ids, types}).at(0));
  const List longer = read((*model)({pad(ids, {0, 0}, {0, 3}), pad(types, {0, 0}, {0, 3})}).at(0));
  EXPECT_LE(relative_error(longer, all), 1e-6);
}

/// An encoder as published: without "bert.", gamma and beta, heads of pretraining, a table of positions, and no head for classes.
TEST(Bert, starts_from_a_pretrained_encoder_in_any_spelling) {
  Session& session = test_session();
  const SafetensorsFile file(test_data("bert/weights.safetensors"));
  const std::vector<float> zeros(40);
  std::vector<NamedTensor> tensors{{"cls.predictions.bias", f32({40}), std::as_bytes(std::span(zeros))}};
  for (NamedTensor t : file.tensors()) {
    if (t.name.starts_with("classifier.")) continue;
    t.name = t.name.substr(std::string("bert.").size());
    if (const auto at = t.name.find("LayerNorm."); at != std::string::npos)
      t.name = t.name.substr(0, at) + (t.name.ends_with("weight") ? "LayerNorm.gamma" : "LayerNorm.beta");
    tensors.push_back(t);
  }
  tensors.push_back({"embeddings.position_ids", i64({1, 4}), std::as_bytes(std::span(zeros)).first(32)});
  const auto whole = bert_classifier(small_bert(), 3), loaded = bert_classifier(small_bert(), 3);
  const nn::Loaded told = nn::load_state_dict(*loaded, session, tensors, nn::Mismatch::keep_output_layers);
  EXPECT_EQ(told.fresh, (std::vector<std::string>{"classifier.weight", "classifier.bias"}));
  EXPECT_EQ(told.left_aside, (std::vector<std::string>{"cls.predictions.bias", "embeddings.position_ids"}));
  nn::load_weights(*whole, session, file.path());
  for (const NamedValue& p : whole->parameters().parameters())
    if (!p.name.starts_with("classifier.")) {
      EXPECT_EQ(read(*loaded->parameters().find(p.name)), read(p.value)) << p.name;
    }
  EXPECT_EQ(message_of<DataError>([&] { nn::load_state_dict(*bert_classifier(small_bert(), 3), session, tensors); }),
            "state dict: 2 names do not fit; missing: classifier.weight, classifier.bias");
  tensors.push_back({"bert.pooler.dense.bias", f32({24}), std::as_bytes(std::span(zeros)).first(96)});
  EXPECT_EQ(message_of<DataError>([&] { nn::load_state_dict(*bert_classifier(small_bert(), 3), session, tensors, nn::Mismatch::keep_output_layers); }),
            "state dict: 3 names do not fit; missing: classifier.weight, classifier.bias; unexpected: bert.pooler.dense.bias")
      << "under two names";
}

TEST(Bert, has_the_sizes_of_its_configurations_and_refuses_others) {
  EXPECT_EQ(bert_classifier(bert_config("tiny"), 2)->parameter_elements(), 4386178);
  EXPECT_EQ(bert_classifier(bert_config("base"), 2)->parameter_elements(), 109483778);
  EXPECT_EQ(message_of<UsageError>([] { bert_config("huge"); }),
            "bert: the configuration 'huge' is neither known nor a file; accepted: tiny, mini, small, base, or a config.json");
  BertConfig wrong = small_bert();
  wrong.num_attention_heads = 5;
  EXPECT_EQ(message_of<UsageError>([&] { bert_classifier(wrong, 2); }), "bert: 5 heads share a width of 24; accepted: heads that divide it");
  wrong = small_bert();
  wrong.vocab_size = 0;
  EXPECT_EQ(message_of<UsageError>([&] { bert_classifier(wrong, 2); }), "bert: vocab_size is 0; accepted: 1..16777216");
  Session& session = test_session();
  const auto model = bert_classifier(small_bert(), 2);
  model->materialise(session);
  const Value ids = full(session, i64({1, 13}), 1);
  EXPECT_NE(message_of<ShapeError>([&] {
              (*model)({ids, ids});
            }).find("a text has 13 tokens; accepted: at most 12, as many as there are positions"),
            std::string::npos);
}

class BertConfigFile : public ::testing::Test {
 protected:
  BertConfig read(std::string_view text) {
    testing::write_text(file_, text);
    return bert_config(file_.string());
  }
  /// Behind the file's name.
  std::string refusal(std::string_view text) {
    const std::string message = message_of<DataError>([&] { read(text); }), begin = "configuration: " + file_.string();
    EXPECT_TRUE(message.starts_with(begin)) << message;
    return message.substr(std::min(begin.size(), message.size()));
  }
  testing::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "config.json";
};

constexpr std::string_view kConfig =
    R"({"architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": 36, "num_attention_heads": 6,
 "num_hidden_layers": 3, "intermediate_size": 50, "max_position_embeddings": 20, "type_vocab_size": 1, "vocab_size": 99, "pad_token_id": 3,
 "hidden_dropout_prob": 0.25, "attention_probs_dropout_prob": 0, "layer_norm_eps": 1e-6, "initializer_range": 0.1, "classifier_dropout": null})";

TEST_F(BertConfigFile, has_hugging_faces_names) {
  const BertConfig c = read(kConfig);
  EXPECT_EQ((std::vector{c.vocab_size, c.hidden_size, c.num_hidden_layers, c.num_attention_heads, c.intermediate_size, c.max_position_embeddings,
                         c.type_vocab_size, c.pad_token_id}),
            (std::vector<std::int64_t>{99, 36, 3, 6, 50, 20, 1, 3}));
  EXPECT_EQ((List{c.hidden_dropout_prob, c.attention_probs_dropout_prob, c.layer_norm_eps, c.initializer_range}), (List{0.25, 0, 1e-6, 0.1}));
  EXPECT_EQ(read("{}").hidden_size, 768) << "what is not there is bert-base's";
}

TEST_F(BertConfigFile, is_refused_by_name_and_key) {
  EXPECT_EQ(refusal(""), " is no JSON object; accepted: a config.json of Hugging Face's");
  EXPECT_EQ(refusal("[1]"), " is no JSON object; accepted: a config.json of Hugging Face's");
  EXPECT_EQ(refusal(R"({"hidden_size": "large"})"), ": hidden_size is \"large\"; accepted: a whole number, 0..1000000000");
  EXPECT_EQ(refusal(R"({"hidden_dropout_prob": 1.5})"), ": hidden_dropout_prob is 1.5; accepted: a number, 0..1");
  EXPECT_EQ(refusal(R"({"model_type": "gpt2"})"), ": model_type is \"gpt2\"; accepted: \"bert\"");
  EXPECT_EQ(refusal(R"({"hidden_act": "relu"})"), ": hidden_act is \"relu\"; accepted: \"gelu\"");
  EXPECT_EQ(refusal(R"({"num_attention_heads": 7})"), ": bert: 7 heads share a width of 768; accepted: heads that divide it");
  EXPECT_EQ(refusal(R"({"hidden_size": 48, "id2label": {"0": "a", "0": "b"}, "hidden_size": 24})"), " gives \"hidden_size\" twice; accepted: each key once");
  const std::string foreign = refusal(R"({"do_lower_case": true, "model_max_length": 512})");
  EXPECT_TRUE(foreign.starts_with(" has no key of this model's; accepted: some of model_type, ")) << foreign;
  EXPECT_EQ(read(R"({"model_type": "bert"})").hidden_size, 768);
  EXPECT_EQ(refusal(R"({"pad_token_id": 99, "vocab_size": 99})"), ": bert: pad_token_id is 99; accepted: 0..98");
}

TEST_F(BertConfigFile, that_is_damaged_is_read_or_refused) {
  PhiloxStream draws(1, stream_hash("damaged configurations"));
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text(kConfig);
    for (std::uint32_t n = draws.below(4); n < 4; ++n) text[draws.below(static_cast<std::uint32_t>(text.size()))] = static_cast<char>(draws.below(256));
    try {
      read(text);
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace gemel::models
