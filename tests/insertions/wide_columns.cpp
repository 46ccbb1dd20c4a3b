// GEMM for GPUs, a work-item a column in groups of 64: a form that `tests/insertions/run` adds to a copy of the sources.
#include <algorithm>

#include "engine/ops/matmul/form_parts.h"

namespace gemel::gemm {
namespace {

constexpr std::int64_t kGroup = 64;

void launch_wide_columns(Device& device, const GemmProblem& p, const GemmOperands& o) {
  if (is_empty(p)) return;
  const bool ta = p.a == Transpose::yes, tb = p.b == Transpose::yes;
  const std::int64_t one = 1;
  device.run(device.kernel("any/gemm_columns.cl", "gemm_columns", "", p.epilogue.text),
             opencl::range3({round_up(p.n, kGroup), std::min(ceil_div(p.m, 8), opencl::kMostGroups), std::min(p.batch, opencl::kMostGroups)}, {kGroup, 1, 1}),
             {o.a, o.b, o.c, p.m, p.n, p.k, p.batch, ta ? one : p.k, ta ? p.m : one, tb ? p.k : one, tb ? one : p.n, p.stride_a, p.stride_b, p.stride_c,
              std::int32_t{p.adds}},
             p.epilogue.arguments);
}

}  // namespace

extern constinit const GemmForm kWideColumns{
    .name = "wide_columns",
    .doc = "one work-item a column, in groups of 64",
    .target = Target::gpu,
    .needs = {.group_size = kGroup},
    .declines = [](const GemmProblem& p, const DeviceProfile&) { return unless_float32(p); },
    .rank = [](const GemmProblem&, const DeviceProfile&) { return 1000; },
    .launch = launch_wide_columns,
};

}  // namespace gemel::gemm
