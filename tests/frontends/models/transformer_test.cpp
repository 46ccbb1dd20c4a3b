// The transformer against torch.nn.Transformer, with the same weights: logits, the gradients of all parameters, steps of training in both front ends, and what
// it writes greedily; its names, sizes and configurations.
#include "frontends/models/texts/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/models/texts/text_models.h"
#include "frontends/nn/state/file_layout.h"
#include "frontends/nn/state/state_dict.h"
#include "frontends/optim/optimizer.h"
#include "frontends/train/inference.h"
#include "frontends/train/step.h"
#include "frontends/train/tasks/translation_task.h"
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
using testing::test_session;
using train::Frontend;

const testing::Expected& expected_of_transformer() {
  static const testing::Expected file("transformer/expected.safetensors");
  return file;
}

/// One of the cases of tests/data/transformer/make.py: "post", layers that normalise what they give, or "pre".
class TransformerCase : public ::testing::TestWithParam<const char*> {
 protected:
  static std::string named(const std::string& what) { return std::string(GetParam()) + "." + what; }
  static Value tensor(Session& session, const std::string& what) { return expected_of_transformer().tensor(session, named(what)); }
  static List numbers(const std::string& what) { return expected_of_transformer().numbers(named(what)); }
  static std::int64_t end() { return static_cast<std::int64_t>(numbers("end")[0]); }
  static std::unique_ptr<nn::Module> loaded(Session& session) {
    auto model = transformer({.vocab_size = 20,
                              .d_model = 12,
                              .nhead = 3,
                              .num_encoder_layers = 2,
                              .num_decoder_layers = 2,
                              .dim_feedforward = 20,
                              .eos_token_id = end(),
                              .max_length = 9,
                              .dropout = 0,
                              .norm_first = GetParam() == std::string("pre")});
    const std::vector<NamedTensor> weights = weights_of_case();
    EXPECT_TRUE(nn::load_state_dict(*model, session, weights).fresh.empty());
    return model;
  }
  /// Under the names that files have.
  static std::vector<NamedTensor> weights_of_case() {
    const std::string begin = named("weights.");
    std::vector<NamedTensor> out;
    for (NamedTensor t : expected_of_transformer().tensors())
      if (t.name.starts_with(begin)) {
        t.name = t.name.substr(begin.size());
        out.push_back(t);
      }
    return out;
  }
  static datasets::Batch batch() {
    datasets::Batch out{.samples = 3};
    for (const char* name : {"source", "target", "labels"}) {
      const NamedTensor& t = expected_of_transformer().named(named(name));
      out.tensors.push_back({name, t.spec, std::make_shared<const std::vector<std::byte>>(t.data.begin(), t.data.end())});
    }
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(, TransformerCase, ::testing::Values("post", "pre"), [](const auto& i) { return std::string(i.param); });

/// Of the places that have a label: at the others PyTorch's masks look elsewhere, and nothing depends on them.
List labelled(const List& logits, const List& labels) {
  const std::size_t tokens = logits.size() / labels.size();
  List out;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] >= 0)
      out.insert(out.end(), logits.begin() + static_cast<std::ptrdiff_t>(i * tokens), logits.begin() + static_cast<std::ptrdiff_t>((i + 1) * tokens));
  return out;
}

TEST_P(TransformerCase, gives_pytorchs_logits_and_gradients) {
  Session& session = test_session();
  const auto model = loaded(session);
  std::vector<std::pair<std::string, nn::Parameter*>> parameters;
  Values leaves;
  model->visit([&](const std::string& path, nn::Module& m) {
    for (const auto& p : m.own_parameters())
      if (!p->tied_to) {
        parameters.emplace_back(path + "." + p->name, p.get());
        leaves.push_back(p->tensor());
      }
  });
  EXPECT_EQ(parameters.size(), 1u + 2 * 12 + 2 + 2 * 18 + 2);
  const Value logits = (*model)({tensor(session, "source"), tensor(session, "target")}).at(0);
  // Some twenty sums in float32, one behind the other, whose last place is 6e-8; twice as many in a gradient, which is small beside its terms.
  EXPECT_LE(relative_error(labelled(read(logits), numbers("labels")), labelled(numbers("logits"), numbers("labels"))), 2e-6);
  const std::int64_t places = logits.elements() / 20;
  const Value loss = cross_entropy_of_labelled(reshape(logits, Shape{places, 20}), reshape(tensor(session, "labels"), Shape{places}), 0.1) / 16.0;
  const Values gradients = gradient({loss}, leaves);
  // Keys' biases change no weight of attention: their gradients count as none.
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, p] = parameters[i];
    ASSERT_TRUE(gradients[i]) << name;
    const List found = numbers_from_bytes(DType::float32, nn::to_file_layout(p->spec, p->layout, read_bytes(gradients[i])));
    EXPECT_LE(relative_error(found, numbers("gradient." + name)), 1e-5) << name;
  }
}

