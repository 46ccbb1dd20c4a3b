// Readers take a time that grows with the length of what they read, not with its square. Where operations can be counted they are; else time is told of 1 and 4
// MB (a sixteenth of that without --full), the processor's for this thread, so that it matters less what else runs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "datasets/formats/lines.h"
#include "datasets/texts/byte_pair_encoding.h"
#include "datasets/texts/open_tokenizer.h"
#include "datasets/texts/wordpiece.h"
#include "engine/base/error.h"
#include "engine/base/text/edit_distance.h"
#include "engine/files/graph_json.h"
#include "engine/files/tensorboard.h"
#include "engine/files/weights.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/state/state_dict.h"
#include "frontends/train/record/run_log.h"
#include "frontends/train/tasks/bleu.h"
#include "frontends/train/tasks/word_error_rate.h"
#include "tests/support/device/test_device.h"
#include "tests/support/faults/fuzz_targets.h"
#include "tests/support/formats/raw_safetensors.h"
#include "tests/support/formats/tar_archive.h"
#include "tests/support/formats/tokenizer_files.h"
#include "tests/support/formats/wav_bytes.h"
#include "tests/support/temporary_folder.h"

namespace gemel {
namespace {

using testing::FuzzTarget, testing::TemporaryFolder, testing::write_text;

double seconds_of_this_thread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Text of about so many bytes.
using Make = std::function<std::string(std::size_t bytes)>;
using Read = std::function<void(const std::string& text)>;

double seconds_for(const Read& read, const std::string& text) {
  const double begin = seconds_of_this_thread();
  try {
    read(text);
  } catch (const Error&) {  // a refusal takes its time, too
  }
  return seconds_of_this_thread() - begin;
}

/// At four times the length at most six times as long: the best of up to five of each, in turn.
void expect_linear(const char* what, const Make& make, const Read& read) {
  constexpr double kMost = 6, kNoise = 0.05;  // seconds, of a clock and of caches: a quadratic reader takes more
  const std::size_t bytes = testing::is_full_run() ? std::size_t{1} << 20 : std::size_t{1} << 16;
  const std::string small = make(bytes), large = make(4 * bytes);
  ASSERT_NEAR(static_cast<double>(large.size()) / static_cast<double>(small.size()), 4, 0.5) << what;
  double best_small = std::numeric_limits<double>::infinity(), best_large = best_small;
  for (int i = 0; i < 5; ++i) {
    best_small = std::min(best_small, seconds_for(read, small));
    best_large = std::min(best_large, seconds_for(read, large));
    if (best_large <= kMost * best_small + kNoise) return;
  }
  ADD_FAILURE() << what << ": " << best_small << " s, and " << best_large << " s of four times the length";
}

Make repeated(const std::string& part, const std::string& before = "", const std::string& behind = "") {
  return [=](std::size_t bytes) {
    std::string out = before;
    while (out.size() < bytes) out += part;
    return out + behind;
  };
}

/// Parts with a number of their own each.
Make numbered(const std::function<std::string(std::size_t i)>& part, const std::string& before = "", const std::string& behind = "") {
  return [=](std::size_t bytes) {
    std::string out = before;
    for (std::size_t i = 0; out.size() < bytes; ++i) out += part(i);
    return out + behind;
  };
}

/// A word of letters in an order without a period.
std::string letters(std::size_t bytes, std::size_t kinds) {
  std::string out(bytes, 'a');
  std::uint64_t state = 1;
  for (char& c : out) {
    state = state * 6364136223846793005 + 1442695040888963407;
    c = static_cast<char>('a' + (state >> 33) % kinds);
  }
  return out;
}

const std::filesystem::path kTokenizers = std::filesystem::path(GEMEL_SOURCE_DIR) / "tests/data/tokenizers";

TEST(LinearTime, byte_pairs_of_any_text) {
  const datasets::BytePairs pairs(kTokenizers / "vocab.json", kTokenizers / "merges.txt");
  const Read encode = [&](const std::string& text) { pairs.encode(text); };
  expect_linear("one letter", repeated("x"), encode);
  expect_linear(
      "one word", [](std::size_t n) { return letters(n, 26); }, encode);
  expect_linear(
      "few letters", [](std::size_t n) { return letters(n, 2); }, encode);
  expect_linear("ideographs", repeated("\xe4\xb8\xad"), encode);
  expect_linear("digits", repeated("7"), encode);
  expect_linear("punctuation", repeated("!?"), encode);
  expect_linear("spaces", repeated(" "), encode);
  expect_linear("lines", repeated("\n "), encode);
  expect_linear("words", repeated("the kernels "), encode);
  expect_linear("special tokens", repeated("<|endoftext|>"), encode);
  expect_linear("begun special tokens", repeated("<|endoftext"), encode);
  expect_linear("apostrophes", repeated("'s"), encode);
}

TEST(LinearTime, word_pieces_of_any_text) {
  const datasets::WordPiece pieces(kTokenizers / "cased.txt");
  const Read encode = [&](const std::string& text) { pieces.encode(text); };
  expect_linear(
      "one word", [](std::size_t n) { return letters(n, 26); }, encode);
  expect_linear("words of a hundred letters", repeated(std::string(100, 'x') + " "), encode);
  expect_linear("words", repeated("the kernels "), encode);
  expect_linear("marks in two orders", repeated("\xcc\x81\xcc\xa3", "a"), encode);
  expect_linear("ideographs", repeated("\xe4\xb8\xad"), encode);
  expect_linear("begun special tokens", repeated("[MASK"), encode);
  expect_linear("brackets", repeated("["), encode);
}

TEST(LinearTime, vocabularies) {
  const TemporaryFolder folder;
  const auto open = [&](const char* name) {
    return [&folder, name](const std::string& text) {
      write_text(folder / name, text);
      datasets::open_tokenizer(name == std::string("merges.txt") || name == std::string("vocab.json") ? folder.path() : folder / name);
    };
  };
  const std::string special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n";
  expect_linear("tokens", numbered([](std::size_t i) { return fmt::format("t{}\n", i); }, special), open("list.txt"));
  expect_linear("one token, again and again", repeated("a\n", special), open("list.txt"));
  expect_linear("one long token", repeated("a", special), open("list.txt"));
  expect_linear("blank lines", repeated("\n", special, "a"), open("list.txt"));
  expect_linear("blank lines at the end", repeated(" \r\n", special), open("list.txt"));
  expect_linear("old ends of lines", repeated("a\r", "[PAD]\r[UNK]\r[CLS]\r[SEP]\r"), open("list.txt"));
  write_text(folder / "merges.txt", "#version: 0.2\n");
  expect_linear("vocab.json", numbered([](std::size_t i) { return fmt::format("{}\"t{}\":{}", i ? "," : "", i, i); }, "{", "}"), open("vocab.json"));
  write_text(folder / "vocab.json", R"({"a":0,"b":1,"ab":2})");
  expect_linear("merges", repeated("a b\n"), open("merges.txt"));
  expect_linear("no merge", repeated("a"), open("merges.txt"));
  const auto described = [](const char* member, const std::function<std::string(std::size_t)>& part) {
    nlohmann::json json = testing::byte_pairs_json({{"a", 0}, {"b", 1}, {"ab", 2}, {"<|endoftext|>", 3}}, nlohmann::json::array());
    json[nlohmann::json::json_pointer(member)] = "HERE";
    const std::string text = json.dump(), place = "\"HERE\"";
    const std::size_t at = text.find(place);
    const bool is_object = member == std::string("/model/vocab");
    return numbered(part, text.substr(0, at) + (is_object ? "{" : "["), (is_object ? "}" : "]") + text.substr(at + place.size()));
  };
  expect_linear(
      "tokenizer.json's tokens",
      described("/model/vocab", [](std::size_t i) { return fmt::format("{}\"{}\":{}", i ? "," : "", i ? fmt::format("t{}", i) : "<|endoftext|>", i); }),
      open("tokenizer.json"));
  expect_linear("tokenizer.json's merges", described("/model/merges", [](std::size_t i) { return std::string(i ? "," : "") + R"(["a","b"])"; }),
                open("tokenizer.json"));
  expect_linear("tokenizer.json's added tokens",
                described("/added_tokens",
                          [](std::size_t i) {
                            return (i ? "," : "") + testing::added_token(static_cast<int>(3 + i), i ? fmt::format("<{}>", i) : "<|endoftext|>").dump();
                          }),
                open("tokenizer.json"));
}

/// Each reader of the fuzz tests that takes its input whole.
Read target(const char* name) {
  return [made = testing::fuzz_target(name)](const std::string& text) { made.read(text); };
}

TEST(LinearTime, files_of_lines) {
  expect_linear("samples", repeated("the film is good .\t1\n", "sentence\tlabel\n"), target("tsv"));
  expect_linear("one long sample", repeated("good ", "sentence\tlabel\n", "\t1\n"), target("tsv"));
  expect_linear("many columns", repeated("\t", "sentence\tlabel\n"), target("tsv"));
  expect_linear("blank lines", repeated("\n", "sentence\tlabel\ngood\t1\n"), target("tsv"));
  expect_linear("old ends of lines", repeated("good\t1\r", "sentence\tlabel\r"), target("tsv"));
  expect_linear("pairs", repeated("the film\tfilm is good\n"), target("translations"));
  expect_linear("ratings", numbered([](std::size_t i) { return fmt::format("u{}\ti{}\t5\t{}\n", i % 1000, i % 997, i); }), target("ratings"));
  expect_linear("ratings of a user each", numbered([](std::size_t i) { return fmt::format("u{}\ti{}\n", i, i); }), target("ratings"));
}

/// A safetensors header that stands before no data.
std::string headed(const std::string& header) {
  const auto length = static_cast<std::uint64_t>(header.size());
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header;
}

class OneLayer : public nn::Module {
 public:
  OneLayer() { add<nn::Linear>("fc", 2, 2); }
};

TEST(LinearTime, weights) {
  const auto entry = [](const char* type) {
    return [type](std::size_t i) { return fmt::format(R"(,"module.t{}":{{"dtype":"{}","shape":[0],"data_offsets":[0,0]}})", i, type); };
  };
  const auto of_header = [](const Make& make) { return [make](std::size_t bytes) { return headed(make(bytes)); }; };
  const std::string begin = R"({"__metadata__":{"a":"b"})";
  expect_linear("tensors", of_header(numbered(entry("F32"), begin, "}")), target("safetensors"));
  expect_linear("metadata", of_header(numbered([](std::size_t i) { return fmt::format(R"({}"k{}":"v")", i ? "," : "", i); }, R"({"__metadata__":{)", "}}")),
                target("safetensors"));
  expect_linear("a long name", of_header(repeated("n", R"({"__metadata__":{"a":"b"},")", R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})")),
                target("safetensors"));
  expect_linear("spaces", of_header(repeated(" ", R"({"__metadata__":{"a":"b"})", "}")), target("safetensors"));
  expect_linear("an open array", of_header(repeated("[", R"({"w":)")), target("safetensors"));
  const TemporaryFolder folder;
  const auto session = Session::reference();
  for (const char* type : {"F32", "U8"})
    expect_linear("names that do not fit", of_header(numbered(entry(type), begin, "}")), [&](const std::string& text) {
      write_text(folder / "w", text);
      OneLayer net;
      nn::load_weights(net, *session, folder / "w");
    });
  expect_linear("wrappers", of_header(repeated("module.", begin + ",\"", R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})")), target("weights"));
  write_text(folder / "model.safetensors.shard", testing::raw_safetensors({}));
  expect_linear("an index",
                numbered([](std::size_t i) { return fmt::format(R"({}"t{}":"model.safetensors.shard")", i ? "," : "", i); }, R"({"weight_map":{)", "}}"),
                [&](const std::string& text) {
                  write_text(folder / "index.json", text);
                  WeightsHeader{folder / "index.json"};
                });
}

TEST(LinearTime, archives_and_sound) {
  expect_linear("members", numbered([](std::size_t i) { return testing::tar_member(std::to_string(i), "x"); }), target("tar"));
  expect_linear("names of members", repeated(testing::tar_member("l", "name", 'L')), target("tar"));
  expect_linear("attributes", repeated(testing::tar_member("x", testing::pax_record("path", std::string(400, 'p')), 'x')), target("tar"));
  const auto as_riff = [](const Make& make) { return [make](std::size_t bytes) { return testing::riff(make(bytes)); }; };
  expect_linear("chunks", as_riff(repeated(testing::chunk("junk", ""), testing::format({}))), target("wav"));
  expect_linear("sound", as_riff([](std::size_t n) { return testing::format({}) + testing::chunk("data", std::string(n, 'x')); }), target("wav"));
}

TEST(LinearTime, transcripts_and_their_scores) {
  const auto with_one_word_missing = [](const std::string& text) {
    std::string out = text;
    return out.erase(out.size() / 3, out.find(' ', out.size() / 3) - out.size() / 3);
  };
  const Make words = numbered([](std::size_t i) { return fmt::format("w{} ", i % 5000); });
  expect_linear("word errors", words, [&](const std::string& text) { train::word_errors(text, with_one_word_missing(text)); });
  expect_linear("letters", words, [&](const std::string& text) { edit_distance(text, with_one_word_missing(text)); });
  expect_linear("runs of words", words, [&](const std::string& text) { train::bleu_counts(text, with_one_word_missing(text)); });
  expect_linear("greedy decoding", repeated("aab"), [](const std::string& text) { train::greedy_ctc(std::vector<std::int64_t>(text.begin(), text.end())); });
}

/// Of which comparisons are counted.
struct Counted {
  int value;
  static inline std::int64_t comparisons = 0;
  bool operator==(const Counted& other) const {
    ++comparisons;
    return value == other.value;
  }
};

TEST(LinearTime, edit_distances_compare_as_often_as_texts_are_long_where_few_elements_differ) {
  const auto comparisons = [](std::size_t n, std::size_t errors) {
    std::vector<Counted> a;
    for (const char c : letters(n, 26)) a.push_back({c});
    std::vector<Counted> b = a;
    for (std::size_t e = 0; e < errors; ++e) b.erase(b.begin() + static_cast<std::ptrdiff_t>((e + 1) * n / (errors + 2)));
    Counted::comparisons = 0;
    EXPECT_EQ(edit_distance(std::span<const Counted>(a), std::span<const Counted>(b)), errors);
    return Counted::comparisons;
  };
  for (const std::size_t errors : {0, 1, 2, 7, 20})
    EXPECT_LE(static_cast<double>(comparisons(40'000, errors)), 4.5 * static_cast<double>(comparisons(10'000, errors))) << errors;
  // Of texts that have nothing in common it is their product and a half at most.
  const std::vector<Counted> a(500, Counted{1}), b(800, Counted{2});
  Counted::comparisons = 0;
  EXPECT_EQ(edit_distance(std::span<const Counted>(a), std::span<const Counted>(b)), 800u);
  EXPECT_LE(Counted::comparisons, 3 * 500 * 800 / 2 + 1000);
}

TEST(LinearTime, records_of_a_run_that_is_gone_on_with) {
  const TemporaryFolder folder;
  const Read go_on = [&](const std::string& text) {
    write_text(folder / "run.jsonl", text);
    train::RunLog(folder.path().string()).go_on_after(1000, 1);
  };
  const std::string start = "{\"event\":\"start\"}\n";
  expect_linear("steps", numbered([](std::size_t i) { return fmt::format("{{\"event\":\"step\",\"step\":{},\"loss\":0.5}}\n", i); }, start), go_on);
  expect_linear("runs", repeated(start + "{\"event\":\"end\",\"status\":\"ok\"}\n"), go_on);
  expect_linear("runs that were cut short", repeated(start + "{\"event\":\"step\",\"step\":1}\n"), go_on);
  expect_linear("one long line", repeated("x", "{\"event\":\"", "\"}\n"), go_on);
  expect_linear("a torn line", repeated("[", start), go_on);
  TensorBoardWriter writer(folder.path());
  expect_linear("a tag", repeated("t"), [&](const std::string& text) { writer.scalar(text, 1, 1); });
  expect_linear("points", repeated("p"), [&](const std::string& text) {
    for (std::size_t i = 0; i < text.size(); i += 256) writer.scalar("loss", 1, static_cast<std::int64_t>(i));
  });
}

TEST(LinearTime, other_files_of_json) {
  for (const char* name : {"configuration", "tuning", "graph", "kernels", "trace"}) {
    const Read read = target(name);
    expect_linear(name, numbered([](std::size_t i) { return fmt::format("{}\"k{}\":1", i ? "," : "", i); }, "{", "}"), read);
    expect_linear(name, repeated("[", "{\"a\":"), read);
    expect_linear(name, repeated("[],", "[", "[]]"), read);
    expect_linear(name, repeated("x", "{\"a\":\"", "\"}"), read);
    expect_linear(name, repeated("line\n"), read);
  }
}

}  // namespace
}  // namespace gemel
