// Numbers at the edges of float32, and kinks: every elementwise record on the device against the reference in double, and the reference against
// PyTorch. Edges are zeros, subnormal numbers, ends of exponentials, the largest numbers, infinities and NaN, of both signs; records of two
// inputs meet all pairs of them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/base/dtype_conversion.h"
#include "engine/gradients/autograd.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/catalog.h"
#include "engine/ops/ops.h"
#include "engine/passes/passes.h"
#include "frontends/nn/loss.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/expected_values.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

constexpr double kLeastNormal = std::numeric_limits<float>::min(), kLargest = std::numeric_limits<float>::max();

const Expected& pytorch() {
  static const Expected expected("edges/expected.safetensors");
  return expected;
}

/// What a record is tried on: its sample's attributes, and edges in place of its numbers.
struct Edges {
  const OpDef* op;
  Attributes attributes;
  Specs specs;
  InputNumbers numbers;

  bool is_derivative() const { return op->inputs[0] == "dy"; }
  bool has_gradient() const { return op->gradient && !is_derivative() && is_floating(op->infer(specs, attributes)[0].dtype); }
  std::string at(std::size_t i) const {
    std::string text = op->name + " of";
    for (const auto& n : numbers) text += fmt::format(" {:.9g}", n[i]);
    return text;
  }
};

Edges edges_of(const OpDef& op, const Sample& sample) {
  Edges e{&op, sample.attributes, {}, {}};
  const bool of_one = sample.inputs.size() == 1;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const std::size_t floats_before = e.specs.size() - (e.specs.empty() || is_floating(e.specs[0].dtype) ? 0 : 1);
    std::vector<double> x = pytorch().numbers(of_one ? "x" : floats_before == 0 ? "a" : "b");
    if (!is_floating(sample.inputs[i].dtype))
      for (std::size_t k = 0; k < x.size(); ++k) x[k] = k % 2 ? 1 : 0;
    e.specs.push_back({Shape{static_cast<std::int64_t>(x.size())}, sample.inputs[i].dtype});
    e.numbers.push_back(std::move(x));
  }
  return e;
}

/// The first sample of each elementwise record that takes float32; of casts those to floating types.
std::vector<Edges> all_edges() {
  std::vector<Edges> out;
  for (const OpDef* op : catalog()) {
    if (!op->elementwise || op == &broadcast_to_def()) continue;
    std::set<DType> made;
    for (const Sample& s : op->samples()) {
      if (s.inputs.back().dtype != DType::float32) continue;
      const DType to = op->infer(s.inputs, s.attributes)[0].dtype;
      if ((op == &cast_def() && !is_floating(to)) || !made.insert(to).second) continue;
      out.push_back(edges_of(*op, s));
    }
  }
  return out;
}

struct Results {
  std::vector<double> y;
  InputNumbers gradients;  // of the sum of y
};

Values outputs_and_gradients(const Edges& e, const Values& in) {
  Values leaves = in;
  if (e.has_gradient())
    for (Value& v : leaves)
      if (is_floating(v.dtype())) v = leaf(v);
  Values out = apply(in[0].session(), *e.op, leaves, e.attributes);
  if (!e.has_gradient()) return out;
  std::erase_if(leaves, [](const Value& v) { return !v.wants_gradient(); });
  for (Value& g : gradient({out[0]}, leaves)) out.push_back(std::move(g));
  return out;
}

Results read_results(const Values& values) {
  Results out{read(values[0]), {}};
  for (std::size_t i = 1; i < values.size(); ++i) out.gradients.push_back(read(values[i]));
  return out;
}

Values inputs_of(Session& session, const Edges& e) {
  Values in;
  for (std::size_t i = 0; i < e.specs.size(); ++i) in.push_back(session.tensor(e.specs[i], std::span<const double>(e.numbers[i])));
  return in;
}

Results results_in(Session& session, const Edges& e) { return read_results(outputs_and_gradients(e, inputs_of(session, e))); }

bool both_nan(double a, double b) { return std::isnan(a) && std::isnan(b); }

/// A few roundings of float32 apart, or as small as what some devices take for 0. Of what overflows float32, its infinity.
bool is_close(double got, double expected, DType dtype, double least) {
  const double rounded = rounded_to(dtype, expected);
  if (both_nan(got, rounded) || got == rounded) return true;
  if (std::isinf(rounded) && std::fabs(expected) < 1.00001 * kLargest)
    return std::fabs(got) >= 0.99999 * kLargest && std::signbit(got) == std::signbit(expected);
  if (std::isnan(got) || std::isnan(rounded) || std::isinf(got) != std::isinf(rounded)) return false;
  return std::fabs(got - rounded) <= 1e-5 * std::fabs(rounded) + least;
}

