// GEMM of few rows, for CPUs: B is read once as it lies, or in parts along k whose sums are added (opencl/kernels/cpu/gemm_few_rows.cl).
#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/matmul/form_parts.h"

namespace gemel::gemm {
namespace {

constexpr std::int64_t kMostRows = 8;  // B is larger than all that is computed from it: memory is the limit

void launch_few_rows(Device& device, const GemmProblem& p, const GemmOperands& o) {
  if (is_empty(p)) return;
  constexpr std::int64_t kLeast = 64;
  // From memory, long rows keep its pages open; from a cache, short ones keep the sums in the first.
  const std::int64_t one = 1, chunk = holds_b(device.profile(), p) ? 512 : 2048, wanted = ceil_div(p.n, device.profile().compute_units);
  const std::int64_t columns = std::clamp(round_up(ceil_div(wanted, ceil_div(wanted, chunk)), 16), kLeast, chunk);
  const bool ta = p.a == Transpose::yes;
  device.run(device.kernel("cpu/gemm_few_rows.cl", "gemm_few_rows", fmt::format("-DROWS={} -DCHUNK={}", p.m, chunk), p.epilogue.text),
             opencl::range2({ceil_div(p.n, columns), p.batch}, {1, 1}),
             {o.a, o.b, o.c, p.n, p.k, ta ? one : p.k, ta ? p.m : one, columns, p.stride_a, p.stride_b, p.stride_c, std::int32_t{p.adds}},
             p.epilogue.arguments);
}

const char* unless_few_rows(const GemmProblem& p, const DeviceProfile&) {
  if (const char* why = unless_float32(p)) return why;
  if (p.b == Transpose::yes) return "B is transposed";
  return p.m > kMostRows ? "the product has more than 8 rows" : nullptr;
}
std::int64_t loop_of_few_rows(const GemmProblem& p, const DeviceProfile&) { return p.m * p.n * p.k; }
int rank_of_few_rows(const GemmProblem& p, const DeviceProfile& d) {
  // From a cache, a whole tile of many rows is faster.
  const bool whole_tile = p.m > 4 && cheapest_height(p, d) == p.m;
  return !has_vectors(d) ? 1 : whole_tile && holds_b(d, p) ? 39 : 62;
}

/// Into how many parts k is cut, so that each core reads whole rows of B: of shares of its columns, a few kilobytes each, memory gives less. As
/// many for each unit, of few enough terms that a sum of all rounds little. 0: there is no such cut.
std::int64_t parts_of(const GemmProblem& p, const DeviceProfile& d) {
  constexpr std::int64_t kMostTerms = 256, kLeastTerms = 64;
  for (std::int64_t parts = round_up(std::max<std::int64_t>(ceil_div(p.k, kMostTerms), 1), d.compute_units); p.k >= parts * kLeastTerms;
       parts += d.compute_units)
    if (p.k % parts == 0) return parts;
  return 0;
}

/// The parts are so many products, whose sums lie in the workspace.
void launch_parts(Device& device, const GemmProblem& p, const GemmOperands& o) {
  if (is_empty(p)) return;
  constexpr std::int64_t kSums = 1 << 15, kGroupOfSum = 256;  // sums of all rows at the most, which the second cache holds; columns
  const std::int64_t parts = parts_of(p, device.profile()), terms = p.k / parts, one = 1;
  std::int64_t chunk = 16;  // one of few, each of which is a program
  while (chunk < p.n && chunk < kSums / kMostRows) chunk *= 2;
  const std::int64_t columns = round_up(ceil_div(p.n, ceil_div(p.n, chunk)), 16);
  const bool ta = p.a == Transpose::yes;
  device.run(device.kernel("cpu/gemm_few_rows.cl", "gemm_few_rows", fmt::format("-DROWS={} -DCHUNK={}", p.m, chunk)),
             opencl::range2({ceil_div(p.n, columns), parts}, {1, 1}),
             {o.a, o.b, o.workspace, p.n, terms, ta ? one : p.k, ta ? p.m : one, columns, ta ? terms * p.m : terms, terms * p.n, p.m * p.n, std::int32_t{0}});
  device.run(device.kernel("cpu/gemm_few_rows.cl", "gemm_sum_parts", fmt::format("-DROWS={} -DCHUNK={}", p.m, kGroupOfSum), p.epilogue.text),
             opencl::range2({ceil_div(p.n, kGroupOfSum), p.m}, {1, 1}), {o.workspace, o.c, p.n, p.m * p.n, parts, std::int32_t{p.adds}}, p.epilogue.arguments);
}

const char* unless_parts(const GemmProblem& p, const DeviceProfile& d) {
  if (const char* why = unless_few_rows(p, d)) return why;
  if (p.batch != 1) return "there are several products";
  return parts_of(p, d) == 0 ? "the inner axis cannot be cut into parts" : nullptr;
}
int rank_of_parts(const GemmProblem& p, const DeviceProfile& d) {
  constexpr std::int64_t kShort = 2048;  // columns of a unit that are read well as they lie
  return !has_vectors(d) ? 1 : p.n < kShort * d.compute_units && p.n * p.k > kSecondCache ? 63 : 30;
}

}  // namespace

extern constinit const GemmForm kFewRows{
    .name = "few_rows",
    .doc = "at most 8 rows, B read once as it lies",
    .target = Target::cpu,
    .needs = kOfCpus,
    .declines = unless_few_rows,
    .longest_loop = loop_of_few_rows,
    .rank = rank_of_few_rows,
    .launch = launch_few_rows,
};

extern constinit const GemmForm kParts{
    .name = "parts",
    .doc = "at most 8 rows, B read in parts along k, a whole row at a time",
    .target = Target::cpu,
    .needs = kOfCpus,
    .declines = unless_parts,
    .longest_loop = loop_of_few_rows,
    .rank = rank_of_parts,
    .workspace_bytes = [](const GemmProblem& p, const DeviceProfile& d) { return 4 * parts_of(p, d) * p.m * p.n; },
    .launch = launch_parts,
};

}  // namespace gemel::gemm
