#include "tests/support/operators/gemm_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "tests/support/operators/double_product.h"

namespace gemel::testing {
namespace {

constexpr float kSentinel = -12345;
constexpr std::int64_t kGuard = 64;  // floats after C that nobody may touch

std::int64_t elements_of_batch(std::int64_t one, std::int64_t stride, std::int64_t batch) { return stride * (batch - 1) + one; }

struct Matrices {
  const std::vector<float>&a, &b, &before, &c;
};

/// @return the first element that is wrong, or empty. @param unit  as of check_product
std::string difference_of_product(const opencl::GemmProblem& p, const Matrices& all, double unit) {
  const auto& [a, b, before, c] = all;
  for (std::int64_t g = 0; g < p.batch; ++g)
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        const bool by_columns = p.a == Transpose::yes, by_rows = p.b == Transpose::yes;
        const auto [sum, magnitude] = dot_product(a.data() + g * p.stride_a + (by_columns ? i : i * p.k), by_columns ? p.m : 1,
                                                  b.data() + g * p.stride_b + (by_rows ? j * p.k : j), by_rows ? 1 : p.n, p.k);
        const std::int64_t at_c = g * p.stride_c + i * p.n + j;
        const double old = p.adds ? static_cast<double>(before[at(at_c)]) : 0;
        const double wanted = sum + old, bound = unit * static_cast<double>(p.k + 4) * (magnitude + std::abs(old)), found = static_cast<double>(c[at(at_c)]);
        if (!(std::abs(found - wanted) <= bound))
          return fmt::format("m {} n {} k {} batch {} A{} B{}: element [{}, {}] is {}, not {}", p.m, p.n, p.k, g, by_columns ? "'" : "", by_rows ? "'" : "", i,
                             j, found, wanted);
      }
  for (std::size_t i = c.size() - kGuard; i < c.size(); ++i)
    if (c[i] != kSentinel) return "an element after C was written";
  return "";
}

}  // namespace

std::vector<float> drawn_floats(std::int64_t count, std::uint32_t seed) {
  std::vector<float> out(at(count));
  for (float& v : out) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(seed >> 8) / static_cast<float>(1 << 23) - 1;
  }
  return out;
}

std::string check_product(opencl::Device& device, const opencl::GemmProblem& p, std::int64_t workspace_bytes,
                          const std::function<void(opencl::Device&, const opencl::GemmProblem&, const opencl::GemmOperands&)>& run, double unit) {
  const auto a = drawn_floats(elements_of_batch(p.m * p.k, p.stride_a, p.batch), 1), b = drawn_floats(elements_of_batch(p.k * p.n, p.stride_b, p.batch), 2);
  auto c = drawn_floats(elements_of_batch(p.m * p.n, p.stride_c, p.batch), 3);
  if (!p.adds) std::fill(c.begin(), c.end(), std::numeric_limits<float>::quiet_NaN());  // must not be read
  c.insert(c.end(), kGuard, kSentinel);
  const auto before = c;
  const Operand on_a(device, a), on_b(device, b), on_c(device, c), workspace(device, ceil_div(workspace_bytes, 4));
  opencl::Region written = on_c.region();
  written.bytes -= 4 * kGuard;
  run(device, p, {on_a.region(), on_b.region(), written, workspace.region()});
  device.read(on_c.region(), std::as_writable_bytes(std::span(c)));
  return difference_of_product(p, {a, b, before, c}, unit);
}

}  // namespace gemel::testing