TEST_P(TransformerCase, trains_as_pytorchs_in_both_front_ends) {
  const List losses = numbers("losses");
  ASSERT_LT(losses.back(), losses.front());
  for (const Frontend frontend : {Frontend::eager, Frontend::graph}) {
    Session session(testing::shared_test_device());
    const auto model = loaded(session);
    train::TranslationTask task(*model, {.end = end(), .label_smoothing = 0.1});
    const auto optimizer = optim::make("sgd", optim::all_in_one(model->parameters()));
    train::Step step(session, task, optimizer.get(), {.frontend = frontend});
    for (std::size_t s = 0; s < losses.size(); ++s)  // as exact as the logits that they are of
      EXPECT_NEAR(step.train(batch(), 0.05, static_cast<std::int64_t>(s) + 1).get().mean_loss(), losses[s], 2e-6 * losses[s])
          << to_string(frontend) << ", step " << s + 1;
  }
}

TEST_P(TransformerCase, writes_the_likeliest_tokens_in_both_front_ends) {
  for (const Frontend frontend : {Frontend::eager, Frontend::graph}) {
    Session session(testing::shared_test_device());
    const auto model = loaded(session);
    train::Inference inference(session, *model, frontend);
    for (int run = 0; run < 2; ++run) {
      const Value written = inference({tensor(session, "source")}).at(0);
      EXPECT_EQ(written.spec(), i64({3, 9}));
      EXPECT_EQ(read(written), numbers("greedy")) << to_string(frontend);
    }
  }
}

TEST_P(TransformerCase, looks_at_no_padding) {
  Session& session = test_session();
  const auto model = loaded(session);
  model->eval();
  const Value source = tensor(session, "source"), target = tensor(session, "target");
  const List all = labelled(read((*model)({source, target}).at(0)), numbers("labels"));
  // What has no weight adds 0; only rows of another length may be added up in another order: some last places of float32.
  const Value longer = pad(source, {0, 0}, {0, 5});
  EXPECT_LE(relative_error(labelled(read((*model)({longer, target}).at(0)), numbers("labels")), all), 1e-6);
  const Values greedy = (*model)(list(longer));
  EXPECT_EQ(read(greedy[0]), numbers("greedy"));
  EXPECT_EQ(read(greedy[1]), List(3, 1)) << "of finite logits";
  const Value longer_target = pad(target, {0, 0}, {0, 3});
  const Value logits = slice((*model)({source, longer_target}).at(0), {0, 0, 0}, {3, target.shape()[1], 20});
  EXPECT_LE(relative_error(labelled(read(logits), numbers("labels")), all), 1e-6) << "what is causal looks at no padding behind";
}

TEST(Transformer, computes_layers_again_to_the_same_gradients) {
  Session& session = test_session();
  const auto gradients = [&](RecomputedParts recompute) {
    const auto model = make_text("transformer", {.config = "tiny", .vocabulary = 30, .dropout = 0.1, .recompute = recompute});
    session.manual_seed(session.seed());  // both start alike
    model->materialise(session);
    session.begin_random_step(5);
    const Value source = session.tensor(i64({2, 3}), List{3, 4, 5, 6, 7, 0}), target = session.tensor(i64({2, 2}), List{1, 8, 1, 9});
    List out;
    for (const Value& g : gradient({sum(square((*model)({source, target}).at(0)))}, values_of(model->parameters().trainable()))) {
      const List numbers = read(g);
      out.insert(out.end(), numbers.begin(), numbers.end());
    }
    return out;
  };
  EXPECT_EQ(gradients(RecomputedParts::blocks), gradients(RecomputedParts::none));
}

