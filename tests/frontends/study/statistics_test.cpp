// Statistics of studies against numbers by SciPy (tests/data/statistics/make.py), and on cases whose answer is known.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "frontends/study/statistics/correlation.h"
#include "frontends/study/statistics/knee.h"
#include "frontends/study/statistics/normality.h"
#include "frontends/study/statistics/time_series.h"

namespace gemel::study {
namespace {

using nlohmann::json;

constexpr std::size_t kSets = 20;
/// Both compute in double, by series and recursions of some hundred terms.
constexpr double kRounding = 1e-9;
/// Resamplings of both sides; their random numbers differ.
constexpr int kResamples = 50'000;

const json& sets(const char* name) {
  static const json all = json::parse(std::ifstream(GEMEL_SOURCE_DIR "/tests/data/statistics/scipy.json"));
  EXPECT_EQ(all[name].size(), kSets);
  return all[name];
}

std::vector<double> values(const json& j) { return j.get<std::vector<double>>(); }

void expect_close(double found, double expected, double tolerance = kRounding) { EXPECT_NEAR(found, expected, tolerance * std::max(1.0, std::abs(expected))); }
void expect_close(const Interval& found, const json& expected, double tolerance = kRounding) {
  expect_close(found.low, expected[0], tolerance);
  expect_close(found.high, expected[1], tolerance);
}

/// Ends of intervals by resampling: a quantile near 0.025 of so many is known to 3 standard errors of 0.01 of the interval's width on each side.
void expect_resampled(const Interval& found, const json& expected) {
  const double width = expected[1].get<double>() - expected[0].get<double>();
  EXPECT_GT(width, 0);
  EXPECT_NEAR(found.low, expected[0], 0.03 * width);
  EXPECT_NEAR(found.high, expected[1], 0.03 * width);
}

TEST(StatisticsBySciPy, of_one_sample) {
  for (const json& s : sets("single")) {
    const std::vector<double> sample = values(s["sample"]);
    const TestResult w = shapiro_wilk(sample);
    expect_close(w.statistic, s["w"], 1e-7);  // SciPy's quantiles of the normal distribution in this test have 16 digits, its weights come of float constants
    expect_close(w.p, s["shapiro"], 1e-5);
    expect_close(quantile(sample, s["q"]), s["quantile"]);
    expect_close(geometric_mean(sample), s["geometric"]);
    expect_close(variance(sample), s["variance"]);
    expect_resampled(bootstrap_interval({sample}, [](const Samples& x) { return mean(x[0]); }, {.resamples = kResamples}), s["interval"]);
  }
}

TEST(StatisticsBySciPy, of_two_samples) {
  int exact = 0;
  for (const json& s : sets("pairs")) {
    const std::vector<double> a = values(s["a"]), b = values(s["b"]);
    const TestResult u = mann_whitney(a, b);
    expect_close(u.statistic, s["u"]);
    expect_close(u.p, s["mann_whitney"]);
    const MeanDifference d = welch(a, b);
    expect_close(d.interval(), s["welch_interval"]);
    expect_close(d.degrees, s["degrees"]);
    expect_close(equivalence_test(d, s["margin"]).p, s["equivalence"]);
    const double p = s["permutation"], found = permutation_test(a, b, difference_of_means).p;
    const bool all = std::tgamma(a.size() + b.size() + 1) / std::tgamma(a.size() + 1) / std::tgamma(b.size() + 1) < 20'000;
    exact += all;
    EXPECT_NEAR(found, p, all ? kRounding : 4 * std::sqrt(p * (2 - p) / 20'000)) << "of a tail of p / 2, twice";
    expect_resampled(bootstrap_interval({a, b}, [](const Samples& x) { return mean(x[0]) / mean(x[1]); }, {.resamples = kResamples}), s["ratio_interval"]);
  }
  EXPECT_GE(exact, 3);
}

TEST(StatisticsBySciPy, of_blocks) {
  for (const json& s : sets("blocks")) {
    const std::vector<double> differences = values(s["differences"]);
    expect_close(sign_flip_test(differences).p, s["sign_flip"]);
    expect_close(paired(differences).interval(), s["interval"]);
  }
}

TEST(StatisticsBySciPy, of_several_samples) {
  for (const json& s : sets("several")) {
    const AnalysisOfVariance f = analysis_of_variance(s["groups"].get<Samples>());
    expect_close(f.f, s["f"]);
    expect_close(f.p, s["anova"]);
    const TestResult tau = trend_test(values(s["x"]), values(s["y"]));
    expect_close(tau.statistic, s["tau"]);
    expect_close(tau.p, s["trend"]);
    const std::vector<double> adjusted = holm(values(s["p"])), expected = values(s["holm"]);
    ASSERT_EQ(adjusted.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) expect_close(adjusted[i], expected[i]);
  }
}

TEST(StatisticsBySciPy, of_correlations) {
  for (const json& s : sets("correlations")) {
    const std::vector<double> x = values(s["x"]), y = values(s["y"]);
    const Correlation found = correlation(x, y);
    expect_close(found.r, s["r"]);
    expect_close(found.slope, s["slope"]);
    expect_close(found.interval, s["interval"]);
    const double p = s["p"];
    const bool all = x.size() <= 7;  // 5040 pairings; else 20 000 at random on both sides
    EXPECT_NEAR(found.p, p, all ? kRounding : 4 * std::sqrt(2 * p * (1 - p) / 20'000) + 1e-4) << x.size();
  }
}

TEST(Statistics, correlations_of_what_does_not_vary_say_nothing) {
  const std::vector<double> x{1, 2, 3, 4, 5, 6}, level(6, 2.0);
  EXPECT_EQ(correlation(x, level).p, 1);
  EXPECT_EQ(correlation(x, x).r, 1);
  EXPECT_NEAR(correlation(x, x).p, 2 / 720.0, kRounding) << "as they lie, and reversed";
  EXPECT_GT(detectable_correlation(6, 0.05), detectable_correlation(30, 0.05));
}

TEST(Statistics, a_knee_is_where_each_further_doubling_saves_little) {
  const std::vector<double> sizes{1, 2, 4, 16, 32};
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(knee_of(sizes, std::vector<double>{10, 6, 5, 4.8, 4.7}, 0.1), 4) << "4 to 16 are two doublings, of 2 % each";
  EXPECT_EQ(knee_of(sizes, std::vector<double>{10, 6, 5, 4.0, 3.9}, 0.1), 16) << "two of 11 %";
  EXPECT_EQ(knee_of(sizes, std::vector<double>{10, 6, 5, 4.8, 4.0}, 0.1), infinite) << "it still falls";
  EXPECT_EQ(knee_of(sizes, std::vector<double>{5, 5, 5, 5, 6}, 0.1), 1);
  EXPECT_EQ(knee_of(sizes, std::vector<double>{10, 9.8, 5, 5, 5}, 0.1), 4) << "a flat beginning is none";

  const auto around = [](double middle, double spread) {
    std::vector<double> out;
    for (int i = 0; i < 9; ++i) out.push_back(middle * (1 + spread * (i - 4) / 4));
    return out;
  };
  const KneeEstimate sure = knee_of_medians(sizes, {around(10, 0.01), around(6, 0.01), around(5, 0.01), around(4.8, 0.01), around(4.7, 0.01)}, 0.1);
  EXPECT_EQ(sure.knee, 4);
  EXPECT_EQ(sure.interval.low, 4);
  EXPECT_EQ(sure.interval.high, 4);
  const KneeEstimate wide = knee_of_medians(sizes, {around(10, 0.01), around(6, 0.01), around(5, 0.01), around(4.5, 0.1), around(4.3, 0.2)}, 0.1);
  EXPECT_EQ(wide.interval.low, 4);
  EXPECT_EQ(wide.interval.high, infinite) << "with such a spread it may still fall";
}

/// Series of 6 processes: noise of 5 % that depends on the value before by `depends`, and a first quarter that is larger by a share.
Samples series_of_processes(std::mt19937_64& random, int steps, double depends, double larger) {
  std::normal_distribution<double> normal;
  Samples out(6);
  for (auto& one : out) {
    double noise = normal(random);
    for (int i = 0; i < steps; ++i) {
      one.push_back(10 * std::exp(0.05 * noise) * (i < steps / 4 ? 1 + larger : 1));
      noise = depends * noise + std::sqrt(1 - depends * depends) * normal(random);
    }
  }
  return out;
}

TEST(Statistics, a_warm_up_is_doubted_in_few_cases_of_noise_and_found_in_most_where_there_is_one) {
  std::mt19937_64 random(1);
  constexpr int kCases = 1000;
  for (const double depends : {0.0, 0.5})
    for (const int steps : {8, 15, 30, 60}) {
      int of_noise = 0, of_warm_up = 0;
      for (int i = 0; i < kCases; ++i) {
        of_noise += warm_up(series_of_processes(random, steps, depends, 0)).p < 0.01;
        of_warm_up += warm_up(series_of_processes(random, steps, depends, 0.1)).p < 0.01;
      }
      RecordProperty(fmt::format("depends {} steps {}", depends, steps), fmt::format("{} {}", of_noise, of_warm_up));
      EXPECT_LE(of_noise, kCases / 40) << "1 % are expected; depends " << depends << ", steps " << steps;
      EXPECT_GE(of_warm_up, kCases / 2) << "depends " << depends << ", steps " << steps;
    }
}

TEST(Statistics, a_warm_up_has_its_size_and_short_series_say_nothing) {
  Samples warm(6, std::vector<double>(12, 1.0));
  for (auto& one : warm) one[0] = one[1] = one[2] = 1.2;
  EXPECT_NEAR(warm_up(warm).ratio, 1.2, kRounding);
  EXPECT_EQ(warm_up(warm).p, 0);
  EXPECT_EQ(warm_up(Samples(6, std::vector<double>(30, 1.0))).p, 1);
  EXPECT_EQ(warm_up(Samples(6, {2, 1, 1, 1, 1, 1, 1})).p, 1) << "7 steps";
  EXPECT_EQ(warm_up({}).p, 1);
}

TEST(Statistics, sign_flips_find_what_they_are_said_to_find) {
  EXPECT_TRUE(std::isinf(detectable_by_signs(6, 0.05 / 9))) << "the least p of 6 differences is 2/64";
  EXPECT_TRUE(std::isinf(detectable_by_signs(6, 2 / 64.0))) << "not below it";
  EXPECT_NEAR(detectable_by_signs(9, 0.05 / 9), 1.97, 0.1) << "all 9 of one sign in 80 % of samples: the normal quantile of 0.8^(1/9)";
  EXPECT_NEAR(detectable_by_signs(15, 0.05), MeanDifference({0, 1 / std::sqrt(15.0), 14}).detectable(0.05), 1e-12);
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  for (const int n : {7, 10}) {
    const double shift = detectable_by_signs(n, 0.05);
    int found = 0;
    for (int i = 0; i < 500; ++i) {
      std::vector<double> differences;
      for (int j = 0; j < n; ++j) differences.push_back(shift + normal(random));
      found += sign_flip_test(differences).p < 0.05;
    }
    EXPECT_NEAR(found, 400, 45) << n << ": 5 standard errors of 9";
  }
}

TEST(Statistics, hypotheses_that_exclude_each_other_count_once) {
  EXPECT_EQ(holm_of_groups({{0.01, 0.9}, {0.02, 0.6}}), (std::vector<std::vector<double>>{{0.02, 1}, {0.04, 1}})) << "not 4 times the least";
  EXPECT_EQ(holm_of_groups({{0.01}, {0.03}, {}}), (std::vector<std::vector<double>>{{0.02}, {0.03}, {}})) << "Holm's";
  EXPECT_EQ(holm_of_groups({{0.001, 0.002}, {0.03, 0.04}})[1], (std::vector<double>{0.03, 0.04})) << "both of the first are rejected";
  // Half of the hypotheses are true, half are far from it, and of these the margin's is what is true: one false verdict in all in at most 5 % of studies.
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform;
  int wrong = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<std::vector<double>> p;
    for (int h = 0; h < 10; ++h) p.push_back(h < 5 ? std::vector<double>{uniform(random), 0} : std::vector<double>{0, uniform(random)});
    const auto adjusted = holm_of_groups(p);
    bool is_wrong = false;
    for (int h = 0; h < 10; ++h) is_wrong = is_wrong || adjusted[std::size_t(h)][h < 5 ? 0 : 1] < 0.05;
    wrong += is_wrong;
  }
  EXPECT_LE(wrong, 4000 * 0.05 + 70) << "5 standard errors of 14";
}

TEST(Statistics, drift_is_a_trend_in_the_order_of_measurement) {
  std::vector<double> rising, level;
  for (int i = 0; i < 24; ++i) {
    rising.push_back(10 + 0.01 * i + 0.02 * std::sin(2.3 * i));
    level.push_back(10 + 0.02 * std::sin(2.3 * i));
  }
  EXPECT_LT(drift(rising).p, 0.01);
  EXPECT_GT(drift(rising).statistic, 0);
  EXPECT_GT(drift(level).p, 0.2);
}

TEST(Statistics, samples_of_equal_values_differ_in_nothing) {
  const std::vector<double> a(6, 2.0), b(7, 2.0), c(6, 3.0);
  EXPECT_EQ(mann_whitney(a, b).p, 1);
  EXPECT_EQ(permutation_test(a, b, difference_of_means).p, 1);
  EXPECT_EQ(equivalence_test(welch(a, b), 0.1).p, 0);
  EXPECT_EQ(equivalence_test(welch(a, c), 0.1).p, 1);
  EXPECT_EQ(analysis_of_variance({a, b}).p, 1);
  EXPECT_EQ(analysis_of_variance({a, c}).p, 0);
  EXPECT_EQ(trend_test(a, a).p, 1);
  EXPECT_EQ(median_interval(a).low, 2);
  EXPECT_NEAR(cliffs_delta(a, c), -1, kRounding);
}

TEST(Statistics, intervals_cover_the_median_as_often_as_they_say) {
  // Of 400 samples of 12 from a skewed distribution with median 1, between 91 and 99 % of 95 % intervals hold it: 5 standard errors of 0.011, and what
  // is known of BCa on samples so small.
  std::uint64_t state = 1;
  const auto uniform = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (static_cast<double>(state >> 11) + 0.5) / 9007199254740992.0;
  };
  int holds = 0;
  for (int i = 0; i < 400; ++i) {
    std::vector<double> sample;
    for (int j = 0; j < 12; ++j) sample.push_back(-std::log(uniform()) / std::log(2.0));
    const Interval interval = median_interval(sample, {.resamples = 999});
    holds += interval.low <= 1 && interval.high >= 1;
  }
  EXPECT_GE(holds, 364);
  EXPECT_LE(holds, 396);
}

}  // namespace
}  // namespace gemel::study
