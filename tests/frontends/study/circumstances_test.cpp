// What a report says of the machine, the commands and the doubts, on made-up runs.
#include "frontends/study/report/circumstances.h"

#include <gtest/gtest.h>

#include "frontends/study/report/answers.h"

namespace gemel::study {
namespace {

constexpr const char* kTwoCases =
    "title = \"T\"\nquestion = \"Q?\"\nspec = { command = \"train\", steps = 9 }\n[[grid]]\naxes = { model = [\"lenet\", \"alexnet\"] }\n"
    "[[table]]\nname = \"t\"\ncaption = \"c\"\nrows = [\"model\"]\n[[hypothesis]]\nname = \"h\"\nclaim = \"Small is fast.\"\nsource = \"s\"\n"
    "a = { model = \"lenet\" }\nb = { model = \"alexnet\" }\nexpected = \"below 1\"\n";

/// Seven processes a case. The first step always takes long; lenet's next two take 20 % longer than the rest.
std::vector<ProcessRecord> of_two_cases(const Study& study) {
  std::vector<ProcessRecord> out;
  for (int block = 0; block < 7; ++block)
    for (const Case& c : study.cases) {
      const bool warms_up = c.name == "lenet";
      Json spec = c.spec;
      spec.update({{"limit", ""}, {"seed", 1}, {"np", block + 1}});
      Json samples{90.0};
      for (int i = 0; i < 8; ++i) samples.push_back((warms_up && i < 2 ? 12 : 10) * (1 + 0.001 * ((i + 3 * block) % 7)));
      out.push_back(ProcessRecord{.name = c.name,
                                  .repeat = block,
                                  .status = "ok",
                                  .metrics = {{"ms", (warms_up ? 10 : 20) + 0.01 * (block * 3 % 7)}, {"other_cores", 0.1 * block}},
                                  .samples_ms = samples,
                                  .machine = {{"version", {{"commit", "abc"}}}, {"power", Json::array({"package-0", "dram"})}, {"threads", block}},
                                  .spec = spec,
                                  .command = "gemel train",
                                  .started = block == 0 ? "2026-01-02T03:04:05Z" : "2026-01-02T03:05:00Z"});
    }
  return out;
}

TEST(StudyCircumstances, doubt_a_warm_up_but_not_for_the_first_step_of_training) {
  const Study s = parse_study(kTwoCases, "s.toml", Extent::usual);
  const ListItems doubts = doubts_of(s, Results(s, of_two_cases(s)));
  ASSERT_EQ(doubts.items.size(), 1u);
  EXPECT_TRUE(doubts.items[0].starts_with("lenet: the first quarter of the steps took 20.")) << doubts.items[0];
}

TEST(StudyCircumstances, name_the_machine_and_each_command_once) {
  Study s = parse_study(kTwoCases, "s.toml", Extent::usual);
  s.machine = {{"processor", "A"}, {"memory_bytes", 1 << 30}};
  const Results results(s, of_two_cases(s));
  EXPECT_EQ(machine_grid(s, results).rows, (std::vector<std::vector<std::string>>{{"date (UTC)", "2026-01-02T03:04:05Z to 2026-01-02T03:05:00Z"},
                                                                                  {"processor", "A"},
                                                                                  {"memory_bytes", "1.0 GiB"},
                                                                                  {"gemel, power", "package-0, dram"},
                                                                                  {"gemel, threads", "0 and 6 others"},
                                                                                  {"gemel, version", "commit abc"},
                                                                                  {"cores that other programs took meanwhile", "median 0.30, at most 0.60"}}));
  EXPECT_EQ(commands_of(s, results).text, "# lenet\ngemel train\n# alexnet\ngemel train");
}

TEST(StudyAnswers, have_the_figures_that_they_rest_on) {
  const Study s = parse_study(kTwoCases, "s.toml", Extent::usual);
  const Results results(s, of_two_cases(s));
  EXPECT_EQ(summary_of(s, results), "From the least to the largest time of a step (ms): 10.03 (lenet) to 20.03 (alexnet).");
  EXPECT_EQ(answer_to(s.hypotheses[0], results.verdicts()[0], s, results),
            "Small is fast. Here it holds: the time of a step (ms) of model lenet is 0.501 times that of model alexnet (95 %: 0.5 to 0.501); medians: 10.03 "
            "against 20.03.");
}

}  // namespace
}  // namespace gemel::study
