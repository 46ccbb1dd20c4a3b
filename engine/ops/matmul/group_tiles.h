// Products by a tile for each work-group, for GPUs: which tiles there are, and how a product is cut (opencl/kernels/lib/tiles/group_tile.clh).
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "opencl/gemm_problem.h"

namespace gemel::gemm {

/// What multiplies: fused multiply-adds, or matrix units.
enum class TileArithmetic { fma, matrix_units };

struct GroupTile {
  std::int64_t rows, columns, depth;
  std::int64_t across;  // work-items side by side, or with matrix units warps
  double rate;          // of the arithmetic, over the largest tile's of fused multiply-adds: the smaller a tile, the more of its instructions load (estimated)
  std::int64_t group = 256;  // work-items
  TileArithmetic arithmetic = TileArithmetic::fma;
};
inline constexpr std::array kGroupTiles{GroupTile{128, 128, 8, 16, 1}, GroupTile{128, 64, 8, 16, 0.9}, GroupTile{64, 64, 16, 16, 0.7},
                                        GroupTile{128, 32, 16, 8, 0.7}};
/// Those on the device's matrix units, for the precision that its products have.
std::span<const GroupTile> unit_tiles(const opencl::DeviceProfile& profile);
/// The tile that the device gets: where work-items must be short a small one of the same form.
GroupTile tile_on(const GroupTile& tile, const opencl::DeviceProfile& profile);

/// What moving an element to or from memory takes of the time that parts_of estimates, where nothing is known of the device's memory.
inline constexpr double kMemoryElement = 40;

/// Where a product has too few tiles to fill the device, its inner axis is cut into parts, whose sums are then added up.
struct TileParts {
  std::int64_t terms, count;
  double time;  // of the device, in multiplications of a unit
};
TileParts parts_of(const GroupTile& tile, const opencl::GemmProblem& product, const opencl::DeviceProfile& profile);
/// Bytes of the sums of a product's parts; 0 where there is one.
std::int64_t workspace_of(const GroupTile& tile, const opencl::GemmProblem& product, const opencl::DeviceProfile& profile);
/// Why no group computes such a tile of the product; null: they do.
const char* unless_tile(const GroupTile& tile, const opencl::GemmProblem& product, const opencl::DeviceProfile& profile);
/// @param tile  as the device gets it
void launch_tile(const GroupTile& tile, opencl::Device& device, const opencl::GemmProblem& product, const opencl::GemmOperands& operands);
/// Whether the registers of the device's work-items hold its results beside what is on its way.
bool has_registers_for(const GroupTile& tile, const opencl::DeviceProfile& profile);
std::int64_t tiles_of(const GroupTile& tile, const opencl::GemmProblem& product);
/// Iterations of a work-item's longest loop.
std::int64_t longest_loop_of(const GroupTile& tile, const opencl::GemmProblem& product);

struct TileChoice {
  GroupTile tile;  // as the device gets it
  TileParts parts;
};
/// The tile that takes the least time of those that the device has registers for.
TileChoice fastest_of(std::span<const GroupTile> tiles, const opencl::GemmProblem& product, const opencl::DeviceProfile& profile);
/// How a tile is computed. @param vectors  all rows of all matrices begin at multiples of 16 bytes
GroupTile tile_by(const GroupTile& tile, bool vectors);
/// Of such a tile.
std::string options_of(const GroupTile& tile, bool vectors, const opencl::DeviceProfile& profile);

/// Adds up the sums of the parts [parts, rows, columns] in `parts` into `out`, or to what is there.
struct PartSums {
  opencl::Region parts, out;
  std::int64_t rows, columns, count;
  bool adds;
};
void add_up(opencl::Device& device, const PartSums& sums, const opencl::EpilogueCode& epilogue);

}  // namespace gemel::gemm
