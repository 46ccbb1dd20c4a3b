// Batch normalisation: accuracy far from 0, determinism of the split, the running statistics.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/numbers.h"
#include "engine/base/philox.h"
#include "engine/device/device_memory.h"
#include "engine/device/dispatch.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "tests/support/device/test_device.h"

namespace gemel::testing {
namespace {

std::vector<double> draws(std::int64_t n, double offset) {
  PhiloxStream random(7, 1);
  std::vector<double> out(at(n));
  for (double& x : out) x = static_cast<float>(offset + random.uniform());
  return out;
}

struct Statistics {
  std::vector<double> mean, inverse, running_mean, running_var;
};
Statistics run(Session& session, const Variant& variant, const Shape& shape, const std::vector<double>& x) {
  const Spec image{shape, DType::float32}, channel = f32({shape.back()});
  const Specs in{image, channel, channel, channel, channel, i64({})}, out{image, channel, channel};
  const Attributes attributes{{"momentum", 0.25}, {"eps", 0.0}};
  const Value values = session.tensor(image, std::span<const double>(x));
  std::vector<Value> given{values}, made;
  for (double v : {1.0, 0.0, 0.0, 1.0}) given.push_back(full(session, channel, v));
  given.push_back(full(session, i64({}), 6));
  for (const Spec& spec : out) made.push_back(session.empty(spec));
  std::vector<opencl::Region> in_regions, out_regions;
  for (const Value& v : given) in_regions.push_back(region_of(v));
  for (const Value& v : made) out_regions.push_back(region_of(v));
  launch(session, variant, {batch_norm_def(), attributes, in, out}, in_regions, out_regions);
  EXPECT_EQ(read(given[5]), std::vector<double>{7});
  return {read(made[1]), read(made[2]), read(given[3]), read(given[4])};
}

TEST(BatchNorm, variance_keeps_its_digits_where_the_mean_is_far_from_zero) {
  const Shape shape{3, 40, 40, 5};
  const std::int64_t n = shape.product(0, 3);
  const std::vector<double> x = draws(shape.elements(), 1000);
  for (const Variant& variant : batch_norm_def().variants) {
    const Statistics s = run(test_session(), variant, shape, x);
    for (std::size_t c = 0; c < 5; ++c) {
      double mean = 0, m2 = 0;
      for (std::size_t i = c; i < x.size(); i += 5) mean += x[i] / static_cast<double>(n);
      for (std::size_t i = c; i < x.size(); i += 5) m2 += (x[i] - mean) * (x[i] - mean);
      const double variance = m2 / static_cast<double>(n);
      EXPECT_NEAR(s.mean[c], mean, 2e-4) << variant.name;  // three units in the last place of 1000
      // The mean is off by an ulp of 1000, 6e-5, against a deviation of 0.3: the square of their ratio is 4e-8. The
      // naive formula would be off by 0.06 of 0.08.
      EXPECT_NEAR(s.inverse[c] * std::sqrt(variance), 1, 1e-5) << variant.name;
      EXPECT_NEAR(s.running_mean[c], 0.25 * mean, 1e-4) << variant.name;
      const double unbiased = m2 / static_cast<double>(n - 1);
      EXPECT_NEAR(s.running_var[c], 0.75 + 0.25 * unbiased, 1e-5) << variant.name;
    }
  }
}

TEST(BatchNorm, the_same_input_gives_the_same_bits) {
  const Shape shape{8, 33, 17, 12};
  const std::vector<double> x = draws(shape.elements(), -3);
  for (const Variant& variant : batch_norm_def().variants) {
    const Statistics a = run(test_session(), variant, shape, x), b = run(test_session(), variant, shape, x);
    EXPECT_EQ(a.mean, b.mean);
    EXPECT_EQ(a.inverse, b.inverse);
  }
}

TEST(BatchNorm, leaves_the_running_statistics_alone_in_inference) {
  Session& session = test_session();
  const Value mean = full(session, f32({2}), 3), variance = full(session, f32({2}), 4), one = full(session, f32({2}), 1);
  const Value y = batch_norm_inference(full(session, f32({1, 2}), 5), {one, one}, mean, variance, 0);
  EXPECT_EQ(read(y), (std::vector<double>{2, 2}));
  EXPECT_EQ(version_of(mean), 0u);
  EXPECT_EQ(read(mean), (std::vector<double>{3, 3}));
}

/// y, and the gradients of a sum of y with weights for the two parts of x and for gamma.
struct Normalised {
  std::vector<double> y;
  std::vector<std::vector<double>> gradients;
};

TEST(BatchNorm, of_a_batch_in_parts_is_the_application_of_their_merged_moments) {
  const auto session = Session::reference();
  const auto numbers = [&](const Shape& shape, double offset) {
    const auto x = draws(shape.elements(), offset);
    return session->tensor({shape, DType::float32}, std::span<const double>(x));
  };
  const Value first = leaf(numbers({2, 3}, 1)), second = leaf(numbers({3, 3}, -2)), gamma = leaf(numbers({3}, 0.5)), beta = numbers({3}, 0);
  const Value weights = numbers({5, 3}, -0.5);
  const double eps = 1e-5;
  const auto results = [&](const Value& y) {
    Normalised out{read(y), {}};
    for (const Value& g : gradient({sum(y * weights)}, {first, second, gamma})) out.gradients.push_back(read(g));
    return out;
  };
  const Value mean = full(*session, f32({3}), 0), variance = full(*session, f32({3}), 1), batches = full(*session, i64({}), 0);
  const Normalised whole = results(batch_norm(concatenate({first, second}, 0), {gamma, beta}, {mean, variance, batches}, 0.1, eps));

  const Moments a = channel_moments(first), b = channel_moments(second);
  const Value merged = (a.mean * 2.0 + b.mean * 3.0) / 5.0;
  const Value squares = a.squares + b.squares + square(b.mean - a.mean) * (2.0 * 3.0 / 5.0);
  const auto apply_to = [&](const Value& x) { return batch_norm_inference(x, {gamma, beta}, merged, squares / 5.0, eps); };
  const Normalised parts = results(concatenate({apply_to(first), apply_to(second)}, 0));

  for (std::size_t i = 0; i < whole.y.size(); ++i) EXPECT_NEAR(parts.y[i], whole.y[i], 1e-12);
  for (std::size_t k = 0; k < whole.gradients.size(); ++k)
    for (std::size_t i = 0; i < whole.gradients[k].size(); ++i) EXPECT_NEAR(parts.gradients[k][i], whole.gradients[k][i], 1e-11) << k;
}

}  // namespace
}  // namespace gemel::testing
