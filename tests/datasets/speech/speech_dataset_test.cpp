// Speech: its files whole and damaged, batches of utterances of different length, and what is made up.
#include "datasets/speech/speech_dataset.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "datasets/loading/data_loader.h"
#include "datasets/speech/characters.h"
#include "datasets/speech/synthetic_speech.h"
#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "tests/support/datasets/host_elements.h"
#include "tests/support/datasets/speech_folder.h"
#include "tests/support/message_of.h"

namespace gemel::datasets {
namespace {

using testing::elements;
using testing::message_of;
using Ids = std::vector<std::int64_t>;
using List = std::vector<float>;

/// A folder with one utterance of a second, of 101 frames, in dev.tsv.
class SpeechFolder {
 public:
  SpeechFolder() {
    write("a.wav", testing::wav_of(Ids(16000, 100)));
    write("dev.tsv", "a.wav\ta\n");
  }
  void write(const std::string& name, std::string_view content) const { testing::write_text(path(name), content); }
  std::filesystem::path path(const std::string& name = "") const { return name.empty() ? folder_.path() : folder_.path() / name; }
  SpeechSplits open(std::string_view lines, const SpeechOptions& options = {.features = {.bands = 20}, .stride = 4}) const {
    write("train.tsv", lines);
    return open_speech(folder_.path(), options);
  }
  std::string refusal(std::string_view lines) const {
    return message_of<DataError>([&] { open(lines); });
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST(Characters, are_a_blank_a_space_an_apostrophe_and_letters) {
  EXPECT_EQ(spelled("  It's   OK "), "it's ok");
  EXPECT_EQ(class_of(' '), 1);
  EXPECT_EQ(class_of('\''), 2);
  EXPECT_EQ(class_of('a'), 3);
  EXPECT_EQ(class_of('z'), kCharacterClasses - 1);
  EXPECT_EQ(text_of(Ids{11, 22, 2, 21, 1, 28}), "it's z");
  EXPECT_EQ(least_classes("three one"), 10) << "a blank between two e";
  EXPECT_EQ(least_classes("aaa"), 5);
}

TEST(SpeechData, has_features_frames_and_characters) {
  const SpeechFolder folder;
  folder.write("b.wav", testing::wav_of(Ids(8000, 5)));
  const SpeechSplits splits = folder.open("a.wav\tTwo  words\r\nb.wav\tit's\n");
  ASSERT_EQ(splits.train->size(), 2);
  EXPECT_EQ(splits.validation->size(), 1);
  EXPECT_EQ(splits.train->classes(), 29);
  EXPECT_EQ(splits.train->text(0), "two words");
  EXPECT_EQ(splits.train->length(0), 101);
  EXPECT_EQ(splits.train->length(1), 51);
  EXPECT_EQ(splits.train->longest(), 101);
  EXPECT_EQ(splits.train->longest_text(), 9);
  const auto batch = splits.train->tensors(Ids{1, 0});
  ASSERT_EQ(batch.size(), 3u);
  EXPECT_EQ(batch[0].name, "features");
  EXPECT_EQ(batch[0].spec, f32({2, 101, 20}));
  EXPECT_EQ(batch[1].name, "frames");
  EXPECT_EQ(elements<std::int64_t>(batch[1]), (Ids{51, 101}));
  EXPECT_EQ(batch[2].name, "transcripts");
  EXPECT_EQ(batch[2].spec, i64({2, 9}));
  EXPECT_EQ(elements<std::int64_t>(batch[2]), (Ids{11, 22, 2, 21, -1, -1, -1, -1, -1, 22, 25, 17, 1, 25, 17, 20, 6, 21}));
  const List features = elements<float>(batch[0]);
  EXPECT_TRUE(std::all_of(features.begin() + 51 * 20, features.begin() + 101 * 20, [](float x) { return x == 0; })) << "behind the end";
}

/// Means of 100 numbers about 1 in float32: 1e-5. What is added to a variance, 1e-5, changes one above 0.1 by 1e-4.
TEST(SpeechData, has_each_band_of_mean_0_and_variance_1_however_loud) {
  const SpeechFolder folder;
  PhiloxStream draws(3, 0);
  Ids quiet, loud;
  for (int i = 0; i < 16000; ++i) {
    quiet.push_back(static_cast<std::int64_t>(draws.below(2001)) - 1000);
    loud.push_back(20 * quiet.back());
  }
  folder.write("quiet.wav", testing::wav_of(quiet));
  folder.write("loud.wav", testing::wav_of(loud));
  const SpeechSplits splits = folder.open("quiet.wav\ta\nloud.wav\ta\n");
  const List both = elements<float>(splits.train->tensors(Ids{0, 1})[0]);
  constexpr std::size_t kFrames = 101, kBands = 20;
  for (std::size_t b = 0; b < kBands; ++b) {
    double sum = 0, squares = 0;
    for (std::size_t t = 0; t < kFrames; ++t) {
      sum += both[t * kBands + b];
      squares += both[t * kBands + b] * both[t * kBands + b];
    }
    EXPECT_NEAR(sum / kFrames, 0, 1e-5) << b;
    EXPECT_NEAR(squares / kFrames, 1, 1e-3) << b;
  }
  for (std::size_t i = 0; i < kFrames * kBands; ++i) EXPECT_NEAR(both[i], both[kFrames * kBands + i], 1e-3);
}

TEST(SpeechData, of_silence_is_zeros) {
  const SpeechFolder folder;
  folder.write("silence.wav", testing::wav_of(Ids(4000, 0)));
  const SpeechSplits splits = folder.open("silence.wav\ta\n");
  for (const float x : elements<float>(splits.train->tensors(Ids{0})[0])) EXPECT_EQ(x, 0);
}

TEST(SpeechData, keeps_the_first_samples) {
  const SpeechFolder folder;
  const SpeechSplits splits = folder.open("a.wav\tone\na.wav\ttwo\nmissing.wav\t3\n", {.features = {.bands = 20}, .limit = 2});
  EXPECT_EQ(splits.train->size(), 2) << "and what follows is not looked at";
}

TEST(SpeechData, has_rows_of_few_lengths_where_that_is_wanted) {
  Speech speech({"speech", 3, RowLengths::of_batch});
  for (const std::int64_t frames : {7, 20, 40, 100}) speech.add({frames, "a", [frames] { return List(static_cast<std::size_t>(3 * frames), 1.0f); }});
  EXPECT_EQ(speech.tensors(Ids{0})[0].spec, f32({1, 16, 3}));
  EXPECT_EQ(speech.tensors(Ids{1, 0})[0].spec, f32({2, 24, 3}));
  EXPECT_EQ(speech.tensors(Ids{0, 2})[0].spec, f32({2, 48, 3}));
  EXPECT_EQ(speech.tensors(Ids{3})[0].spec, f32({1, 100, 3})) << "no longer than the longest";
  EXPECT_EQ(speech.tensors(Ids{})[0].spec, f32({0, 16, 3})) << "of a rank that has none";
}

TEST(SpeechData, is_delivered_alike_by_any_rank_and_thread) {
  const SpeechSplits splits = synthetic_speech({.bands = 8, .frames = 60, .samples = 37, .lengths = RowLengths::of_batch});
  const auto epoch = [&](DataLoaderOptions options) {
    std::map<std::int64_t, std::pair<List, Ids>> out;  // by place
    for (options.rank = 0; options.rank < options.ranks; ++options.rank) {
      DataLoader loader(*splits.train, options);
      loader.start(1);
      while (const auto batch = loader.next()) {
        const List features = elements<float>((*batch)["features"]);
        const Ids frames = elements<std::int64_t>((*batch)["frames"]), transcripts = elements<std::int64_t>((*batch)["transcripts"]);
        const auto row = std::ssize(features) / std::max<std::int64_t>(1, batch->samples), width = splits.train->longest_text();
        for (std::int64_t i = 0; i < batch->samples; ++i) {
          const auto begin = features.begin() + i * row;
          out[batch->position(i)] = {List(begin, begin + frames[static_cast<std::size_t>(i)] * 8),
                                     Ids(transcripts.begin() + i * width, transcripts.begin() + (i + 1) * width)};
        }
      }
    }
    return out;
  };
  const DataLoaderOptions one{.batch_size = 9, .by_length = true, .workers = 0};
  DataLoaderOptions shared = one;
  shared.ranks = 2;
  shared.workers = 2;
  EXPECT_EQ(epoch(one).size(), 37u);
  EXPECT_EQ(epoch(shared), epoch(one));
}

TEST(SpeechData, names_file_and_line_of_what_is_wrong) {
  const SpeechFolder folder;
  const std::string of = "speech: " + folder.path("train.tsv").string(), wav = folder.path("b.wav").string();
  EXPECT_EQ(folder.refusal(""), of + " has no lines; accepted: WAV file and transcript in each, with a tab between");
  EXPECT_EQ(folder.refusal("a.wav\ta\na.wav a\n"), of + ", line 2: it has 1 column; accepted: 2, with a tab between: WAV file and transcript");
  EXPECT_EQ(folder.refusal("a.wav\ta\tb\n"), of + ", line 1: it has 3 columns; accepted: 2, with a tab between: WAV file and transcript");
  EXPECT_EQ(folder.refusal("\ta\n"), of + ", line 1: its WAV file is empty; accepted: a path from the folder on");
  EXPECT_EQ(folder.refusal("a.wav\t  \n"), of + ", line 1: its transcript is empty; accepted: a..z, A..Z, apostrophes and spaces");
  EXPECT_EQ(folder.refusal("a.wav\tno 3\n"), of + ", line 1: its transcript has '3' as character 4; accepted: a..z, A..Z, apostrophes and spaces");
  EXPECT_EQ(folder.refusal("a.wav\tcaf\xC3\xA9\n"),
            of + ", line 1: its transcript has '\xC3\xA9' as character 4; accepted: a..z, A..Z, apostrophes and spaces");
  EXPECT_NE(folder.refusal("a.wav\tcaf\xC3\n").find(of + ", line 1: "), std::string::npos);
  EXPECT_EQ(folder.refusal(std::string("a.wav\ta\0\n", 9)), of + ", line 1: it has a NUL byte; accepted: text");
  EXPECT_EQ(folder.refusal("b.wav\ta\n"), of + ", line 1: read: cannot open " + wav + ": No such file or directory");
  folder.write("b.wav", testing::wav_of(Ids(8000, 1), 8000));
  EXPECT_EQ(folder.refusal("b.wav\ta\n"), of + ", line 1: wav: " + wav + ": it has 8000 samples a second; expected: 16000");
  folder.write("b.wav", "");
  EXPECT_NE(folder.refusal("b.wav\ta\n").find(of + ", line 1: wav: " + wav + ": no WAV file of 0 bytes"), std::string::npos);
  folder.write("b.wav", testing::wav_of(Ids(200, 1)));
  EXPECT_EQ(folder.refusal("b.wav\ta\n"), of + ", line 1: " + wav + ": log_mel: 200 samples of sound; accepted: more than 200, half a window");
  // 101 frames are 26 steps of four.
  EXPECT_EQ(folder.open("a.wav\tabcdefghijklmnopqrstuvwxyz\n").train->size(), 1);
  EXPECT_EQ(folder.refusal("a.wav\tabcdefghijklmnopqrstuvwxyy\n"), of + ", line 1: its transcript takes 27 steps of the model (a character each, and a blank "
                                                                        "between equal ones), its sound of 101 frames gives 26; accepted: no more");
  std::filesystem::remove(folder.path("dev.tsv"));
  EXPECT_EQ(folder.refusal("a.wav\ta\n"), "read: cannot open " + folder.path("dev.tsv").string() + ": No such file or directory");
}

TEST(SpeechData, that_changes_while_it_is_read_is_refused) {
  const SpeechFolder folder;
  const SpeechSplits splits = folder.open("a.wav\ta\n");
  folder.write("a.wav", testing::wav_of(Ids(8000, 1)));
  EXPECT_EQ(message_of<DataError>([&] { splits.train->tensors(Ids{0}); }),
            "read: " + folder.path("a.wav").string() +
                " has changed since it was opened: it had 32044 bytes, and has 16044; accepted: data that stay as they are while they are in use");
  std::filesystem::remove(folder.path("a.wav"));
  EXPECT_NE(message_of<DataError>([&] { splits.train->tensors(Ids{0}); }).find("read: cannot open"), std::string::npos);
}

/// Some of its first bytes are others, or it ends early.
std::string damaged_in_its_head(std::string text, PhiloxStream& draws) {
  const auto below = [&](std::size_t n) { return draws.below(static_cast<std::uint32_t>(n)); };
  const char wild[] = {'\t', '\n', '\0', '\r', 'a', static_cast<char>(draws.below(256))};
  for (std::uint32_t n = draws.below(4); n > 0; --n) text[below(std::min<std::size_t>(100, text.size()))] = wild[below(std::size(wild))];
  return draws.below(3) ? text : text.substr(0, below(text.size()));
}

TEST(SpeechData, computes_features_once_where_they_are_few) {
  const auto computed = [](std::int64_t utterances) {  // in two epochs
    Speech speech({"speech", 64});
    int count = 0;
    for (std::int64_t i = 0; i < utterances; ++i) speech.add({1 << 14, "a", [&count] { return ++count, List(64 << 14, 0.5f); }});
    for (int epoch = 0; epoch < 2; ++epoch) speech.tensors(Ids{0, 1});
    return count;
  };
  EXPECT_EQ(computed(128), 2) << "of 4 MiB each";
  EXPECT_EQ(computed(129), 4);
}

TEST(SpeechData, that_is_damaged_is_read_or_refused) {
  const SpeechFolder folder;
  const std::string lines = "a.wav\tone two\na.wav\tit's\na.wav\tthree\n", sound = testing::wav_of(Ids(2000, 100));
  PhiloxStream draws(1, stream_hash("damaged speech"));
  int refused = 0, read = 0;
  for (int i = 0; i < 600; ++i) {
    const bool of_lines = draws.below(2) == 0;
    folder.write("a.wav", of_lines ? sound : damaged_in_its_head(sound, draws));
    try {
      const SpeechSplits splits = folder.open(of_lines ? damaged_in_its_head(lines, draws) : lines, {.features = {.bands = 20}});
      for (std::int64_t s = 0; s < splits.train->size(); ++s) {
        const auto batch = splits.train->tensors(Ids{s});
        for (const float x : elements<float>(batch[0])) ASSERT_TRUE(std::isfinite(x));
        for (const std::int64_t c : elements<std::int64_t>(batch[2])) ASSERT_TRUE(c == -1 || (c > 0 && c < kCharacterClasses));
      }
      ++read;
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(read, 100);
}

TEST(SyntheticSpeech, tells_its_characters_by_its_bands) {
  const SpeechSplits splits = synthetic_speech({.bands = 58, .frames = 96, .stride = 4, .samples = 20});
  ASSERT_EQ(splits.train->size(), 20);
  EXPECT_EQ(splits.train->length(0), 96) << "the first is the longest";
  std::set<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 20; ++i) {
    const std::int64_t frames = splits.train->length(i);
    lengths.insert(frames);
    EXPECT_GE(frames, 48);
    EXPECT_LE(frames, 96);
    EXPECT_EQ(spelled(splits.train->text(i)), splits.train->text(i));
    EXPECT_LE(least_classes(splits.train->text(i)), frames / 4);
  }
  EXPECT_GT(lengths.size(), 8u);
  const List features = elements<float>(splits.train->tensors(Ids{0})[0]);
  int found = 0;
  for (std::size_t c = 0; c < splits.train->text(0).size(); ++c) {
    const auto frame = features.begin() + static_cast<std::ptrdiff_t>((8 * c + 3) * 58);
    found += (std::max_element(frame, frame + 58) - frame) / 2 == class_of(splits.train->text(0)[c]);
  }
  EXPECT_GE(found, 10) << "of 12: two bands a character, normalised";
  EXPECT_EQ(synthetic_speech({.samples = 20, .limit = 3}).validation->size(), 3);
  EXPECT_NE(synthetic_speech({.samples = 2, .seed = 2}).train->text(0), synthetic_speech({.samples = 2}).train->text(0));
  EXPECT_EQ(message_of<UsageError>([] { synthetic_speech({.frames = 7}); }),
            "synthetic: utterances of 7 frames; accepted: 8 or more, two for each step of the model");
}

}  // namespace
}  // namespace gemel::datasets
