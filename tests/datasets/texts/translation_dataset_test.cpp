// Translations: their files whole and damaged, rows and labels, and what is made up.
#include "datasets/texts/translation_dataset.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "datasets/texts/open_tokenizer.h"
#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "tests/support/datasets/host_elements.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::datasets {
namespace {

using testing::elements;
using testing::message_of;
using Ids = std::vector<std::int64_t>;

/// [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, a 4, b 5, c 6, ##d 7.
class TranslationsFolder {
 public:
  TranslationsFolder() { testing::write_text(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\n##d\n"); }
  TranslationSplits open(std::string_view train, std::string_view dev = "a\tb\n", TranslationOptions options = {}) const {
    testing::write_text(folder_ / "train.tsv", train);
    testing::write_text(folder_ / "dev.tsv", dev);
    options.folder = folder_.path();
    return open_translations(*tokenizer(), options);
  }
  std::unique_ptr<Tokenizer> tokenizer() const { return open_tokenizer(folder_ / "vocab.txt"); }
  std::filesystem::path path() const { return folder_.path(); }

 private:
  testing::TemporaryFolder folder_;
};

TEST(Translation, is_a_source_a_target_without_its_end_and_the_tokens_that_follow) {
  const TranslationsFolder folder;
  const TranslationSplits splits = folder.open("a b\tc\r\nA\tad b x\n", "\t\nc\tc\n");
  EXPECT_EQ(splits.train->name(), "translation");
  EXPECT_EQ(splits.train->size(), 2);
  EXPECT_EQ(splits.train->classes(), 8);
  const auto tensors = splits.train->tensors(Ids{0, 1});
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "source");
  EXPECT_EQ(tensors[0].spec, i64({2, 4}));
  EXPECT_EQ(elements<std::int64_t>(tensors[0]), (Ids{2, 4, 5, 3, 2, 4, 3, 0}));
  EXPECT_EQ(tensors[1].name, "target");
  EXPECT_EQ(tensors[1].spec, i64({2, 5}));
  EXPECT_EQ(elements<std::int64_t>(tensors[1]), (Ids{2, 6, 0, 0, 0, 2, 4, 7, 5, 1}));
  EXPECT_EQ(tensors[2].name, "labels");
  EXPECT_EQ(tensors[2].spec, i64({2, 5}));
  EXPECT_EQ(elements<std::int64_t>(tensors[2]), (Ids{6, 3, -1, -1, -1, 4, 7, 5, 1, 3}));
  EXPECT_EQ(splits.train->length(0), 4);
  EXPECT_EQ(splits.train->length(1), 5);
  EXPECT_EQ(elements<std::int64_t>(splits.validation->tensors(Ids{0})[0]), (Ids{2, 3, 0})) << "a text may be empty";
  EXPECT_EQ(elements<std::int64_t>(splits.validation->tensors(Ids{0})[2]), (Ids{3, -1}));
}

TEST(Translation, is_cut_behind_to_the_tokens_that_are_wanted) {
  const TranslationsFolder folder;
  const auto tensors = folder.open("a b c a b c\tc b a c b a\n", "a\tb\n", {.max_length = 4}).train->tensors(Ids{0});
  EXPECT_EQ(elements<std::int64_t>(tensors[0]), (Ids{2, 4, 5, 3}));
  EXPECT_EQ(elements<std::int64_t>(tensors[1]), (Ids{2, 6, 5, 4}));
  EXPECT_EQ(elements<std::int64_t>(tensors[2]), (Ids{6, 5, 4, 3}));
}

TEST(Translation, has_rows_of_few_lengths_where_batches_are_of_like_length) {
  const TranslationsFolder folder;
  std::string lines;
  for (int words = 1; words <= 40; ++words) {
    for (int w = 0; w < words; ++w) lines += "a ";
    lines += "\tb\n";
  }
  const auto width = [&](RowLengths lengths, const Ids& samples, std::size_t tensor) {
    return folder.open(lines, "a\tb\n", {.lengths = lengths}).train->tensors(samples)[tensor].spec.shape[1];
  };
  EXPECT_EQ(width(RowLengths::of_all, {0}, 0), 42);
  EXPECT_EQ(width(RowLengths::of_batch, {0, 13}, 0), 16) << "14 words between two ends";
  EXPECT_EQ(width(RowLengths::of_batch, {0, 14}, 0), 24);
  EXPECT_EQ(width(RowLengths::of_batch, {39}, 0), 42) << "no longer than the longest";
  EXPECT_EQ(width(RowLengths::of_batch, {39}, 2), 2);
}

TEST(Translation, keeps_the_first_samples) {
  const TranslationsFolder folder;
  const TranslationSplits few = folder.open("a\ta\nb\tb\nc a b\tc\n", "a\tb\na\tb\na\tb\n", {.limit = 2});
  EXPECT_EQ(few.train->size(), 2);
  EXPECT_EQ(few.validation->size(), 2);
  EXPECT_EQ(few.train->longest_source(), 3);
}

TEST(Translation, of_byte_pairs_is_between_ends_of_text) {
  const TranslationsFolder folder;
  testing::write_text(folder.path() / "vocab.json", R"({"<|endoftext|>": 0, "a": 1, "b": 2, "ab": 3})");
  testing::write_text(folder.path() / "merges.txt", "a b\n");
  std::filesystem::remove(folder.path() / "vocab.txt");
  testing::write_text(folder.path() / "train.tsv", "aba\tb\n");
  testing::write_text(folder.path() / "dev.tsv", "b\tab\n");
  const auto tokenizer = open_tokenizer(folder.path());
  const auto tensors = open_translations(*tokenizer, {.folder = folder.path()}).train->tensors(Ids{0});
  EXPECT_EQ(elements<std::int64_t>(tensors[0]), (Ids{0, 3, 1, 0}));
  EXPECT_EQ(elements<std::int64_t>(tensors[1]), (Ids{0, 2}));
  EXPECT_EQ(elements<std::int64_t>(tensors[2]), (Ids{2, 0}));
  testing::write_text(folder.path() / "vocab.json", R"({"b": 0, "a": 1, "ab": 2})");
  EXPECT_EQ(message_of<DataError>([&] { open_translations(*open_tokenizer(folder.path()), {.folder = folder.path()}); }),
            "translation: " + (folder.path() / "train.tsv").string() +
                ", line 1: vocabulary: it has no <|endoftext|>; accepted: one that has, to begin and end what a model writes");
}

TEST(Translation, is_made_text_again) {
  const TranslationsFolder folder;
  const auto tokenizer = folder.tokenizer();
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("ad  B x\tcdd")), "ad b [UNK] cdd");
  EXPECT_EQ(tokenizer->decode({}), "");
  EXPECT_EQ(message_of<UsageError>([&] { tokenizer->decode({8}); }), "vocabulary: there is no token 8; accepted: 0 to 7");
}

