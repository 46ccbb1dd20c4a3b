// GEMM of any layout, one work-item a column: for devices whose lanes are work-items (opencl/kernels/any/gemm_columns.cl).
#include <algorithm>

#include "engine/ops/matmul/form_parts.h"

namespace gemel::gemm {
namespace {

void launch_columns(Device& device, const GemmProblem& p, const GemmOperands& o) {
  if (is_empty(p)) return;
  constexpr std::int64_t kGroup = 32;
  const bool ta = p.a == Transpose::yes, tb = p.b == Transpose::yes;
  const std::int64_t one = 1;
  device.run(device.kernel("any/gemm_columns.cl", "gemm_columns", "", p.epilogue.text),
             opencl::range3({round_up(p.n, kGroup), std::min(ceil_div(p.m, 8), opencl::kMostGroups), std::min(p.batch, opencl::kMostGroups)}, {kGroup, 1, 1}),
             {o.a, o.b, o.c, p.m, p.n, p.k, p.batch, ta ? one : p.k, ta ? p.m : one, tb ? p.k : one, tb ? one : p.n, p.stride_a, p.stride_b, p.stride_c,
              std::int32_t{p.adds}},
             p.epilogue.arguments);
}

}  // namespace

extern constinit const GemmForm kColumns{
    .name = "columns",
    .doc = "one work-item a column",
    .declines = [](const GemmProblem& p, const DeviceProfile&) { return unless_float32(p); },
    .rank =
        [](const GemmProblem&, const DeviceProfile& d) {
          if (has_vectors(d)) return 0;
          return d.runs_items_in_lanes() ? 10 : 60;
        },
    .launch = launch_columns,
};

}  // namespace gemel::gemm
