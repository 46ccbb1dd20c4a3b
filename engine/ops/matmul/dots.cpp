// GEMM by dot products of rows of A and of a transposed B, for CPUs (opencl/kernels/cpu/gemm_dots.cl).
#include <fmt/format.h>

#include <string>

#include "engine/ops/matmul/form_parts.h"

namespace gemel::gemm {
namespace {

/// Dot products pack nothing, which pays for few rows; for more of them where B is larger than the caches.
bool dots_fit(const GemmProblem& p) {
  constexpr std::int64_t kRows = 32, kRowsOfLargeB = 64, kLargeB = 1 << 21, kShortestSum = 256;
  return p.b == Transpose::yes && p.k >= kShortestSum && p.m <= (p.n * p.k >= kLargeB ? kRowsOfLargeB : kRows);
}

/// Whether A has to be turned before; one row lies the same both ways.
bool turns(const GemmProblem& p) { return p.a == Transpose::yes && p.m > 1; }

void launch_dots(Device& device, const GemmProblem& p, const GemmOperands& o) {
  if (is_empty(p)) return;
  const bool wide = device.profile().has_wide_vectors();
  const std::int64_t rows = p.m <= 2 ? 2 : 4, columns = rows == 2 ? (wide ? 8 : 6) : (wide ? 6 : 3);  // sums fill the vector registers
  const bool apart = rows == 2 && p.n * p.k > kSecondCache;
  const std::string options = fmt::format("-DWIDTH={} -DROWS={} -DCOLUMNS={}{}", wide ? 16 : 8, rows, columns, apart ? " -DAPART" : "");
  if (turns(p))
    device.run(device.kernel("cpu/gemm_dots.cl", "gemm_turn", options), opencl::range2({p.m, matrices(p, p.stride_a)}, {1, 1}),
               {o.a, o.workspace, p.m, p.k, p.stride_a});
  device.run(
      device.kernel("cpu/gemm_dots.cl", "gemm_dots", options, p.epilogue.text),
      opencl::range3({ceil_div(p.m, rows), ceil_div(p.n, columns), p.batch}, {1, 1, 1}),
      {turns(p) ? o.workspace : o.a, o.b, o.c, p.m, p.n, p.k, turns(p) && p.stride_a ? p.m * p.k : p.stride_a, p.stride_b, p.stride_c, std::int32_t{p.adds}},
      p.epilogue.arguments);
}

const char* unless_dots(const GemmProblem& p, const DeviceProfile&) {
  if (const char* why = unless_float32(p)) return why;
  return p.b == Transpose::no ? "B is not transposed" : nullptr;
}

}  // namespace

extern constinit const GemmForm kDots{
    .name = "dots",
    .doc = "dot products of rows of A and of a transposed B",
    .target = Target::cpu,
    .needs = kOfCpus,
    .declines = unless_dots,
    .longest_loop = [](const GemmProblem& p, const DeviceProfile&) { return turns(p) ? p.m * p.n * p.k : 0; },
    .rank = [](const GemmProblem& p, const DeviceProfile& d) { return !has_vectors(d) ? 1
                                                                      : dots_fit(p)   ? 64
                                                                                      : 20; },
    .workspace_bytes = [](const GemmProblem& p, const DeviceProfile&) { return turns(p) ? 4 * matrices(p, p.stride_a) * p.m * p.k : 0; },
    .launch = launch_dots,
};

}  // namespace gemel::gemm