TEST(Translation, names_file_and_line_of_what_is_wrong) {
  const TranslationsFolder folder;
  const auto refused = [&](std::string_view train) { return message_of<DataError>([&] { folder.open(train); }); };
  const std::string of = "translation: " + (folder.path() / "train.tsv").string();
  EXPECT_EQ(refused(""), of + " has no lines; accepted: source and target in each, with a tab between");
  EXPECT_EQ(refused("a\tb\na b\n"), of + ", line 2: it has 1 column; accepted: 2, with a tab between: source and target");
  EXPECT_EQ(refused("a\tb\n\na\tb\n"), of + ", line 2: it has 1 column; accepted: 2, with a tab between: source and target");
  EXPECT_EQ(refused("a\tb\tc\n"), of + ", line 1: it has 3 columns; accepted: 2, with a tab between: source and target");
  EXPECT_EQ(refused(std::string("a\tb\0\n", 5)), of + ", line 1: it has a NUL byte; accepted: text");
  EXPECT_EQ(refused("a\tb\na\tb\xff\n"), of + ", line 2: text: byte 1 (0xff) is not UTF-8");
  EXPECT_EQ(message_of<DataError>([&] { folder.open("a\tb\n", ""); }),
            "translation: " + (folder.path() / "dev.tsv").string() + " has no lines; accepted: source and target in each, with a tab between");
  std::filesystem::remove(folder.path() / "dev.tsv");
  EXPECT_EQ(message_of<DataError>([&] { open_translations(*folder.tokenizer(), {.folder = folder.path()}); }),
            "read: cannot open " + (folder.path() / "dev.tsv").string() + ": No such file or directory");
}

