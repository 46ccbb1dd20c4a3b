// Study files: what their grids make, and what is refused with its line.
#include <gtest/gtest.h>

#include <fstream>

#include "engine/base/error.h"
#include "frontends/study/study.h"
#include "tests/support/message_of.h"

namespace gemel::study {
namespace {

constexpr const char* kHead = "title = \"T\"\nquestion = \"Q?\"\nspec = { command = \"bench train\" }\n";

Study parsed(const std::string& text, Extent extent = Extent::usual) { return parse_study(kHead + text, "s.toml", extent); }
std::string refusal(const std::string& text) {
  return testing::message_of<UsageError>([&] { parsed(text); });
}
std::vector<std::string> names(const Study& study) {
  std::vector<std::string> out;
  for (const Case& c : study.cases) out.push_back(c.name);
  return out;
}

constexpr const char* kGrid =
    "[[grid]]\naxes = { model = [\"lenet\", \"alexnet\"], batch-size = [1, 8], how = [{ name = \"plain\" }, { name = \"off\", memory-plan = \"off\" }] }\n"
    "quick = { model = [\"lenet\"], batch-size = [2] }\n";

TEST(StudyFile, a_grid_is_every_combination_of_its_axes_in_the_order_of_the_file) {
  const Study s = parsed(kGrid);
  ASSERT_EQ(s.cases.size(), 8u);
  EXPECT_EQ(s.cases[0].name, "lenet/batch-size=1/plain");
  EXPECT_EQ(s.cases[1].name, "lenet/batch-size=1/off");
  EXPECT_EQ(s.cases[7].name, "alexnet/batch-size=8/off");
  EXPECT_EQ(s.cases[7].spec, Json::parse(R"({"command": "bench train", "model": "alexnet", "batch-size": 8, "memory-plan": "off"})"));
  EXPECT_EQ(s.cases[7].factors, Json::parse(R"({"model": "alexnet", "batch-size": 8, "how": "off"})"));
  EXPECT_EQ(names(parsed(kGrid, Extent::quick)), (std::vector<std::string>{"lenet/batch-size=2/plain", "lenet/batch-size=2/off"}));
  EXPECT_EQ(s.selected(Json::parse(R"({"model": "lenet", "how": "off"})")).size(), 2u);
}

TEST(StudyFile, a_case_knows_the_line_of_each_key_of_its_spec) {
  const std::string text =
      "[quick]\nruns = 2\n[[grid]]\nspec = { seed = 3 }\n[grid.axes]\nmodel = [\n  \"lenet\",\n  \"alexnet\",\n]\n"
      "[[grid.axes.how]]\nname = \"a\"\nlr = 1\n[[grid.axes.how]]\nname = \"b\"\nlr = 2\n";
  const Case last = parsed(text, Extent::quick).cases.back();
  EXPECT_EQ(last.name, "alexnet/b");
  EXPECT_EQ(last.lines, (std::map<std::string, int>{{"command", 3}, {"runs", 5}, {"seed", 7}, {"model", 11}, {"lr", 18}}));
  EXPECT_EQ(last.line, 6);
  EXPECT_FALSE(parsed(text).cases.back().lines.contains("runs"));
}

TEST(StudyFile, wrong_keys_types_and_names_are_refused_with_their_line) {
  EXPECT_EQ(refusal(std::string(kGrid) + "tilte = 1\n"), "study: s.toml:7: [[grid]] has no 'tilte'; accepted: spec, axes, quick, full");
  EXPECT_EQ(testing::message_of<UsageError>([] { parse_study("titel = \"T\"\n", "s.toml", Extent::usual); }),
            "study: s.toml:1: a study has no title, but 'titel'");
  EXPECT_EQ(refusal("narrow = \"a\"\n"), "study: s.toml:4: narrow is no number");
  EXPECT_EQ(refusal("remarks = 3\n"), "study: s.toml:4: remarks is no list of texts");
  EXPECT_EQ(refusal(""), "study: s.toml:1: a study has no [[grid]]");
  EXPECT_EQ(refusal("[[grid]]\naxes = { how = [{ model = \"lenet\" }] }\n"), "study: s.toml:5: a value of how is a table without a name");
  EXPECT_EQ(refusal("[[grid]]\naxes = { model = [\"lenet\", \"lenet\"] }\n"), "study: s.toml:5: axis model has the value \"lenet\" twice");
  EXPECT_EQ(refusal("[[grid]]\naxes = { model = [] }\n"), "study: s.toml:5: axis model has no values");
  const std::string grid = kGrid;
  EXPECT_EQ(refusal(grid + "[[table]]\nname = \"t\"\ncaption = \"c\"\nrows = [\"modle\"]\n"),
            "study: s.toml:7: 'modle' is no axis of a grid; accepted: batch-size, how, model");
  EXPECT_EQ(refusal(grid + "[[table]]\nname = \"t\"\ncaption = \"c\"\nrows = [\"model\"]\ncolumns = \"how\"\n"),
            "study: s.toml:7: table t: two cases fall into one cell; accepted: rows and columns that name every axis");
  const std::string hypothesis = grid + "[[hypothesis]]\nname = \"h\"\nclaim = \"c\"\nsource = \"s\"\n";
  EXPECT_EQ(refusal(grid + "[[table]]\nname = \"t\"\ncaption = \"c\"\nrows = [\"model\"]\ncolums = \"how\"\n"),
            "study: s.toml:11: [[table]] has no 'colums', did you mean 'columns'?; accepted: name, caption, metric, rows, columns, where, base, ratio");
  EXPECT_EQ(refusal(grid + "[[plot]]\nname = \"p\"\ncaptoin = \"c\"\n"), "study: s.toml:9: [[plot]] has no caption, but 'captoin'");
  EXPECT_TRUE(refusal(hypothesis + "kind = \"trend\"\n").starts_with("study: s.toml:11: [[hypothesis]] has no 'kind'")) << refusal(hypothesis + "kind = 1\n");
  EXPECT_EQ(refusal(hypothesis + "expected = \"below 1\"\n"), "study: s.toml:7: a hypothesis by ratio needs a and b, and nothing else of a, b, over and with");
  EXPECT_EQ(refusal(hypothesis + "a = { model = \"lenet\" }\nb = { model = \"alexnet\" }\n"),
            "study: s.toml:7: [[hypothesis]] has no expected; accepted: below 1, above 1, equal");
  EXPECT_EQ(refusal(hypothesis + "a = { model = \"lent\" }\nb = { model = \"alexnet\" }\nexpected = \"equal\"\n"),
            "study: s.toml:7: no case has {\"model\":\"lent\"}");
  EXPECT_EQ(refusal(hypothesis + "method = \"trend\"\nover = \"model\"\nexpected = \"rises\"\n"),
            "study: s.toml:7: 'model' is an axis of words; accepted: one of numbers");
  EXPECT_EQ(refusal("[[grid]]\naxes = { model = [\"lenet\"] }\nquick = { modle = [\"alexnet\"] }\n"), "study: s.toml:6: 'modle' is no axis of this grid");
  EXPECT_EQ(refusal("[[grid]]\naxes = { model = [\"lenet\"] }\nspec = { command = \"bench trian\" }\n"),
            "study: s.toml:6: case lenet: command is \"bench trian\"; accepted: \"bench train\", \"bench infer\", \"train\", \"eval\", \"infer\"");
  EXPECT_EQ(refusal("[[grid]]\nspec = { command = 3 }\naxes = { model = [\"lenet\"] }\n"),
            "study: s.toml:5: case lenet: command is 3; accepted: \"bench train\", \"bench infer\", \"train\", \"eval\", \"infer\"");
  EXPECT_EQ(testing::message_of<UsageError>(
                [] { parse_study("title = \"T\"\nquestion = \"Q?\"\n\n[[grid]]\naxes = { model = [\"lenet\"] }\n", "s.toml", Extent::usual); }),
            "study: s.toml:4: case lenet: it has no command in its spec");
  EXPECT_EQ(refusal(grid + "[[table]]\nname = \"../t\"\ncaption = \"c\"\n"), "study: s.toml:8: name is '../t'; accepted: small letters, digits, - and _");
  EXPECT_EQ(refusal(grid + "[data.d]\nfrom = \"f\"\nbegins = \"0x\"\n"),
            "study: s.toml:7: data.d: begins is '0x'; accepted: the first bytes of `file` in hexadecimal");
  EXPECT_EQ(refusal(hypothesis + "method = \"tend\"\n"), "study: s.toml:11: method is 'tend'; accepted: ratio, trend, variance, correlation");
  EXPECT_EQ(refusal(hypothesis + "method = \"trend\"\nover = \"batch-size\"\nexpected = \"below 1\"\n"),
            "study: s.toml:13: expected is 'below 1'; accepted: rises, falls, level");
  EXPECT_EQ(refusal(hypothesis + "method = \"correlation\"\nover = \"batch-size\"\nexpected = \"rises\"\n"),
            "study: s.toml:7: a hypothesis by correlation needs with, and nothing else of a, b, over and with");
  EXPECT_EQ(refusal(grid + "[[plot]]\nname = \"p\"\ncaption = \"c\"\nx = \"batch-size\"\nmetric = \"watts\"\nbound = true\n"),
            "study: s.toml:12: no bound of watts is known; accepted: with metric ms, ms_per_sample, samples_per_s");
  const std::string knee = grid + "[[knee]]\nname = \"k\"\ncaption = \"c\"\nover = \"batch-size\"\n";
  EXPECT_EQ(refusal(knee), "study: s.toml:7: table k: two cases fall into one cell; accepted: rows and columns that name every axis");
  EXPECT_EQ(refusal(knee + "lines = [\"model\", \"how\"]\nsaves = 1.5\n"), "study: s.toml:12: saves is 1.5; accepted: a number above 0, at most 1");
  EXPECT_EQ(refusal(grid + "[[knee]]\nname = \"k\"\ncaption = \"c\"\nover = \"model\"\n"),
            "study: s.toml:7: 'model' is an axis of words; accepted: one of numbers");
  EXPECT_EQ(refusal(grid + "[[published]]\ncaption = \"c\"\nsource = \"s\"\ncolumns = [\"a\", \"b\"]\nrows = [[1]]\n"),
            "study: s.toml:7: a row has not 2 values: [1]");
  EXPECT_EQ(refusal("timeout_s = 0\n"), "study: s.toml:4: timeout_s is 0; accepted: a number above 0, at most 1e+06");
  EXPECT_EQ(refusal("timeout_s = inf\n"), "study: s.toml:4: timeout_s is inf; accepted: a number above 0, at most 1e+06");
  EXPECT_EQ(refusal("narrow = -1\n"), "study: s.toml:4: narrow is -1; accepted: a number above 0, at most 1");
  EXPECT_EQ(refusal("narrow = nan\n"), "study: s.toml:4: narrow is nan; accepted: a number above 0, at most 1");
  for (const char* repeats : {"0", "-3", "4294967297"})
    EXPECT_EQ(refusal(std::string("most_repeats = ") + repeats + "\n"),
              std::string("study: s.toml:4: most_repeats is ") + repeats + "; accepted: a whole number of 1 to 10000");
  EXPECT_EQ(refusal(hypothesis + "a = { model = \"lenet\" }\nb = { model = \"alexnet\" }\nexpected = \"equal\"\nmargin = -1\n"),
            "study: s.toml:14: margin is -1; accepted: a number above 0, at most 1");
  const std::string twice = "\n[[hypothesis]]\nname = \"h\"\nclaim = \"c\"\nsource = \"s\"\nmethod = \"trend\"\nover = \"batch-size\"\nexpected = \"rises\"\n";
  EXPECT_EQ(
      refusal("[[grid]]\naxes = { model = [\"lenet\"], batch-size = [1, 2, 4] }\n[[grid]]\naxes = { model = [\"alexnet\"], batch-size = [64, 128] }\n" + twice),
      "study: s.toml:9: hypothesis h: its groups of cases that differ in batch-size alone have less than two values of it in common; accepted: a where that "
      "leaves those that have");
  EXPECT_EQ(refusal(grid + twice + twice), "study: s.toml:1: two hypotheses are named h");
  EXPECT_TRUE(refusal("a = = 1\n").starts_with("study: s.toml:4: ")) << refusal("a = = 1\n");
}

TEST(StudyFile, every_study_that_is_there_can_be_read_in_each_extent) {
  const auto files = study_files();
  EXPECT_GE(files.size(), 5u);
  for (const auto& file : files)
    for (const Extent extent : {Extent::quick, Extent::usual, Extent::full}) {
      const Study s = read_study(file, extent);
      EXPECT_FALSE(s.tables.empty()) << file;
      EXPECT_FALSE(s.hypotheses.empty()) << file;
    }
  EXPECT_EQ(testing::message_of<UsageError>([] {
              find_study("pipline");
            }).find("study: 'pipline' is unknown, did you mean 'pipeline'?; accepted: async, batch-optimizer, "),
            0u);
}

}  // namespace
}  // namespace gemel::study
