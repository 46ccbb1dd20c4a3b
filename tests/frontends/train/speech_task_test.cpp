// The task of speech on log-probabilities made by hand: its loss, and errors of words and characters.
#include "frontends/train/tasks/speech_task.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "datasets/speech/characters.h"
#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/ops/ops.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/models/fixed_outputs.h"

namespace gemel::train {
namespace {

using List = std::vector<double>;
using Texts = std::vector<std::string>;
using testing::FixedOutputs;
using testing::test_session;

constexpr std::int64_t kFrames = 24;

/// The likeliest class at each frame of a text written with a blank after each character, then noise that does not count.
List alignment(const std::string& text) {
  List out(kFrames, 5);
  for (std::size_t i = 0; i < text.size(); ++i) {
    out[2 * i] = static_cast<double>(datasets::class_of(text[i]));
    out[2 * i + 1] = datasets::kBlank;
  }
  return out;
}

/// Sums of a batch in which texts were said and others are written, with this share of the probability on each likeliest class.
Sums sums_of_texts(const Texts& said, const Texts& written, double sure = 0.9) {
  Session& session = test_session();
  const std::int64_t n = std::ssize(said), classes = datasets::kCharacterClasses, width = 12;
  List log_probs(static_cast<std::size_t>(n * kFrames * classes), std::log((1 - sure) / static_cast<double>(classes - 1))), frames;
  std::vector<std::int64_t> transcripts(static_cast<std::size_t>(n * width), -1);
  for (std::size_t i = 0; i < said.size(); ++i) {
    const List likeliest = alignment(written[i]);
    for (std::size_t t = 0; t < likeliest.size(); ++t)
      log_probs[(i * kFrames + t) * static_cast<std::size_t>(classes) + static_cast<std::size_t>(likeliest[t])] = std::log(sure);
    for (std::size_t c = 0; c < said[i].size(); ++c) transcripts[i * static_cast<std::size_t>(width) + c] = datasets::class_of(said[i][c]);
    frames.push_back(2 * static_cast<double>(written[i].size()));
  }
  FixedOutputs module({session.tensor(f32({n, kFrames, classes}), log_probs), session.tensor(i64({n}), frames)});
  SpeechTask task(module);
  const datasets::Batch batch{.tensors = {datasets::host_tensor("transcripts", Shape{n, width}, std::span<const std::int64_t>(transcripts))}, .samples = n};
  const std::vector<std::string> names = task.inputs();
  const Value unused = full(session, f32({n}), 0);
  const Values values{unused, unused, session.tensor(batch.tensors[0].spec, *batch.tensors[0].bytes)};
  const Outcome outcome = task.forward({names, values});
  std::vector<List> outputs;
  for (const Value& v : outcome.outputs) outputs.push_back(read(v));
  return {n, read(outcome.loss)[0], task.weight(batch), task.count(batch, outputs)};
}

std::vector<Metric> speech_metrics(const Sums& sums) {
  FixedOutputs module({});
  return SpeechTask(module).metrics(sums);
}

TEST(SpeechTask, counts_errors_of_words_and_of_characters) {
  const auto metrics = speech_metrics(sums_of_texts({"two one", "six", "it's"}, {"two on", "six six", "it's"}));
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0].name, "wer");
  EXPECT_DOUBLE_EQ(metrics[0].value, 2.0 / 4) << "one replaced, one inserted";
  EXPECT_EQ(metrics[1].name, "cer");
  EXPECT_DOUBLE_EQ(metrics[1].value, 5.0 / 14) << "one deleted, four inserted";
  EXPECT_EQ(speech_metrics(sums_of_texts({"one"}, {"one"}))[0].value, 0);
  EXPECT_EQ(speech_metrics(sums_of_texts({"one"}, {""}))[1].value, 1) << "nothing is written";
}

TEST(SpeechTask, of_two_parts_is_that_of_the_whole) {
  const Texts said{"one two", "six", "nine one"}, written{"one to", "six", "nine ten"};
  Sums parts = sums_of_texts({said[0]}, {written[0]});
  parts += sums_of_texts({said[1], said[2]}, {written[1], written[2]});
  const Sums whole = sums_of_texts(said, written);
  EXPECT_EQ(parts.samples, 3);
  EXPECT_NEAR(parts.loss, whole.loss, 1e-4 * whole.loss);  // float32
  for (std::size_t m = 0; m < 2; ++m) EXPECT_DOUBLE_EQ(speech_metrics(parts)[m].value, speech_metrics(whole)[m].value);
}

/// Two frames hold a character in three ways: with a blank behind it, before it, or twice.
TEST(SpeechTask, loses_by_all_alignments) {
  const double sure = 0.9, other = 0.1 / 28;
  const Sums sums = sums_of_texts({"a", "a"}, {"a", "a"}, sure);
  EXPECT_EQ(sums.weight, 2);
  EXPECT_NEAR(sums.mean_loss(), -std::log(sure * sure + other * other + sure * other), 1e-5);
  EXPECT_EQ(sums_of_texts({"abc"}, {"a"}).loss, std::numeric_limits<double>::infinity()) << "three characters in two frames";
}

TEST(SpeechTask, refuses_transcripts_that_are_none) {
  FixedOutputs module({});
  const std::vector<float> numbers(2);
  const datasets::Batch batch{.tensors = {datasets::host_tensor("transcripts", Shape{2, 1}, std::span<const float>(numbers))}, .samples = 2};
  EXPECT_EQ(testing::message_of<UsageError>([&] {
              SpeechTask(module).count(batch, std::vector<List>{{0, 0}, {1, 1}});
            }),
            "speech: transcripts is float32 [2, 1]; accepted: int32 or int64 [2, L]");
}

}  // namespace
}  // namespace gemel::train
