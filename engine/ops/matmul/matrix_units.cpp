// GEMM on matrix units, in TF32 where that was asked for, else as three products of it (3xTF32) with float32's precision: lib/tiles/matrix_tile.clh.
#include "engine/ops/matmul/form_parts.h"
#include "engine/ops/matmul/group_tiles.h"

namespace gemel::gemm {
namespace {

GroupTile tile_for(const GemmProblem& p, const DeviceProfile& d) { return fastest_of(unit_tiles(d), p, d).tile; }

const char* unless_units(const GemmProblem& p, const DeviceProfile& d) { return unless_tile(tile_for(p, d), p, d); }

/// First where fewer digits were asked for. Else last: it was measured nowhere yet, so `gemel tune` has to find it faster.
int rank_of_units(const GemmProblem&, const DeviceProfile& d) {
  constexpr int kAsked = 70, kUnmeasured = -1;
  return d.precision() == Precision::float32 ? kUnmeasured : kAsked;
}

std::int64_t workspace_of_units(const GemmProblem& p, const DeviceProfile& d) { return workspace_of(tile_for(p, d), p, d); }

void launch_units(Device& device, const GemmProblem& p, const GemmOperands& o) { launch_tile(tile_for(p, device.profile()), device, p, o); }

}  // namespace

extern constinit const GemmForm kMatrixUnits{
    .name = "matrix_units",
    .doc = "a tile for each work-group on matrix units; in float32, or in TF32 with --precision tf32",
    .target = Target::gpu,
    .needs = {.group_size = 256, .matrix_units = true},
    .declines = unless_units,
    .longest_loop = [](const GemmProblem& p, const DeviceProfile& d) { return longest_loop_of(tile_for(p, d), p); },
    .rank = rank_of_units,
    .workspace_bytes = workspace_of_units,
    .launch = launch_units,
};

}  // namespace gemel::gemm
