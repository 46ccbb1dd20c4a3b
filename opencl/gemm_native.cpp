// Gemel's own GEMM, shaped for CPUs: both operands are packed into panels, then one work-item a group computes tiles of
// `rows` x `columns` held in registers. kernels/gemm.cl explains the layout.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/span.h"
#include "opencl/gemm_providers.h"

namespace gemel::opencl {
namespace {

constexpr std::int64_t kKBlock = 256;      // of the inner axis: a panel's share stays in the first cache
constexpr std::int64_t kBlocksAGroup = 8;  // register tiles that one group computes against one panel of B

/// The register tile: accumulators plus a row of B fill the vector registers (32 of 16 lanes, or 16 of 8).
struct Tile {
  std::int64_t rows, columns;
};
Tile tile_for(const DeviceProfile& d) { return d.simd_width >= 16 ? Tile{12, 32} : Tile{6, 16}; }

struct Plan {
  Tile tile;
  std::int64_t row_panels, column_panels, batch_a, batch_b, bytes_a, bytes_b;
};
Plan plan_of(const GemmProblem& p, const DeviceProfile& d) {
  const Tile t = tile_for(d);
  Plan plan{t, ceil_div(p.m, t.rows), ceil_div(p.n, t.columns), p.stride_a ? p.batch : 1, p.stride_b ? p.batch : 1, 0, 0};
  plan.bytes_a = round_up(std::max<std::int64_t>(4 * plan.batch_a * plan.row_panels * t.rows * p.k, 64), d.base_alignment_bytes);
  plan.bytes_b = round_up(std::max<std::int64_t>(4 * plan.batch_b * plan.column_panels * t.columns * p.k, 64), d.base_alignment_bytes);
  return plan;
}

const char* declines(const GemmProblem&, const DeviceProfile&) { return nullptr; }

int rank(const GemmProblem&, const DeviceProfile& d) {
  if (d.gemm == GemmChoice::native) return 100;
  return d.is_cpu() ? 60 : 10;
}

std::int64_t workspace_bytes(const GemmProblem& p, const DeviceProfile& d) {
  const Plan plan = plan_of(p, d);
  return plan.bytes_a + plan.bytes_b;
}

/// Packs `extent` rows (or columns) into panels `width` wide. @param outer, inner  strides along the extent and along k
void pack(Device& device, const std::string& options, const Region& from, const Region& to, std::int64_t extent, std::int64_t k,
          std::int64_t width, std::int64_t outer, std::int64_t inner, std::int64_t batch, std::int64_t stride) {
  const char* name = outer == 1 ? "pack_rows" : "pack_transposed";
  device.run(device.kernel("gemm.cl", name, options), range3({ceil_div(extent, width), ceil_div(k, kKBlock), batch}, {1, 1, 1}),
             {from, to, extent, k, width, outer, inner, stride});
}

void run(Device& device, const GemmProblem& p, const Region& a, const Region& b, const Region& c, const Region& workspace) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  const Plan plan = plan_of(p, device.profile());
  const std::string options = fmt::format("-DMR={} -DNR={} -DK_BLOCK={}", plan.tile.rows, plan.tile.columns, kKBlock);
  const Region pa{workspace.block, workspace.offset, plan.bytes_a};
  const Region pb{workspace.block, workspace.offset + plan.bytes_a, plan.bytes_b};
  const bool ta = p.a == Transposed::yes, tb = p.b == Transposed::yes;
  pack(device, options, a, pa, p.m, p.k, plan.tile.rows, ta ? 1 : p.k, ta ? p.m : 1, plan.batch_a, p.stride_a);
  pack(device, options, b, pb, p.n, p.k, plan.tile.columns, tb ? p.k : 1, tb ? 1 : p.n, plan.batch_b, p.stride_b);
  const std::int64_t panel_a = plan.batch_a > 1 ? plan.row_panels * plan.tile.rows * p.k : 0;
  const std::int64_t panel_b = plan.batch_b > 1 ? plan.column_panels * plan.tile.columns * p.k : 0;
  // Enough groups for every unit, several register tiles in each so that a panel of B is read from cache.
  const std::int64_t groups_wanted = 4 * device.profile().compute_units;
  std::int64_t blocks = kBlocksAGroup;
  while (blocks > 1 && plan.column_panels * ceil_div(plan.row_panels, blocks) * p.batch < groups_wanted) blocks /= 2;
  device.run(device.kernel("gemm.cl", "gemm", options),
             range3({plan.column_panels, ceil_div(plan.row_panels, blocks), p.batch}, {1, 1, 1}),
             {pa, pb, c, p.m, p.n, p.k, blocks, panel_a, panel_b, p.stride_c, p.alpha, p.beta});
}

}  // namespace

GemmProvider native_gemm() { return {"native", declines, rank, workspace_bytes, run}; }

}  // namespace gemel::opencl
