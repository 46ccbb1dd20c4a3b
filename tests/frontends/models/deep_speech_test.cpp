// The model of speech against the same one in PyTorch: what it gives, its gradients and steps of training; that padding changes nothing; its configurations.
#include "frontends/models/speech/deep_speech.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/files/safetensors.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/nn/state/file_layout.h"
#include "frontends/nn/state/state_dict.h"
#include "frontends/train/step.h"
#include "frontends/train/tasks/speech_task.h"
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

/// Those of tests/data/speech/make.py.
constexpr SpeechConfig kSmallSpeech{.bands = 6, .stride = 4, .channels = 8, .hidden_size = 7, .num_layers = 2, .dropout = 0};
constexpr std::int64_t kSmallClasses = 5;

testing::Expected expected_of_speech() { return testing::Expected("speech/expected.safetensors"); }

std::unique_ptr<nn::Module> loaded_speech(Session& session) {
  auto model = speech(kSmallSpeech, kSmallClasses);
  EXPECT_TRUE(nn::load_weights(*model, session, test_data("speech/weights.safetensors")).fresh.empty());
  return model;
}

/// The fixture's batch, on the host.
datasets::Batch batch() {
  const testing::Expected file = expected_of_speech();
  datasets::Batch out{.samples = 3};
  for (const char* name : {"features", "frames", "transcripts"}) {
    const NamedTensor& t = file.named(name);
    out.tensors.push_back({name, t.spec, std::make_shared<const std::vector<std::byte>>(t.data.begin(), t.data.end())});
  }
  return out;
}

/// The first `count` rows of sample n of [N, P, C].
List rows(const List& all, const Shape& shape, std::int64_t n, std::int64_t count) {
  const auto begin = all.begin() + n * shape[1] * shape[2];
  return {begin, begin + count * shape[2]};
}

/// float32 through eight recurrent steps of two layers, beside double precision: 1e-4; gradients sum over all steps: 1e-3 of the largest.
TEST(SpeechModel, gives_pytorchs_log_probabilities_losses_and_gradients) {
  Session& session = test_session();
  const testing::Expected file = expected_of_speech();
  const auto model = loaded_speech(session);
  const Values given = (*model)({file.tensor(session, "features"), file.tensor(session, "frames")});
  ASSERT_EQ(given.at(0).spec(), f32({3, 8, kSmallClasses}));
  EXPECT_EQ(read(given.at(1)), file.numbers("counted"));
  const List log_probs = read(given[0]), wanted = file.numbers("log_probs"), counted = file.numbers("counted");
  for (std::int64_t n = 0; n < 3; ++n) {
    const auto count = static_cast<std::int64_t>(counted[static_cast<std::size_t>(n)]);
    expect_near(rows(log_probs, given[0].shape(), n, count), rows(wanted, given[0].shape(), n, count), 1e-4, "sample " + std::to_string(n));
  }
  const CtcTargets targets{file.tensor(session, "transcripts"), session.tensor(i64({3}), List{4, 3, 1})};
  expect_near(read(ctc_losses(given[0], given[1], targets)), file.numbers("losses"), 1e-3, "losses");
  Values leaves;
  for (const NamedValue& p : model->parameters().parameters()) leaves.push_back(p.value);
  const Values gradients = gradient({ctc_loss(given[0], given[1], targets, {}, LossReduction::sum) / 3}, leaves);
  std::size_t i = 0;
  model->visit([&](const std::string& path, nn::Module& m) {
    for (const auto& p : m.own_parameters()) {
      const std::string name = path + "." + p->name;
      ASSERT_TRUE(gradients[i]) << name;
      const List reference = file.numbers("gradient." + name);
      const double most = std::abs(*std::ranges::max_element(reference, {}, [](double x) { return std::abs(x); }));
      expect_near(numbers_from_bytes(DType::float32, nn::to_file_layout(p->spec, p->layout, read_bytes(gradients[i]))), reference, 1e-3 * most, name);
      ++i;
    }
  });
  EXPECT_EQ(i, 26u);
}

