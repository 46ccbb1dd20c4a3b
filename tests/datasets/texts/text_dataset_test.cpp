// Texts with labels: batches of them, GLUE's files whole and damaged, and batches of like length.
#include "datasets/texts/text_dataset.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "datasets/loading/data_loader.h"
#include "datasets/texts/glue.h"
#include "datasets/texts/wordpiece.h"
#include "engine/base/error.h"
#include "tests/support/datasets/host_elements.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::datasets {
namespace {

using testing::elements;
using testing::message_of;
using Ids = std::vector<std::int64_t>;

/// A vocabulary, and the two files of a task.
class Files {
 public:
  Files() { testing::write_text(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\nd\n"); }
  WordPiece tokenizer() const { return WordPiece(folder_ / "vocab.txt"); }
  std::filesystem::path folder() const { return folder_.path(); }
  TextSplits open(std::string_view task, std::string_view train, std::string_view dev, GlueOptions options = {}) const {
    testing::write_text(folder_ / "train.tsv", train);
    testing::write_text(folder_ / "dev.tsv", dev);
    options.folder = folder();
    return open_glue(task, tokenizer(), options);
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST(Glue, reads_sst2_cola_and_mrpc) {
  const Files files;
  const TextSplits sst2 = files.open("sst2", "sentence\tlabel\na b\t1\nc\t0\r\nd d d\t1", "sentence\tlabel\nb\t0\n");
  ASSERT_EQ(sst2.train->size(), 3);
  EXPECT_EQ(sst2.validation->size(), 1);
  EXPECT_EQ(sst2.train->classes(), 2);
  const std::int64_t all[] = {0, 1, 2};
  const auto tensors = sst2.train->tensors(all);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].spec, i64({3, 5}));
  EXPECT_EQ(elements<std::int64_t>(tensors[0]), (Ids{2, 4, 5, 3, 0, 2, 6, 3, 0, 0, 2, 7, 7, 7, 3}));
  EXPECT_EQ(elements<std::int64_t>(tensors[1]), Ids(15, 0));
  EXPECT_EQ(elements<std::int64_t>(tensors[2]), (Ids{1, 0, 1}));
  const TextSplits cola = files.open("cola", "x1\t0\t*\ta b\nx2\t1\t\tc\n", "x3\t1\t\td\n");
  EXPECT_EQ(cola.train->label(0), 0);
  EXPECT_EQ(cola.train->label(1), 1);
  EXPECT_EQ(cola.train->length(0), 4);
  const std::string header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n";
  const TextSplits mrpc = files.open("mrpc", header + "1\t7\t8\ta b\tc\n", header + "0\t7\t8\ta\tb\n");
  const std::int64_t first[] = {0};
  EXPECT_EQ(elements<std::int64_t>(mrpc.train->tensors(first)[0]), (Ids{2, 4, 5, 3, 6, 3}));
  EXPECT_EQ(elements<std::int64_t>(mrpc.train->tensors(first)[1]), (Ids{0, 0, 0, 0, 1, 1}));
}

TEST(Glue, blank_lines_at_the_end_byte_order_marks_and_the_line_ends_of_old_macs_are_no_part_of_the_texts) {
  const Files files;
  const std::string dev = "sentence\tlabel\nb\t0\n";
  for (const char* train : {"sentence\tlabel\na b\t1\nc\t0\n\n\n", "\xef\xbb\xbfsentence\tlabel\r\na b\t1\r\nc\t0\r\n\r\n  \r\n",
                            "sentence\tlabel\ra b\t1\rc\t0\r", "sentence\tlabel\ra b\t1\rc\t0\r\r", "sentence\tlabel\na b\t1\nc\t0\n   "}) {
    const TextSplits splits = files.open("sst2", train, dev);
    ASSERT_EQ(splits.train->size(), 2) << train;
    const std::int64_t all[] = {0, 1};
    EXPECT_EQ(elements<std::int64_t>(splits.train->tensors(all)[0]), (Ids{2, 4, 5, 3, 2, 6, 3, 0})) << train;
  }
  // A carriage return within a line of a file with line feeds is white space of the text.
  EXPECT_EQ(files.open("sst2", "sentence\tlabel\na\rb\t1\n", dev).train->length(0), 4);
  // The first sample of a task without a header keeps its columns behind a mark.
  EXPECT_EQ(files.open("cola", "\xef\xbb\xbfx1\t0\t*\ta b\n", "x3\t1\t\td\n").train->label(0), 0);
}

TEST(Glue, cuts_long_texts_and_keeps_the_first_samples) {
  const Files files;
  const TextSplits splits =
      files.open("sst2", "sentence\tlabel\na b c d a b c d\t1\nc\t0\nd\tnonsense\n", "sentence\tlabel\nb\t0\n", {.max_length = 5, .limit = 2});
  EXPECT_EQ(splits.train->size(), 2) << "what is beyond the limit is not looked at";
  EXPECT_EQ(splits.train->longest(), 5);
}

TEST(Glue, names_file_and_line_of_what_is_wrong) {
  const Files files;
  const auto refused = [&](std::string_view train, std::string_view task = "sst2") {
    return message_of<DataError>([&] { files.open(task, train, "sentence\tlabel\nb\t0\n"); });
  };
  const std::string at = "sst2: " + (files.folder() / "train.tsv").string();
  EXPECT_EQ(refused("sentence\tlabel\na\t1\nb 1\n"), at + ", line 3: it has 1 column; accepted: 2, with tabs between");
  EXPECT_EQ(refused("a\t1\nb\t0\n"), at + ", line 1: it is a sample; accepted: the names of the columns in the first line");
  EXPECT_EQ(refused("sentence\tlabel\na\t2\n"), at + ", line 2: its label is '2'; accepted: 0 or 1");
  EXPECT_EQ(refused("sentence\tlabel\na\t\n"), at + ", line 2: its label is ''; accepted: 0 or 1");
  EXPECT_EQ(refused(std::string("sentence\tlabel\na") + '\0' + "\t1\n"), at + ", line 2: it has a NUL byte; accepted: text");
  EXPECT_EQ(refused("sentence\tlabel\nab\xff\t1\n"), at + ", line 2: text: byte 2 (0xff) is not UTF-8");
  EXPECT_EQ(refused("sentence\tlabel\n\na\t1\n"), at + ", line 2: it has 1 column; accepted: 2, with tabs between");
  EXPECT_EQ(refused("sentence\tlabel\n\n"), at + " has no samples");
  EXPECT_EQ(refused("sentence\tlabel\n"), at + " has no samples");
  EXPECT_EQ(refused(""), at + " has no samples");
  EXPECT_EQ(message_of<UsageError>([&] { files.open("qqp", "", ""); }), "dataset: 'qqp' is unknown; accepted: sst2, cola, mrpc");
  std::filesystem::remove(files.folder() / "dev.tsv");
  EXPECT_EQ(message_of<DataError>([&] { open_glue("cola", files.tokenizer(), {.folder = files.folder() / "none"}); }),
            "read: cannot open " + (files.folder() / "none" / "train.tsv").string() + ": No such file or directory");
}

TEST(Texts, rows_are_rounded_up_to_few_lengths) {
  for (std::int64_t length = 1; length < 3000; ++length) {
    const std::int64_t rounded = rounded_length(length);
    EXPECT_GE(rounded, length);
    EXPECT_LE(rounded, std::max<std::int64_t>(16, length + (length + 1) / 2));
  }
  std::set<std::int64_t> few;
  for (std::int64_t length = 1; length <= 128; ++length) few.insert(rounded_length(length));
  EXPECT_EQ(few, (std::set<std::int64_t>{16, 24, 32, 48, 64, 96, 128}));
}

/// Sample i has 3 + (7 i) % 40 tokens, all of them i.
Texts many(std::int64_t samples, RowLengths lengths) {
  Texts out({"many", samples, 0, lengths});
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto n = static_cast<std::size_t>(3 + (7 * i) % 40);
    out.add({Ids(n, i), Ids(n, 0)}, i);
  }
  return out;
}

TEST(Texts, batches_of_like_length_hold_every_sample_once_in_an_order_of_the_seed) {
  const Texts texts = many(1003, RowLengths::of_batch);
  const auto epoch = [&](std::uint64_t seed, std::int64_t number, bool by_length, std::int64_t first = 0) {
    DataLoader loader(texts, {.batch_size = 10, .by_length = by_length, .seed = seed});
    loader.start(number, first);
    std::vector<Ids> labels;
    std::int64_t tokens = 0;
    while (const auto batch = loader.next()) {
      labels.push_back(elements<std::int64_t>((*batch)["labels"]));
      tokens += (*batch)["ids"].spec.elements();
    }
    return std::pair(labels, tokens);
  };
  const auto [labels, tokens] = epoch(1, 0, true);
  std::multiset<std::int64_t> seen;
  for (const Ids& batch : labels) seen.insert(batch.begin(), batch.end());
  EXPECT_EQ(seen.size(), 1003u);
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 1003u);
  EXPECT_EQ(labels.back().size(), 3u) << "the smaller batch comes last";
  EXPECT_EQ(labels, epoch(1, 0, true).first);
  EXPECT_NE(labels, epoch(2, 0, true).first);
  EXPECT_NE(labels, epoch(1, 1, true).first);
  EXPECT_LT(tokens, 0.8 * static_cast<double>(epoch(1, 0, false).second)) << "less is padding";
  const auto later = epoch(1, 0, true, 60).first;
  EXPECT_TRUE(std::equal(later.begin(), later.end(), labels.begin() + 60)) << "begun in the middle";
  EXPECT_FALSE(std::ranges::is_sorted(labels, {}, [&](const Ids& batch) { return texts.length(batch[0]); })) << "short ones do not all come first";
}

}  // namespace
}  // namespace gemel::datasets