TEST(Translation, that_is_damaged_is_read_or_refused) {
  const TranslationsFolder folder;
  std::string whole;
  for (int i = 0; i < 40; ++i) whole += fmt::format("a b{}\tc ad\n", i % 3 ? " c" : "");
  PhiloxStream draws(1, stream_hash("damaged translations"));
  const auto below = [&](std::size_t n) { return draws.below(static_cast<std::uint32_t>(n)); };
  int refused = 0, read = 0;
  for (int i = 0; i < 400; ++i) {
    std::string text = whole.substr(0, draws.below(2) ? whole.size() : 12 + below(whole.size() - 12));
    const char wild[] = {'\t', '\n', '\0', '\r', 'a', ' ', static_cast<char>(draws.below(256))};
    for (std::uint32_t n = draws.below(3); n > 0; --n) text[below(text.size())] = wild[below(std::size(wild))];
    try {
      const TranslationSplits splits = folder.open(text);
      Ids all;
      for (std::int64_t s = 0; s < splits.train->size(); ++s) all.push_back(s);
      for (const HostTensor& t : splits.train->tensors(all))
        for (const std::int64_t id : elements<std::int64_t>(t)) ASSERT_TRUE(id >= (t.name == "labels" ? -1 : 0) && id < 8);
      ++read;
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 80);
  EXPECT_GT(read, 80);
}

TEST(SyntheticTranslations, have_a_target_that_is_the_source_behind_one_token) {
  const TranslationSplits splits = synthetic_translations({.vocabulary = 50, .padding = 1, .ends = {4, 0}, .length = 10, .samples = 30});
  EXPECT_EQ(splits.train->size(), 30);
  EXPECT_EQ(splits.validation->size(), 30);
  EXPECT_EQ(splits.train->longest_source(), 10);
  EXPECT_EQ(splits.train->longest_target(), 10);
  for (std::int64_t i = 0; i < 30; ++i) {
    const auto tensors = splits.train->tensors(Ids{i});
    Ids source = elements<std::int64_t>(tensors[0]), labels = elements<std::int64_t>(tensors[2]);
    source.resize(static_cast<std::size_t>(splits.train->length(i)));
    std::erase(labels, -1);
    EXPECT_EQ(source.front(), 4);
    EXPECT_EQ(source.back(), 0);
    EXPECT_TRUE(std::equal(source.begin() + 1, source.end(), labels.begin() + 1, labels.end())) << i;
    EXPECT_EQ(std::ranges::count(source, 1) + std::ranges::count(source, 0) + std::ranges::count(source, 4), 2) << "ends and padding are no words";
  }
  EXPECT_NE(elements<std::int64_t>(splits.train->tensors(Ids{0})[0]), elements<std::int64_t>(splits.validation->tensors(Ids{0})[0]));
  EXPECT_EQ(message_of<UsageError>([] { synthetic_translations({.vocabulary = 3}); }),
            "synthetic: texts over 3 tokens; accepted: one or more besides ends and padding");
  EXPECT_EQ(message_of<UsageError>([] { synthetic_translations({.length = 1}); }), "synthetic: texts of 1 token; accepted: 2 or more");
}

}  // namespace
}  // namespace gemel::datasets
