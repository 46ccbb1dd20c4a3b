// GEMM of two-byte operands: widened to float32 before the product, which is then narrowed. A product costs k times what widening its operands does.
#include <array>
#include <string>

#include "engine/base/dtype.h"
#include "engine/ops/common.h"
#include "engine/ops/matmul/form_parts.h"
#include "engine/ops/workspace_sections.h"

namespace gemel::gemm {
namespace {

GemmProblem in_float32(GemmProblem p) {
  p.types = {};
  return p;
}

/// Elements of A, B and C.
std::array<std::int64_t, 3> elements_of(const GemmProblem& p) {
  return {matrices(p, p.stride_a) * p.m * p.k, matrices(p, p.stride_b) * p.k * p.n, p.batch * p.m * p.n};
}

/// Where A, B and C lie in float32, and the product's own workspace behind them.
Sections<3> sections_of(const GemmProblem& p, const DeviceProfile& d) {
  const auto [a, b, c] = elements_of(p);
  return {{4 * a, 4 * b, 4 * c}, d};
}

const char* unless_two_bytes(const GemmProblem& p, const DeviceProfile&) {
  if (!is_two_bytes(p.types.in) || p.types != opencl::GemmTypes{.in = p.types.in, .out = p.types.in}) return "its elements do not have two bytes";
  return p.epilogue.text.empty() ? nullptr : "it computes no epilogue";
}

std::int64_t widened_bytes(const GemmProblem& p, const DeviceProfile& d) {
  const GemmProblem product = in_float32(p);
  return sections_of(p, d).bytes() + product_form(product, d).workspace_bytes(product, d);
}

/// Elements from one type to another, by either kernel of convert.cl.
void convert(Device& device, opencl::Kernel& kernel, const opencl::Region& from, const opencl::Region& to, std::int64_t n) {
  constexpr std::int64_t kRun = 4096, kGroup = 64;  // of a work-item on a CPU
  const bool in_lanes = device.profile().runs_items_in_lanes();
  const std::int64_t run = in_lanes ? 1 : kRun, group = in_lanes ? kGroup : 1;
  device.run(kernel, opencl::range1(round_up(ceil_div(n, run), group), group), {from, to, n, run});
}

void launch_widened(Device& device, const GemmProblem& p, const GemmOperands& o) {
  if (is_empty(p)) return;
  const GemmProblem product = in_float32(p);
  const Sections<3> sections = sections_of(p, device.profile());
  const opencl::Region a = sections.in(o.workspace, 0), b = sections.in(o.workspace, 1), c = sections.in(o.workspace, 2);
  const auto [in_a, in_b, in_c] = elements_of(p);
  const std::string options = type_options(p.types.in);
  opencl::Kernel& widen = device.kernel("any/convert.cl", "widen", options);
  convert(device, widen, o.a, a, in_a);
  convert(device, widen, o.b, b, in_b);
  if (p.adds) convert(device, widen, o.c, c, in_c);
  product_form(product, device.profile()).launch(device, product, {a, b, c, sections.rest(o.workspace)});
  convert(device, device.kernel("any/convert.cl", "narrow", options), c, o.c, in_c);
}

}  // namespace

extern constinit const GemmForm kWidened{
    .name = "widened",
    .doc = "float16 and bfloat16 as float32, by the form that suits that product",
    .declines = unless_two_bytes,
    .workspace_bytes = widened_bytes,
    .products = [](const GemmProblem& p) { return std::vector{matmul_of(in_float32(p))}; },
    .launch = launch_widened,
};

}  // namespace gemel::gemm