TEST(Transformer, has_the_sizes_of_its_configurations_and_refuses_others) {
  // The paper's base model: 512 a token; a layer of the encoder has 4 (512 512 + 512) + 2 512 2048 + 2048 + 512 + 2 1024 numbers, one of the decoder
  // 4 (512 512 + 512) + 1024 more; 1024 behind each side.
  const std::int64_t attention = 4 * (512 * 512 + 512), encoder = attention + 2 * 512 * 2048 + 2048 + 512 + 2 * 1024, decoder = encoder + attention + 1024;
  EXPECT_EQ(transformer(transformer_config("base"))->parameter_elements(), 30522 * 512 + 6 * (encoder + decoder) + 2 * 1024);
  EXPECT_EQ(transformer_config("tiny").nhead, 2);
  EXPECT_EQ(message_of<UsageError>([] { transformer_config("huge"); }),
            "transformer: the configuration 'huge' is neither known nor a file; accepted: tiny, mini, small, base, or a config.json");
  EXPECT_EQ(message_of<UsageError>([] { transformer({.nhead = 7}); }), "transformer: 7 heads share a width of 512; accepted: heads that divide it");
  EXPECT_EQ(message_of<UsageError>([] { transformer({.num_decoder_layers = 0}); }), "transformer: num_decoder_layers is 0; accepted: 1..1024");
  EXPECT_EQ(message_of<UsageError>([] { transformer({.num_encoder_layers = 1'000'000}); }), "transformer: num_encoder_layers is 1000000; accepted: 1..1024");
  EXPECT_EQ(message_of<UsageError>([] { transformer({.vocab_size = 2}); }), "transformer: eos_token_id is 2; accepted: 0..1");
  Session& session = test_session();
  const auto model = transformer({.vocab_size = 9, .d_model = 8, .nhead = 2, .num_encoder_layers = 1, .num_decoder_layers = 1, .dim_feedforward = 8});
  model->materialise(session);
  const Value two = full(session, i64({2, 4}), 3), three = full(session, i64({3, 4}), 3);
  EXPECT_NE(message_of<ShapeError>([&] {
              (*model)({two, three});
            }).find("transformer: accepted: a source int64 [N, S], alone or with a target int64 [N, T]"),
            std::string::npos);
}

TEST(Transformer, is_configured_by_a_file) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder / "config.json";
  testing::write_text(
      file,
      R"({"model_type": "transformer", "d_model": 24, "nhead": 3, "num_encoder_layers": 1, "num_decoder_layers": 3, "dim_feedforward": 50, "vocab_size": 40,
    "pad_token_id": 4, "bos_token_id": 5, "eos_token_id": 6, "dropout": 0.25, "layer_norm_eps": 1e-6, "norm_first": true, "activation": "relu"})");
  const TransformerConfig c = transformer_config(file.string());
  EXPECT_EQ((std::vector{c.d_model, c.nhead, c.num_encoder_layers, c.num_decoder_layers, c.dim_feedforward, c.vocab_size, c.pad_token_id, c.bos_token_id,
                         c.eos_token_id}),
            (std::vector<std::int64_t>{24, 3, 1, 3, 50, 40, 4, 5, 6}));
  EXPECT_EQ((List{c.dropout, c.layer_norm_eps}), (List{0.25, 1e-6}));
  EXPECT_TRUE(c.norm_first);
  const auto refusal = [&](std::string_view text) {
    testing::write_text(file, text);
    return message_of<DataError>([&] { transformer_config(file.string()); });
  };
  EXPECT_EQ(refusal(R"({"nhead": 5})"), "configuration: " + file.string() + ": transformer: 5 heads share a width of 512; accepted: heads that divide it");
  EXPECT_EQ(refusal(R"({"activation": "gelu"})"), "configuration: " + file.string() + ": activation is \"gelu\"; accepted: \"relu\"");
  EXPECT_EQ(refusal(R"({"norm_first": 1})"), "configuration: " + file.string() + ": norm_first is 1; accepted: true or false");
}

}  // namespace
}  // namespace gemel::models