class SpeechSteps : public ::testing::TestWithParam<train::Frontend> {};
INSTANTIATE_TEST_SUITE_P(, SpeechSteps, ::testing::Values(train::Frontend::eager, train::Frontend::graph),
                         [](const auto& i) { return train::to_string(i.param); });

/// The same rounding, carried through five steps.
TEST_P(SpeechSteps, lose_what_pytorchs_lose) {
  Session session(testing::shared_test_device());
  const auto model = loaded_speech(session);
  train::SpeechTask task(*model);
  const auto optimizer = optim::make("sgd", optim::all_in_one(model->parameters()));
  train::Step step(session, task, optimizer.get(), {.frontend = GetParam()});
  List losses;
  for (int s = 1; s <= 5; ++s) losses.push_back(step.train(batch(), 0.1, s).get().mean_loss());
  expect_near(losses, expected_of_speech().numbers("steps"), 1e-3, "mean loss");
}

TEST_P(SpeechSteps, in_micro_batches_add_up_to_the_batch) {
  const auto trained = [](std::int64_t accumulate) {
    Session session(testing::shared_test_device());
    const auto model = loaded_speech(session);
    train::SpeechTask task(*model);
    const auto optimizer = optim::make("sgd", optim::all_in_one(model->parameters()));
    train::Step step(session, task, optimizer.get(), {.frontend = GetParam(), .accumulate = accumulate});
    List losses;
    for (int s = 1; s <= 3; ++s) losses.push_back(step.train(batch(), 0.1, s).get().mean_loss());
    return losses;
  };
  expect_near(trained(2), trained(1), 1e-4, "losses");  // sums in another order
}

/// What stands behind the end of a sample, and how long its rows are, is nothing to it. Products of other sizes sum in another order.
TEST(SpeechModel, gives_a_sample_the_same_alone_and_padded_with_anything) {
  Session& session = test_session();
  const testing::Expected file = expected_of_speech();
  const auto model = loaded_speech(session);
  model->eval();
  const List frames = file.numbers("frames");
  const Value features = file.tensor(session, "features");
  const Value padded = pad(features, {0, 0, 0}, {0, 13, 0}, 1e4);
  const Values together = (*model)({padded, file.tensor(session, "frames")});
  const Value transcripts = file.tensor(session, "transcripts");
  const List lengths{4, 3, 1}, losses = read(ctc_losses(together[0], together[1], {transcripts, session.tensor(i64({3}), lengths)}));
  const Shape shape = together[0].shape();
  EXPECT_EQ(shape, (Shape{3, 11, kSmallClasses}));
  for (std::int64_t n = 0; n < 3; ++n) {
    const double of_sample = frames[static_cast<std::size_t>(n)];
    const Value alone = slice(features, {n, 0, 0}, {n + 1, static_cast<std::int64_t>(of_sample), 6});
    const Values given = (*model)({alone, session.tensor(i64({1}), List{of_sample})});
    const std::int64_t count = given[0].shape()[1];
    EXPECT_EQ(read(given[1])[0], static_cast<double>(count));
    EXPECT_EQ(read(together[1])[static_cast<std::size_t>(n)], static_cast<double>(count));
    expect_near(rows(read(together[0]), shape, n, count), read(given[0]), 1e-5, "sample " + std::to_string(n));
    const CtcTargets targets{slice(transcripts, {n, 0}, {n + 1, 4}), session.tensor(i64({1}), List{lengths[static_cast<std::size_t>(n)]})};
    EXPECT_NEAR(read(ctc_losses(given[0], given[1], targets))[0], losses[static_cast<std::size_t>(n)], 1e-4) << "a sum over eight steps at most";
  }
}