/// The gradient of these comes from their value, and is told from 0 only as far as that is from 1.
double gradient_floor(const OpDef& op) { return op.name == "sigmoid" || op.name == "tanh" ? 0x1p-23 : kLeastNormal; }

/// Where a formula of float32 over- or underflows before its result does.
bool is_beyond(const Edges& e, std::size_t i, const std::string& what, double got, double expected) {
  if (e.is_derivative()) return std::isinf(e.numbers[0][i]) && std::isnan(got) && std::isinf(expected);  // times a derivative that is 0 in float32
  return e.op->name == "power" && what == "gradient of a" &&
         std::isinf(rounded_to(DType::float32, std::pow(e.numbers[0][i], e.numbers[1][i] - 1)));  // of which its text tells
}

void expect_close(const Edges& e, const Results& got, const Results& expected) {
  const DType dtype = e.op->infer(e.specs, e.attributes)[0].dtype;
  int told = 0;
  const auto expect = [&](const char* what, const std::vector<double>& a, const std::vector<double>& b, double floor) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double scale = e.is_derivative() && std::isfinite(e.numbers[0][i]) ? std::max(1.0, std::fabs(e.numbers[0][i])) : 1;
      const bool same_zero = a[i] != 0 || b[i] != 0 || std::signbit(a[i]) == std::signbit(b[i]);
      if ((same_zero && is_close(a[i], b[i], what[0] == 'v' ? dtype : DType::float32, scale * floor)) || is_beyond(e, i, what, a[i], b[i]) || ++told > 4)
        continue;
      ADD_FAILURE() << e.at(i) << ": " << what << " is " << a[i] << ", expected " << b[i];
    }
  };
  expect("value", got.y, expected.y, kLeastNormal);
  ASSERT_EQ(got.gradients.size(), expected.gradients.size());
  for (std::size_t k = 0; k < got.gradients.size(); ++k)
    expect(k ? "gradient of b" : "gradient of a", got.gradients[k], expected.gradients[k], gradient_floor(*e.op));
}

TEST(EdgeNumbers, every_elementwise_record_is_the_references_on_the_device) {
  const auto reference = Session::reference();
  for (const Edges& e : all_edges()) {
    SCOPED_TRACE(e.op->name);
    expect_close(e, results_in(test_session(), e), results_in(*reference, e));
  }
}

/// With a product by 1 behind each, so that it is fused with something, forwards and backwards. In the short run the activations: a program of
/// fused kernels takes long to build.
TEST(EdgeNumbers, functions_of_one_number_are_the_references_fused_in_a_graph_too) {
  const std::set<std::string> short_run{"silu", "gelu_tanh", "hard_swish", "sigmoid", "clamp"};
  std::vector<Edges> chosen;
  for (Edges& e : all_edges())
    if (e.specs.size() == 1 && e.has_gradient() && e.op->attributes.empty() == (e.op->name != "clamp") && (is_full_run() || short_run.contains(e.op->name)))
      chosen.push_back(std::move(e));
  ASSERT_GE(chosen.size(), short_run.size());
  Session& session = test_session();
  const Spec spec = chosen[0].specs[0];
  Program program = capture(session, {spec, spec}, [&](const Values& in) {
    Values out;
    for (const Edges& e : chosen) {
      const Value x = leaf(in[0]), y = apply(session, *e.op, {x}, e.attributes)[0] * in[1];
      out.insert(out.end(), {y, gradient({y}, {x})[0]});
    }
    return out;
  });
  Executor executor(session, std::make_shared<Program>(optimise(session, std::move(program), parse_passes("all"))));
  const Values found = executor.run({inputs_of(session, chosen[0])[0], full(session, spec, 1)});
  const auto reference = Session::reference();
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    SCOPED_TRACE(chosen[i].op->name);
    expect_close(chosen[i], {read(found[2 * i]), {read(found[2 * i + 1])}}, results_in(*reference, chosen[i]));
  }
}

/// PyTorch's formulas of these lose the last of 1 - 1 in double, too.
double pytorchs_floor(const std::string& name) { return name.starts_with("gelu") ? 0x1p-49 : kLeastNormal; }

/// Where Gemel has another value, of which the record tells.
bool differs_knowingly(const std::string& name, const std::string& part, double x) {
  return name == "gelu_tanh" && part == "dx" && std::isinf(x) &&
         gelu_tanh_gradient_def().doc.find("at the infinities, where PyTorch's is NaN") != std::string::npos;
}

