// GPT-2 against Hugging Face's, with the same weights: logits, the gradients of all parameters, and the text that it goes on with, with and
// without a cache.
#include "frontends/models/texts/gpt2.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/files/safetensors.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/generation/text_generation.h"
#include "frontends/nn/state/state_dict.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/operators/expected_values.h"
#include "tests/support/operators/op_harness.h"
#include "tests/support/temporary_folder.h"

namespace gemel::models {
namespace {

using List = std::vector<double>;
using Ids = std::vector<std::int64_t>;
using testing::Expected;
using testing::message_of;
using testing::relative_error;
using testing::test_data;
using testing::test_session;
using train::Frontend;

/// That of tests/data/gpt2/make.py.
Gpt2Config small_gpt2() {
  return {.vocab_size = 50, .n_positions = 20, .n_embd = 24, .n_layer = 2, .n_head = 3, .embd_pdrop = 0, .attn_pdrop = 0, .resid_pdrop = 0};
}

Ids ids_of(const Expected& expected, const std::string& name) {
  const List numbers = expected.numbers(name);
  return {numbers.begin(), numbers.end()};
}

std::unique_ptr<Gpt2> loaded_gpt2(Session& session) {
  auto model = std::make_unique<Gpt2>(small_gpt2());
  nn::load_weights(*model, session, test_data("gpt2/weights.safetensors"));
  return model;
}

TEST(Gpt2, gives_hugging_faces_logits_and_gradients) {
  Session& session = test_session();
  const Expected expected("gpt2/expected.safetensors");
  const auto model = loaded_gpt2(session);
  std::vector<std::pair<std::string, Value>> parameters;
  Values leaves;
  model->visit([&](const std::string& path, nn::Module& m) {
    for (const auto& p : m.own_parameters())
      if (!p->tied_to) parameters.emplace_back(nn::join_path(path, p->name), p->tensor());
  });
  for (const auto& [name, tensor] : parameters) leaves.push_back(tensor);
  const Value logits = (*model)(expected.tensor(session, "ids"));
  EXPECT_LE(relative_error(read(logits), expected.numbers("logits")), 1e-4);
  const List labels = expected.numbers("labels");
  const auto counted = static_cast<double>(std::ranges::count_if(labels, [](double label) { return label >= 0; }));
  const Value loss = cross_entropy_of_labelled(reshape(logits, Shape{39, 50}), reshape(expected.tensor(session, "labels"), Shape{39})) * (1 / counted);
  const Values gradients = gradient({loss}, leaves);
  // Keys' biases change no weight of attention: their gradients count as none.
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    ASSERT_TRUE(gradients[i]) << parameters[i].first;
    EXPECT_LE(relative_error(read(gradients[i]), expected.numbers("gradient." + parameters[i].first)), 1e-3) << parameters[i].first;
  }
  EXPECT_EQ(parameters.size(), 28u);
}

std::size_t likeliest(std::span<const double> logits) { return at(std::ranges::max_element(logits) - logits.begin()); }

/// How far the likeliest token's logit is above the next one's.
double lead(std::span<const double> logits) {
  List sorted(logits.begin(), logits.end());
  std::ranges::sort(sorted, std::greater<>());
  return sorted[0] - sorted[1];
}

TEST(Gpt2, goes_on_as_hugging_faces_does) {
  Session& session = test_session();
  const Expected expected("gpt2/expected.safetensors");
  const auto model = loaded_gpt2(session);
  model->eval();
  const Ids text = ids_of(expected, "greedy");
  const List theirs = expected.numbers("greedy.logits");
  const GradientMode no_gradients(session, GradientMode::Mode::off);
  const List ours = read((*model)(expected.tensor(session, "greedy")));
  EXPECT_LE(relative_error(ours, theirs), 1e-4);
  std::size_t chosen = 0;
  for (std::size_t t = 3; t + 1 < text.size(); ++t) {
    const auto row = std::span(ours).subspan(t * 50, 50);
    if (lead(std::span(theirs).subspan(t * 50, 50)) < 1e-3) continue;
    EXPECT_EQ(likeliest(row), at(text[t + 1])) << t;
    ++chosen;
  }
  EXPECT_GE(chosen, 10u);
}

class Gpt2InFrontEnd : public ::testing::TestWithParam<Frontend> {};

TEST_P(Gpt2InFrontEnd, with_a_cache_gives_the_logits_without) {
  Session& session = test_session();
  const Expected expected("gpt2/expected.safetensors");
  const auto model = loaded_gpt2(session);
  train::TextReader reader(session, *model, GetParam());
  const Ids text = ids_of(expected, "greedy");
  const List theirs = expected.numbers("greedy.logits");
  const auto expect_logits = [&](std::span<const float> logits, std::size_t behind) {
    const List ours(logits.begin(), logits.end());
    const auto row = std::span(theirs).subspan(behind * 50, 50);
    EXPECT_LE(relative_error(ours, {row.begin(), row.end()}), 1e-4) << behind;
    if (behind + 1 < text.size() && lead(row) >= 1e-3) {
      EXPECT_EQ(likeliest(ours), at(text[behind + 1])) << behind;
    }
  };
  // A prompt, then a token each, then several at once, up to the last position.
  expect_logits(reader.read(std::span(text).first(4)), 3);
  for (std::size_t t = 4; t < 15; ++t) expect_logits(reader.read(std::span(text).subspan(t, 1)), t);
  expect_logits(reader.read(std::span(text).subspan(15)), 19);
  EXPECT_EQ(reader.length(), 20);
  EXPECT_EQ(reader.capacity(), 20) << "no more than there are positions";
  EXPECT_EQ(message_of<UsageError>([&] { reader.read(std::span(text).first(1)); }),
            "generation: 1 tokens are to be read after 20; accepted: 1 or more, 20 in all");
}

TEST_P(Gpt2InFrontEnd, a_cache_that_grows_keeps_what_it_holds) {
  Session& session = test_session();
  Gpt2Config longer = small_gpt2();
  longer.n_positions = 300;
  Gpt2 model(longer);
  model.materialise(session);
  train::TextReader reader(session, model, GetParam());
  PhiloxStream draws(3, stream_hash("tokens"));
  Ids text;
  for (int i = 0; i < 150; ++i) text.push_back(draws.below(50));
  std::vector<std::int64_t> capacities;
  std::span<const float> last;
  for (std::size_t t = 0; t < text.size(); t += 10) {
    last = reader.read(std::span(text).subspan(t, 10));
    if (capacities.empty() || capacities.back() != reader.capacity()) capacities.push_back(reader.capacity());
  }
  EXPECT_EQ(capacities, (Ids{64, 128, 256}));
  const GradientMode no_gradients(session, GradientMode::Mode::off);
  const List all = read(model(session.tensor(i64({1, 150}), std::as_bytes(std::span(text)))));
  EXPECT_LE(relative_error({last.begin(), last.end()}, {all.end() - 50, all.end()}), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(all, Gpt2InFrontEnd, ::testing::Values(Frontend::eager, Frontend::graph),
                         [](const auto& i) { return std::string(train::to_string(i.param)); });

TEST(Gpt2, looks_at_no_token_behind) {
  Session& session = test_session();
  const Expected expected("gpt2/expected.safetensors");
  const auto model = loaded_gpt2(session);
  model->eval();
  const Value ids = expected.tensor(session, "ids");
  const List whole = read(slice((*model)(ids), {0, 0, 0}, {3, 6, 50})), cut = read((*model)(slice(ids, {0, 0}, {3, 6})));
  EXPECT_LE(relative_error(cut, whole), 1e-6);
}

TEST(Gpt2, reads_files_in_any_spelling_and_writes_hugging_faces) {
  Session& session = test_session();
  const SafetensorsFile file(test_data("gpt2/weights.safetensors"));
  const auto model = loaded_gpt2(session);
  std::vector<NamedTensor> tensors;
  for (NamedTensor t : file.tensors()) {
    t.name = "transformer." + t.name;
    tensors.push_back(t);
    if (t.name == "transformer.wte.weight") tensors.push_back({"lm_head.weight", t.spec, t.data});
  }
  Gpt2 other(small_gpt2());
  const nn::Loaded told = nn::load_state_dict(other, session, tensors);
  EXPECT_EQ(told.left_aside, (std::vector<std::string>{"transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias"}));
  std::vector<std::string> names;
  for (const nn::StateEntry& e : nn::state_dict(other)) {
    names.push_back(e.name);
    const NamedTensor* const in_file = file.find(e.name == "lm_head.weight" ? "wte.weight" : e.name.substr(std::string("transformer.").size()));
    ASSERT_TRUE(in_file) << e.name;
    EXPECT_TRUE(std::ranges::equal(e.bytes, in_file->data)) << e.name;
  }
  EXPECT_EQ(names.size(), 29u);
  EXPECT_EQ(names.back(), "lm_head.weight");
  std::erase_if(tensors, [](const NamedTensor& t) { return t.name == "transformer.ln_f.bias"; });
  EXPECT_EQ(message_of<DataError>([&] { nn::load_state_dict(other, session, tensors); }), "state dict: 1 names do not fit; missing: transformer.ln_f.bias");
}

TEST(Gpt2, starts_as_hugging_faces_does) {
  Session& session = test_session();
  Gpt2Config config = gpt2_config("tiny");
  config.vocab_size = 2000;
  Gpt2 model(config);
  model.materialise(session);
  const auto deviation = [&](const std::string& name) {
    const List x = read(*model.parameters().find(name));
    double squares = 0;
    for (const double v : x) squares += v * v;
    return std::sqrt(squares / static_cast<double>(x.size()));
  };
  EXPECT_NEAR(deviation("transformer.wte.weight"), 0.02, 4e-4);
  EXPECT_NEAR(deviation("transformer.wpe.weight"), 0.02, 4e-4);
  EXPECT_NEAR(deviation("transformer.h.1.attn.c_attn.weight"), 0.02, 4e-4);
  EXPECT_NEAR(deviation("transformer.h.1.attn.c_proj.weight"), 0.01, 2e-4) << "of four residual sums";
  EXPECT_NEAR(deviation("transformer.h.1.mlp.c_proj.weight"), 0.01, 2e-4);
  EXPECT_EQ(deviation("transformer.h.1.mlp.c_fc.bias"), 0);
  EXPECT_EQ(deviation("transformer.ln_f.weight"), 1);
}

TEST(Gpt2, has_the_sizes_of_its_configurations_and_refuses_others) {
  EXPECT_EQ(Gpt2(gpt2_config("base")).parameter_elements(), 124439808);
  EXPECT_EQ(Gpt2(gpt2_config("mini")).config().n_head, 4);
  EXPECT_EQ(message_of<UsageError>([] { gpt2_config("huge"); }),
            "gpt2: the configuration 'huge' is neither known nor a file; accepted: tiny, mini, small, base, or a config.json");
  Gpt2Config wrong = small_gpt2();
  wrong.n_head = 5;
  EXPECT_EQ(message_of<UsageError>([&] { Gpt2 model(wrong); }), "gpt2: 5 heads share a width of 24; accepted: heads that divide it");
  wrong = small_gpt2();
  wrong.n_layer = 0;
  EXPECT_EQ(message_of<UsageError>([&] { Gpt2 model(wrong); }), "gpt2: n_layer is 0; accepted: 1..1024");
  Session& session = test_session();
  const auto model = loaded_gpt2(session);
  EXPECT_NE(message_of<ShapeError>([&] {
              (*model)(full(session, i64({1, 21}), 1));
            }).find("a text has 21 tokens; accepted: at most 20, as many as there are positions"),
            std::string::npos);
  const Value ids = full(session, i64({1, 2}), 1), places = full(session, i64({3}), 0);
  const auto with = [&](const Value& at, const Spec& kept) {
    Values in{ids, at};
    for (int i = 0; i < 4; ++i) in.push_back(full(session, kept, 0));
    return in;
  };
  constexpr const char* kAccepted = "gpt2: accepted: ids int64 [N, T] alone, or with their places int64 [T] and the tensors of a cache for N samples";
  EXPECT_EQ(message_of<ShapeError>([&] { (*model)(Values{ids, places}); }), kAccepted);
  EXPECT_EQ(message_of<ShapeError>([&] { (*model)(with(places, f32({1, 8, 24}))); }), kAccepted);
  EXPECT_EQ(message_of<ShapeError>([&] { (*model)(with(full(session, i64({2}), 0), f32({2, 8, 24}))); }), kAccepted);
}

class Gpt2ConfigFile : public ::testing::Test {
 protected:
  Gpt2Config read(std::string_view text) {
    testing::write_text(file_, text);
    return gpt2_config(file_.string());
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

TEST_F(Gpt2ConfigFile, has_hugging_faces_names) {
  const Gpt2Config c =
      read(R"({"model_type": "gpt2", "activation_function": "gelu_new", "n_embd": 36, "n_head": 6, "n_layer": 3, "n_positions": 20, "n_ctx": 20,
 "n_inner": null, "vocab_size": 99, "embd_pdrop": 0.25, "attn_pdrop": 0, "resid_pdrop": 0.5, "layer_norm_epsilon": 1e-6, "initializer_range": 0.1,
 "scale_attn_weights": true, "tie_word_embeddings": true})");
  EXPECT_EQ((std::vector{c.vocab_size, c.n_positions, c.n_embd, c.n_layer, c.n_head, c.n_inner}), (Ids{99, 20, 36, 3, 6, 0}));
  EXPECT_EQ((List{c.embd_pdrop, c.attn_pdrop, c.resid_pdrop, c.layer_norm_epsilon, c.initializer_range}), (List{0.25, 0, 0.5, 1e-6, 0.1}));
  EXPECT_EQ(read("{}").n_embd, 768) << "what is not there is gpt2's";
}

TEST_F(Gpt2ConfigFile, is_refused_by_name_and_key) {
  EXPECT_EQ(refusal(R"({"model_type": "bert"})"), ": model_type is \"bert\"; accepted: \"gpt2\"");
  EXPECT_EQ(refusal(R"({"activation_function": "relu"})"), ": activation_function is \"relu\"; accepted: \"gelu_new\", \"gelu_pytorch_tanh\"");
  EXPECT_EQ(refusal(R"({"scale_attn_by_inverse_layer_idx": true})"), ": scale_attn_by_inverse_layer_idx is true; accepted: false");
  EXPECT_EQ(refusal(R"({"tie_word_embeddings": "no"})"), ": tie_word_embeddings is \"no\"; accepted: true");
  EXPECT_EQ(refusal(R"({"n_head": 7})"), ": gpt2: 7 heads share a width of 768; accepted: heads that divide it");
  EXPECT_EQ(refusal(R"({"n_layer": 1.5})"), ": n_layer is 1.5; accepted: a whole number, 0..1000000000");
}

}  // namespace
}  // namespace gemel::models