TEST(SpeechModel, saves_what_it_loads_under_the_same_names) {
  Session& session = test_session();
  const testing::TemporaryFolder folder;
  nn::save_weights(*loaded_speech(session), folder / "saved.safetensors");
  const SafetensorsFile given(test_data("speech/weights.safetensors")), saved(folder / "saved.safetensors");
  ASSERT_EQ(saved.tensors().size(), given.tensors().size());
  for (const NamedTensor& t : given.tensors()) {
    const NamedTensor* const same = saved.find(t.name);
    ASSERT_TRUE(same) << t.name;
    EXPECT_EQ(same->spec, t.spec) << t.name;
    EXPECT_TRUE(std::ranges::equal(same->data, t.data)) << t.name;
  }
}

TEST(SpeechModel, has_the_sizes_of_its_configurations_and_refuses_others) {
  const auto recurrent = [](std::int64_t in, std::int64_t hidden) { return 2 * 3 * hidden * (in + hidden + 2); };
  EXPECT_EQ(speech(speech_config("tiny"), 29)->parameter_elements(), 64 * (40 * 11 + 1) + 64 * (64 * 11 + 1) + 4 * 64 + recurrent(64, 64) + 29 * 129);
  EXPECT_EQ(speech(speech_config("base"), 29)->parameter_elements(),
            512 * (80 * 11 + 1) + 512 * (512 * 11 + 1) + 4 * 512 + recurrent(512, 512) + 4 * recurrent(1024, 512) + 29 * 1025);
  EXPECT_EQ(message_of<UsageError>([] { speech_config("huge"); }),
            "speech: the configuration 'huge' is neither known nor a file; accepted: tiny, mini, small, base, or a config.json");
  EXPECT_EQ(message_of<UsageError>([] { speech({.stride = 3}, 29); }), "speech: stride is 3; accepted: 2 or 4");
  EXPECT_EQ(message_of<UsageError>([] { speech({.num_layers = 0}, 29); }), "speech: num_layers is 0; accepted: 1..64");
  EXPECT_EQ(message_of<UsageError>([] { speech({.dropout = 2}, 29); }), "speech: dropout is 2; accepted: 0..1");
  EXPECT_EQ(message_of<UsageError>([] { speech({}, 1); }), "speech: 1 classes given; accepted: 2 or more, a blank among them");
  Session& session = test_session();
  const auto model = loaded_speech(session);
  EXPECT_NE(message_of<ShapeError>([&] {
              (*model)({full(session, f32({2, 9, 7}), 0), full(session, i64({2}), 1)});
            }).find("speech: accepted: features [N, T, 6] and frames, int64 [N]"),
            std::string::npos);
}

TEST(SpeechModel, is_configured_by_a_file) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder / "config.json";
  testing::write_text(
      path, R"({"model_type": "speech", "sample_rate": 8000, "bands": 40, "stride": 4, "channels": 32, "hidden_size": 48, "num_layers": 3, "dropout": 0.25})");
  const SpeechConfig c = speech_config(path.string());
  EXPECT_EQ(c.sample_rate, 8000);
  EXPECT_EQ(c.bands, 40);
  EXPECT_EQ(c.stride, 4);
  EXPECT_EQ(c.channels, 32);
  EXPECT_EQ(c.hidden_size, 48);
  EXPECT_EQ(c.num_layers, 3);
  EXPECT_EQ(c.dropout, 0.25);
  const auto refusal = [&](std::string_view text) {
    testing::write_text(path, text);
    return message_of<DataError>([&] { speech_config(path.string()); });
  };
  EXPECT_EQ(refusal(R"({"hidden_size": 0})"), "configuration: " + path.string() + ": speech: hidden_size is 0; accepted: 1..65536");
  EXPECT_EQ(refusal(R"({"model_type": "bert"})"), "configuration: " + path.string() + ": model_type is \"bert\"; accepted: \"speech\"");
}

}  // namespace
}  // namespace gemel::models
