// How a study's steps and repetitions are cut to its budget.
#include "frontends/study/runner/budget.h"

#include <gtest/gtest.h>

#include <numeric>

#include "frontends/study/runner/progress.h"

namespace gemel::study {
namespace {

Json spec(const char* text) { return Json::parse(text); }

TEST(StudyBudget, scales_steps_then_epochs_then_pictures) {
  EXPECT_EQ(scaled(spec(R"({"runs": 20, "warmup": 3})"), 0.5), spec(R"({"runs": 10, "warmup": 3})"));
  EXPECT_EQ(scaled(spec(R"({"runs": 8})"), 0.2), spec(R"({"runs": 4})")) << "four steps at least";
  EXPECT_EQ(scaled(spec(R"({"runs": 2})"), 0.2), spec(R"({"runs": 2})"));
  EXPECT_EQ(scaled(spec(R"({"steps": 32, "limit": 2000, "epochs": 1})"), 0.25), spec(R"({"steps": 8, "limit": 2000, "epochs": 1})"));
  EXPECT_EQ(scaled(spec(R"({"epochs": 10, "limit": 2000})"), 0.5), spec(R"({"epochs": 5, "limit": 2000})"));
  EXPECT_EQ(scaled(spec(R"({"epochs": 2, "limit": 2000})"), 0.25), spec(R"({"epochs": 1, "limit": 1000})"));
  EXPECT_EQ(scaled(spec(R"({"epochs": 1, "limit": 80, "batch-size": 64})"), 0.25), spec(R"({"epochs": 1, "limit": 64, "batch-size": 64})")) << "a whole batch";
  EXPECT_EQ(scaled(spec(R"({"epochs": 1, "limit": 0})"), 0.25), spec(R"({"epochs": 1, "limit": 0})")) << "all pictures are of an unknown number";
}

/// A process that took so many seconds, `runs` of them in steps of 100 ms.
ProcessRecord run_of(const std::string& name, double seconds, int steps, double scale = 1) {
  ProcessRecord out{.name = name, .status = "ok", .metrics = {{"ms", 100.0}}, .seconds = seconds, .scale = scale};
  for (int i = 0; i < steps; ++i) out.samples_ms.push_back(100.0);
  return out;
}

TEST(StudyBudget, takes_the_largest_scale_that_fits) {
  const std::vector<CaseCost> cases{CaseCost(spec(R"({"runs": 100})"), run_of("a", 3, 20, 0.2))};
  EXPECT_DOUBLE_EQ(cases[0].seconds(1), 1 + 10) << "a second to start, and steps of a tenth";
  EXPECT_DOUBLE_EQ(cases[0].seconds(0.2), 3);
  EXPECT_DOUBLE_EQ(scale_within(cases, 6, 1000), 1);
  EXPECT_DOUBLE_EQ(scale_within(cases, 6, 6 * 6.01), 0.5);
  EXPECT_DOUBLE_EQ(scale_within(cases, 6, 1), kLeastScale);
  const CaseCost of_epochs(spec(R"({"epochs": 10})"), run_of("b", 3, 20, 0.2));
  EXPECT_DOUBLE_EQ(of_epochs.seconds(1), 11) << "as many steps as it had, over the scale";
}

TEST(StudyBudget, cheap_cases_run_as_often_as_wanted_and_the_others_for_equal_times) {
  const std::vector<double> costs{1, 1, 10, 20, 100};
  EXPECT_EQ(repeats_within(costs, 6, 1e6), (std::vector<int>(5, 6)));
  EXPECT_EQ(repeats_within(costs, 6, 1), (std::vector<int>(5, 1))) << "each once";
  const std::vector<int> some = repeats_within(costs, 6, 240);
  EXPECT_EQ(some, (std::vector<int>{6, 6, 6, 3, 1}));
  EXPECT_LE(std::inner_product(costs.begin(), costs.end(), some.begin(), 0.0), 240);
}

TEST(StudyBudget, few_runs_are_spread_over_all_blocks_and_share_them_with_cases_that_run_oftener) {
  EXPECT_EQ(spread_ranks(6), (std::vector<int>{0, 3, 2, 5, 1, 4}));
  EXPECT_EQ(spread_ranks(1), std::vector<int>{0});
}

TEST(StudyBudget, counts_runs_of_its_scale_and_gaps_of_any) {
  Study study;
  for (const char* name : {"a", "b", "c"}) study.cases.push_back({.name = name, .factors = Json::object(), .spec = spec(R"({"runs": 100})")});
  ProcessRecord gap{.name = "c", .status = "does-not-fit", .seconds = 1, .scale = 0.2};
  const Progress progress(study, {run_of("a", 3, 20, 0.2), run_of("b", 7, 60, 0.6), gap}, 0.6);
  EXPECT_TRUE(progress.goes_on(study.cases[0], 0)) << "the pilot does not count";
  EXPECT_FALSE(progress.goes_on(study.cases[1], 0));
  EXPECT_TRUE(progress.goes_on(study.cases[1], 1));
  EXPECT_FALSE(progress.goes_on(study.cases[2], 1));
  ProcessRecord later = run_of("b", 7, 60, 0.6);
  later.repeat = 4;
  Progress resumed(study, {run_of("b", 7, 60, 0.6), later}, 0.6);
  EXPECT_TRUE(resumed.goes_on(study.cases[1], 2)) << "a block that a shorter budget left out";
  EXPECT_FALSE(resumed.goes_on(study.cases[1], 4));
  EXPECT_EQ(progress.costs().size(), 1u);
  const auto repeats = progress.repeats_within(6, 6 * 4.0 + 5 * 7.0);  // a costs the mean of the others, (7 + 1) / 2
  EXPECT_EQ(repeats.at("a"), 6);
  EXPECT_EQ(repeats.at("b"), 6) << "one of them is done";
  EXPECT_EQ(repeats.count("c"), 0u);
}

TEST(StudyBudget, does_not_count_what_only_a_case_s_first_process_builds) {
  Study study;
  for (const char* name : {"a", "b"}) study.cases.push_back({.name = name, .factors = Json::object(), .spec = spec(R"({"runs": 20})")});
  ProcessRecord cold = run_of("a", 13, 20), warm = run_of("b", 4, 20);
  cold.metrics["first_time"] = 10500.0;
  warm.metrics["first_time"] = 500.0;
  Progress progress(study, {cold, warm}, 1);
  EXPECT_DOUBLE_EQ(progress.seconds(study.cases[0]), 3);
  EXPECT_DOUBLE_EQ(progress.seconds(study.cases[1]), 4);
  EXPECT_DOUBLE_EQ(progress.costs()[0].seconds(1), 3);
  cold.repeat = 1;
  progress.add(cold);
  EXPECT_DOUBLE_EQ(progress.seconds(study.cases[0]), 13) << "it builds anew each time";
}

}  // namespace
}  // namespace gemel::study