TEST(EdgeNumbers, the_reference_is_pytorchs) {
  const auto reference = Session::reference();
  std::set<std::string> met;
  for (const Edges& e : all_edges()) {
    const std::string& name = e.op->name;
    if (!pytorch().has(name + ".y")) continue;
    met.insert(name);
    const Results got = results_in(*reference, e);
    const auto expect = [&](const std::string& part, const std::vector<double>& a) {
      const std::vector<double> either = pytorch().numbers(name + "." + part);
      for (std::size_t i = 0; i < a.size(); ++i) {
        bool is_one = differs_knowingly(name, part, e.numbers[0][i]);
        for (std::size_t k = i; k < either.size(); k += a.size())
          is_one = is_one || is_close(rounded_to(DType::float32, a[i]), either[k], DType::float32, pytorchs_floor(name));
        EXPECT_TRUE(is_one) << e.at(i) << ": " << part << " is " << a[i] << ", PyTorch has " << either[i];
      }
    };
    expect("y", got.y);
    if (got.gradients.size() == 1) expect("dx", got.gradients[0]);
    if (got.gradients.size() == 2) expect("da", got.gradients[0]), expect("db", got.gradients[1]);
  }
  EXPECT_EQ(met.size(), 28u);
}

using OfRow = std::function<Value(const Value&)>;  // of x [1, 3]

/// Functions of a row, under the names that the expectations have.
std::vector<std::pair<std::string, OfRow>> functions_of_rows() {
  const auto numbers = [](const Value& x, std::vector<double> n) { return x.session().tensor(f32({1, 3}), std::span<const double>(n)); };
  const auto weighted = [=](const Value& y) { return y * numbers(y, {1, 2, 3}); };
  const auto label = [](const Value& x) { return full(x.session(), i64({1}), 0); };
  const auto shares = [=](const Value& x) { return numbers(x, {0.5, 0, 0.5}); };
  return {{"softmax", [=](const Value& x) { return weighted(softmax(x)); }},
          {"log_softmax", [=](const Value& x) { return weighted(log_softmax(x)); }},
          {"layer_norm",
           [=](const Value& x) {
             return layer_norm(x, reshape(numbers(x, {1, 2, 3}), Shape{3}), full(x.session(), f32({3}), 0));
           }},
          {"max", [](const Value& x) { return max(x, {1}); }},
          {"mean", [](const Value& x) { return mean(x, {1}); }},
          {"sum", [](const Value& x) { return sum(x, {1}); }},
          {"max_pool2d",
           [](const Value& x) {
             return max_pool2d(reshape(x, Shape{1, 1, 3, 1}), {.kernel = {1, 3}, .stride = {1, 3}});
           }},
          {"cross_entropy", [=](const Value& x) { return cross_entropy(x, label(x)); }},
          {"cross_entropy_smoothed", [=](const Value& x) { return cross_entropy(x, label(x), 0.1); }},
          {"cross_entropy_of_shares", [=](const Value& x) { return cross_entropy(x, shares(x)); }},
          {"binary_cross_entropy", [=](const Value& x) { return nn::binary_cross_entropy(x, shares(x), LossReduction::sum); }}};
}

/// In float32 sums of such numbers overflow, or their squares.
bool sums_overflow(const std::string& name, std::span<const double> row) {
  return (name == "layer_norm" || name == "cross_entropy_smoothed") && std::ranges::any_of(row, [](double x) { return std::fabs(x) > 1e19; });
}

class EdgeRows : public ::testing::TestWithParam<Where> {};

TEST_P(EdgeRows, functions_of_rows_are_pytorchs) {
  const auto session = session_on(GetParam());
  const std::vector<double> rows = pytorch().numbers("rows");
  for (const auto& [name, function] : functions_of_rows()) {
    const std::vector<double> y = pytorch().numbers(name + ".row_y"), dx = pytorch().numbers(name + ".row_dx");
    for (std::size_t r = 0; r < rows.size() / 3; ++r) {
      const auto row = std::span(rows).subspan(3 * r, 3);
      if (GetParam() == Where::device && sums_overflow(name, row)) continue;
      SCOPED_TRACE(fmt::format("{} of {}", name, fmt::join(row, ", ")));
      const Value x = leaf(session->tensor(f32({1, 3}), row)), out = function(x);
      const auto expect = [&](const char* what, const std::vector<double>& got, std::span<const double> expected) {
        for (std::size_t i = 0; i < got.size(); ++i)
          EXPECT_TRUE(is_close(rounded_to(DType::float32, got[i]), expected[i], DType::float32, 1e-6))
              << what << " " << i << " is " << got[i] << ", PyTorch has " << expected[i];
      };
      const auto n = static_cast<std::size_t>(out.elements());
      expect("value", read(out), std::span(y).subspan(n * r, n));
      expect("gradient", read(gradient({sum(out)}, {x})[0]), std::span(dx).subspan(3 * r, 3));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(where, EdgeRows, ::testing::Values(Where::reference, Where::device),
                         [](const auto& where) { return where.param == Where::device ? "device" : "reference"; });

}  // namespace
}  // namespace gemel::testing
