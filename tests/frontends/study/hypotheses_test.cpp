// Verdicts: what too few blocks can say, when a claim of equality is refuted, and which cases a hypothesis compares.
#include "frontends/study/report/hypotheses.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/message_of.h"

namespace gemel::study {
namespace {

std::string one_hypothesis(const std::string& name, const std::string& expected, const std::string& more = "") {
  return fmt::format("[[hypothesis]]\nname = \"{}\"\nclaim = \"c\"\nsource = \"s\"\nexpected = \"{}\"\n{}", name, expected,
                     more.empty() ? "a = { how = \"a\" }\nb = { how = \"b\" }\n" : more);
}
constexpr const char* kTitled = "title = \"T\"\nquestion = \"Q?\"\nspec = { command = \"bench train\" }\n";
constexpr const char* kSizes = "[[grid]]\naxes = { how = [{ name = \"a\" }, { name = \"b\" }], size = [1, 2, 4] }\n";

Study study_with(const std::string& text) { return parse_study(kTitled + text, "s.toml", Extent::usual); }

/// a takes `ratio` of b in each block but for noise of a share, and size does nothing but for `by_size`.
std::vector<ProcessRecord> made_up(const Study& study, int blocks, double ratio, double noise, std::map<double, double> by_size = {}) {
  std::vector<ProcessRecord> out;
  std::uint64_t state = 11;
  for (int block = 0; block < blocks; ++block)
    for (const Case& c : study.cases) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const double share = static_cast<double>(state >> 11) / 9007199254740992.0 - 0.5, size = c.factors["size"];
      const double ms = 10 * (c.factors["how"] == "a" ? ratio : 1) * (by_size.contains(size) ? by_size[size] : 1) * (1 + noise * share);
      out.push_back(ProcessRecord{.name = c.name, .repeat = block, .status = "ok", .metrics = {{"ms", ms}}, .spec = c.spec});
    }
  return out;
}

TEST(StudyHypotheses, too_few_blocks_say_how_many_would_do_and_promise_nothing) {
  std::string text = kSizes;
  for (int i = 0; i < 9; ++i) text += one_hypothesis(fmt::format("h{}", i), "below 1");
  const Study s = study_with(text);
  for (const Verdict& v : Results(s, made_up(s, 6, 0.5, 0.01)).verdicts()) {
    EXPECT_EQ(v.verdict, "undecided");
    EXPECT_FALSE(v.could_have_seen);
    EXPECT_EQ(v.enough_blocks, 9);
    EXPECT_NE(v.sentence.find(" 6 blocks are too few for sign flips to tell a difference, adjusted over 9 tests: 9 are enough."), std::string::npos)
        << v.sentence;
  }
  for (const Verdict& v : Results(s, made_up(s, 9, 0.5, 0.01)).verdicts()) {
    EXPECT_EQ(v.verdict, "differs");
    EXPECT_TRUE(v.could_have_seen);
    EXPECT_FALSE(v.enough_blocks);
  }
}

TEST(StudyHypotheses, what_has_no_test_takes_nothing_from_the_others) {
  std::string text = kSizes;
  for (int i = 0; i < 5; ++i) text += one_hypothesis(fmt::format("h{}", i), "below 1");
  for (int i = 5; i < 9; ++i) text += one_hypothesis(fmt::format("h{}", i), "below 1") + "metric = \"watts\"\n";
  const Study s = study_with(text);
  const std::vector<Verdict> all = Results(s, made_up(s, 8, 0.5, 0.01)).verdicts();
  for (const Verdict& v : all) {
    EXPECT_EQ(v.verdict, v.metric == "ms" ? "differs" : "undecided") << v.sentence;
    EXPECT_EQ(v.could_have_seen.has_value(), v.metric == "ms");
    EXPECT_FALSE(v.enough_blocks);
  }
}

TEST(StudyHypotheses, equality_is_refuted_by_what_lies_outside_the_margin_alone) {
  const Study s = study_with(kSizes + one_hypothesis("equal", "equal"));
  const auto found = [&](double ratio, double noise) { return Results(s, made_up(s, 10, ratio, noise)).verdicts()[0]; };
  EXPECT_EQ(found(1, 0.02).claim_holds, "it holds");
  EXPECT_EQ(found(1.03, 0.02).claim_holds, "it holds") << "a difference, but within 5 %";
  EXPECT_EQ(found(1.2, 0.02).claim_holds, "it does not hold");
  EXPECT_EQ(found(0.8, 0.02).claim_holds, "it does not hold");
  const Verdict near = found(1.05, 0.1);
  EXPECT_EQ(near.verdict, "differs");
  EXPECT_LT(near.interval->low, 1.05);
  EXPECT_EQ(near.claim_holds, "open, it differs but perhaps by less than 5 %");
}

TEST(StudyHypotheses, that_nothing_matters_is_refuted_by_the_levels_that_are_farthest_apart) {
  const std::string over = "method = \"variance\"\nover = \"size\"\n";
  const Study s = study_with(kSizes + one_hypothesis("level", "does not matter", over));
  const auto found = [&](double middle, double noise) { return Results(s, made_up(s, 10, 1, noise, {{2, middle}})).verdicts()[0]; };
  const Verdict far = found(1.5, 0.02);
  EXPECT_NEAR(*far.effect, 1, 0.01) << "the ends are alike";
  EXPECT_EQ(far.claim_holds, "it does not hold");
  EXPECT_EQ(found(1, 0.02).claim_holds, "it holds");
  const Verdict near = found(1.05, 0.1);
  EXPECT_EQ(near.verdict, "differs") << near.sentence;
  EXPECT_EQ(near.claim_holds, "open, it differs but perhaps by less than 5 %");
}

TEST(StudyHypotheses, that_nothing_matters_needs_every_pair_of_levels_alike) {
  for (const char* method : {"variance", "trend"}) {
    const std::string expected = std::string(method) == "trend" ? "level" : "does not matter";
    const Study s = study_with(kSizes + one_hypothesis("level", expected, fmt::format("method = \"{}\"\nover = \"size\"\n", method)));
    const std::vector<ProcessRecord> steady = made_up(s, 10, 1, 0.01), wild = made_up(s, 10, 1, 1);
    std::vector<ProcessRecord> runs;
    for (std::size_t i = 0; i < steady.size(); ++i) runs.push_back(s.cases[i % s.cases.size()].factors["size"] == 2 ? wild[i] : steady[i]);
    EXPECT_EQ(Results(s, steady).verdicts()[0].claim_holds, "it holds");
    EXPECT_EQ(Results(s, runs).verdicts()[0].verdict, "undecided") << "nobody knows what the second size does";
  }
}

TEST(StudyHypotheses, over_an_axis_compare_levels_that_all_groups_have) {
  const Study s = study_with("[[grid]]\naxes = { how = [{ name = \"a\" }], size = [1, 2, 4] }\n[[grid]]\naxes = { how = [{ name = \"b\" }], size = [1, 2] }\n" +
                             one_hypothesis("grows", "rises", "method = \"trend\"\nover = \"size\"\n"));
  const Verdict v = Results(s, made_up(s, 10, 1, 0.01, {{2, 2}, {4, 100}})).verdicts()[0];
  EXPECT_NEAR(*v.effect, 2, 0.02) << "only a has the third";
}

std::string refused(const std::string& text) {
  return testing::message_of<UsageError>([&] { study_with(text); });
}

TEST(StudyHypotheses, that_cannot_be_compared_say_what_was_measured_and_what_is_missing) {
  const Study s = study_with(kSizes + one_hypothesis("ratio", "below 1") + one_hypothesis("trend", "rises", "method = \"trend\"\nover = \"size\"\n"));
  const std::vector<ProcessRecord> all = made_up(s, 1, 0.5, 0.01);
  const auto sentences = [&](const std::vector<std::size_t>& measured, bool in_one_block = true) {
    std::vector<ProcessRecord> runs;
    for (const std::size_t i : measured) {
      runs.push_back(all[i]);
      if (!in_one_block) runs.back().repeat = static_cast<int>(i);
    }
    const Results results(s, runs);
    EXPECT_EQ(results.verdicts()[0].claim_holds, "open, nothing is decided");
    return std::vector{results.verdicts()[0].sentence, results.verdicts()[1].sentence};
  };
  EXPECT_EQ(sentences({}), (std::vector<std::string>{"No ms was measured of its 6 cases: see the gaps.", "No ms was measured of its 6 cases: see the gaps."}));
  EXPECT_EQ(sentences({1}),
            (std::vector<std::string>{"ms was measured of 1 of its 6 cases (a/size=2), but of no two that it compares: nothing is decided, see the gaps.",
                                      "ms was measured of 1 of its 6 cases (a/size=2), but at one value of size alone: nothing is decided, see the gaps."}));
  EXPECT_EQ(
      sentences({0, 2})[1],
      "ms was measured of 2 of its 6 cases (a/size=1, a/size=4), but not of all of any group that differs in size alone: nothing is decided, see the gaps.");
  EXPECT_EQ(sentences({0, 1, 3, 4}, false)[0],
            "ms was measured of 4 of its 6 cases (a/size=1, a/size=2, b/size=1, b/size=2), but there is no block in which all 2 pairs that it compares were: "
            "nothing is decided, see the gaps.");
  EXPECT_TRUE(sentences({0, 1, 2, 3, 4, 5})[0].starts_with("The ratio of ms is 0."));
}

TEST(StudyHypotheses, that_leave_open_what_they_compare_or_compare_nothing_are_refused) {
  const std::string grid =
      "[[grid]]\naxes = { form = [{ name = \"one\" }] }\n[[grid]]\naxes = { form = [{ name = \"gpipe\" }, { name = \"1f1b\" }], m = [1, 2] }\n";
  const auto between = [&](const std::string& a, const std::string& b) { return grid + one_hypothesis("h", "equal", "a = " + a + "\nb = " + b + "\n"); };
  EXPECT_EQ(refused(between("{ form = \"gpipe\", m = 1 }", "{ form = \"1f1b\" }")),
            "study: s.toml:8: hypothesis h: b is {\"form\":\"1f1b\"}, which both 1f1b/m=1 and 1f1b/m=2 have; accepted: axes and values that leave one case to "
            "compare with");
  EXPECT_EQ(
      refused(between("{ form = \"gpipe\" }", "{ form = \"one\" }")),
      "study: s.toml:8: hypothesis h: no case with {\"form\":\"gpipe\"} is alike one with {\"form\":\"one\"} in the other axes; accepted: a and b that name "
      "every axis in which their cases differ");
  EXPECT_EQ(pairs_of(study_with(between("{ form = \"gpipe\" }", "{ form = \"1f1b\" }")).hypotheses[0], study_with(grid)).size(), 2u);
  EXPECT_EQ(pairs_of(study_with(between("{ form = \"gpipe\", m = 1 }", "{ form = \"one\" }")).hypotheses[0], study_with(grid)).size(), 1u);
}

TEST(StudyHypotheses, without_a_pair_in_this_extent_are_left_out_of_it) {
  const std::string grid =
      "[[grid]]\naxes = { how = [{ name = \"a\" }], size = [1, 2] }\nquick = { size = [1] }\n"
      "[[grid]]\naxes = { how = [{ name = \"b\" }], size = [1, 2] }\nquick = { size = [2] }\n";
  const std::string text = kTitled + grid + one_hypothesis("h", "equal");
  EXPECT_EQ(parse_study(text, "s.toml", Extent::usual).hypotheses.size(), 1u);
  EXPECT_EQ(parse_study(text, "s.toml", Extent::quick).hypotheses.size(), 0u);
}

}  // namespace
}  // namespace gemel::study
