// GEMM by a tile for each work-group, for GPUs. opencl/kernels/gpu/gemm.cl explains the layout.
#include "engine/ops/matmul/group_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "engine/ops/common.h"
#include "engine/ops/matmul/form_parts.h"
#include "opencl/device/matrix_units.h"

namespace gemel::gemm {
namespace {

constexpr std::int64_t kShortestPart = 128;   // terms
constexpr std::int64_t kLongestPart = 16384;  // a sum of more is further off
constexpr std::int64_t kMostParts = 256;
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - 256;  // and the rest of a tile

// A warp has at most 128 registers of sums: of 64 x 64 results, or of 64 x 32 where short sums are apart from the whole. Rates are estimates.
constexpr TileArithmetic kUnits = TileArithmetic::matrix_units;
constexpr std::array kSplitTiles{GroupTile{128, 128, 16, 4, 1.25, 256, kUnits}, GroupTile{128, 64, 16, 2, 1.1, 256, kUnits},
                                 GroupTile{64, 64, 16, 2, 0.9, 128, kUnits}};
constexpr std::array kTf32Tiles{GroupTile{128, 128, 16, 2, 4, 128, kUnits}, GroupTile{128, 64, 16, 2, 3, 128, kUnits},
                                GroupTile{64, 64, 16, 2, 2, 128, kUnits}};

bool has_vectors_of_4(const GemmProblem& p, const GemmOperands& o) {
  const bool extents = (p.a == Transpose::yes ? p.m : p.k) % 4 == 0 && (p.b == Transpose::yes ? p.k : p.n) % 4 == 0 && p.n % 4 == 0;
  return extents && (p.stride_a | p.stride_b | p.stride_c) % 4 == 0 && (o.a.offset | o.b.offset | o.c.offset) % 16 == 0;
}

template <std::size_t tile>
void launch_group_tiles(Device& device, const GemmProblem& p, const GemmOperands& o) {
  launch_tile(tile_on(kGroupTiles[tile], device.profile()), device, p, o);
}

template <std::size_t tile>
std::int64_t workspace_of_tiles(const GemmProblem& p, const DeviceProfile& d) {
  return workspace_of(tile_on(kGroupTiles[tile], d), p, d);
}

template <std::size_t tile>
const char* unless_group_tiles(const GemmProblem& p, const DeviceProfile& d) {
  const GroupTile& t = kGroupTiles[tile];
  constexpr std::int64_t kSmall = 64;
  if ((t.rows > kSmall && p.m <= kSmall) || (t.columns > kSmall && p.n <= kSmall)) return "a smaller tile holds it";
  if (!has_registers_for(t, d)) return "its results are more than a work-item has registers for";
  return unless_tile(tile_on(t, d), p, d);
}

/// 40 for the tile that takes the least time, less for the others.
template <std::size_t tile>
int rank_of_group_tiles(const GemmProblem& p, const DeviceProfile& d) {
  if (!d.runs_items_in_lanes() || is_empty(p)) return 0;
  return static_cast<int>(10 + 30 * fastest_of(kGroupTiles, p, d).parts.time / parts_of(tile_on(kGroupTiles[tile], d), p, d).time);
}

template <std::size_t tile>
constexpr GemmForm group_tile(const char* name) {
  return {
      .name = name,
      .doc = "a tile of so many rows and columns for each work-group, through local memory",
      .target = Target::gpu,
      .needs = {.group_size = kGroupTiles[tile].group},
      .declines = unless_group_tiles<tile>,
      .longest_loop = [](const GemmProblem& p, const DeviceProfile&) { return longest_loop_of(kGroupTiles[tile], p); },
      .rank = rank_of_group_tiles<tile>,
      .workspace_bytes = workspace_of_tiles<tile>,
      .launch = launch_group_tiles<tile>,
  };
}

}  // namespace

GroupTile tile_on(const GroupTile& t, const DeviceProfile& d) {
  if (d.longest_loop == opencl::kAnyLoop || t.arithmetic == TileArithmetic::matrix_units) return t;
  return {t.rows / 4, t.columns / 4, t.depth, t.across / 4, t.rate, t.group / 16};
}

std::int64_t tiles_of(const GroupTile& t, const GemmProblem& p) { return ceil_div(p.m, t.rows) * ceil_div(p.n, t.columns); }

TileParts parts_of(const GroupTile& t, const GemmProblem& p, const DeviceProfile& d) {
  constexpr double kAlone = 1.25;    // times as long as one of several: a unit computes its groups in turn, and waits for memory where it has only one
  constexpr double kInParts = 1.25;  // as much faster must they be: the estimate is no better, and they take memory and a launch
  TileParts best{0, 0, std::numeric_limits<double>::infinity()};
  const bool is_whole = p.batch > 1 && p.stride_c != p.m * p.n;  // parts are added up as one matrix
  const auto least = static_cast<std::int64_t>(is_whole ? 1 : std::bit_ceil(at(ceil_div(p.k, kLongestPart))));
  for (std::int64_t wanted = least; wanted <= std::max(kMostParts, least); wanted *= 2) {
    if (wanted > least && (is_whole || p.k < wanted * kShortestPart)) break;
    const std::int64_t terms = std::max(round_up(ceil_div(p.k, wanted), t.depth), t.depth), count = ceil_div(p.k, terms);
    const std::int64_t turns = ceil_div(tiles_of(t, p) * p.batch * count, d.compute_units);
    const double products = (turns > 1 ? static_cast<double>(turns) : kAlone) * static_cast<double>(terms * t.rows * t.columns) / t.rate;
    const double sums = count > 1 ? 2 * kMemoryElement * static_cast<double>(count * p.batch * p.m * p.n) / d.compute_units : 0;
    const double time = (products + sums) * (count > 1 ? kInParts : 1);
    if (time < best.time) best = {terms, count, time};
  }
  return best;
}

std::span<const GroupTile> unit_tiles(const DeviceProfile& d) {
  if (d.precision() == Precision::float32) return kSplitTiles;
  return kTf32Tiles;
}

std::int64_t workspace_of(const GroupTile& t, const GemmProblem& p, const DeviceProfile& d) {
  const TileParts parts = parts_of(t, p, d);
  return parts.count > 1 ? 4 * parts.count * p.batch * p.m * p.n : 0;
}

const char* unless_tile(const GroupTile& t, const GemmProblem& p, const DeviceProfile& d) {
  if (const char* why = unless_float32(p)) return why;
  if (p.k == 0) return "its inner axis is empty";
  if (std::max({p.m * p.k, p.k * p.n, p.m * p.n}) > kMost) return "a matrix has about 2^31 elements or more";
  if (workspace_of(t, p, d) > d.max_allocation_bytes) return "the workspace exceeds the largest allocation";
  if (parts_of(t, p, d).count > opencl::kMostGroups) return "it has too many parts";
  return p.batch > opencl::kMostGroups ? "it has too many matrices" : nullptr;
}

bool has_registers_for(const GroupTile& t, const DeviceProfile& d) {
  if (t.arithmetic == TileArithmetic::matrix_units) return true;
  constexpr std::int64_t kMany = 64, kSome = 32;  // results of an item; GPUs with sub-groups of several widths spill more (ocloc 22.43 for dg2 and pvc)
  return t.rows * t.columns / t.group <= (d.least_sub_group_width ? kSome : kMany);
}

// Each vector that an item copies has its place in registers, and a single element takes as much: of those half as many terms go at a time, and no item has
// more than 64 sums.
GroupTile tile_by(const GroupTile& t, bool vectors) {
  if (t.arithmetic == TileArithmetic::fma || vectors) return t;
  constexpr std::int64_t kMostSums = 64;
  GroupTile out = t;
  out.depth /= 2;
  const std::int64_t more = std::max<std::int64_t>(1, t.rows * t.columns / t.group / kMostSums);
  out.group *= more;
  out.across *= more;
  return out;
}

std::string options_of(const GroupTile& t, bool vectors, const DeviceProfile& d) {
  const std::string size = fmt::format("-DROWS={} -DCOLUMNS={} -DDEPTH={} -DGROUP={}", t.rows, t.columns, t.depth, t.group);
  if (t.arithmetic == TileArithmetic::matrix_units)
    return fmt::format("{} -DWARP_COLUMNS={} -DVECTOR={} {} -DSPLIT={:d}", size, t.across, vectors ? 4 : 1, opencl::units_option(d),
                       d.precision() == Precision::float32);
  return fmt::format("{} -DITEM_COLUMNS={} -DVECTOR={}{}", size, t.across, vectors ? 4 : 1, sub_group_option(d));
}

void add_up(Device& device, const PartSums& s, const opencl::EpilogueCode& epilogue) {
  constexpr std::int64_t kGroup = 256, kMostLanes = 32, kMostColumns = 32, kPartsOfLane = 4;
  const std::int64_t group = std::min<std::int64_t>(kGroup, static_cast<std::int64_t>(std::bit_floor(at(device.profile().max_group_size))));
  const auto wanted = static_cast<std::int64_t>(std::bit_floor(at(std::max<std::int64_t>(s.count / kPartsOfLane, 1))));
  const std::int64_t lanes = std::min({wanted, kMostLanes, group}), columns = std::min(kMostColumns, group / lanes), rows = group / (lanes * columns);
  device.run(device.kernel("gpu/parts.cl", "add_parts", fmt::format("-DGROUP={} -DCOLUMNS={} -DLANES={}", group, columns, lanes), epilogue.text),
             opencl::range2({ceil_div(s.columns, columns) * group, std::min(ceil_div(s.rows, rows), opencl::kMostGroups)}, {group, 1}),
             {s.parts, s.out, s.rows, static_cast<std::int32_t>(s.columns), static_cast<std::int32_t>(s.count), std::int32_t{s.adds}}, epilogue.arguments);
}

void launch_tile(const GroupTile& chosen, Device& device, const GemmProblem& p, const GemmOperands& o) {
  if (is_empty(p)) return;
  const TileParts parts = parts_of(chosen, p, device.profile());
  const bool vectors = has_vectors_of_4(p, o);
  const GroupTile t = tile_by(chosen, vectors);
  const std::string options =
      fmt::format("{} -DTURNED_A={:d} -DTURNED_B={:d}", options_of(t, vectors, device.profile()), p.a == Transpose::yes, p.b == Transpose::yes);
  const auto number = [](std::int64_t i) { return static_cast<std::int32_t>(i); };
  const auto run = [&](const opencl::Region& to, std::int64_t stride, bool adds, const opencl::EpilogueCode& epilogue) {
    device.run(
        device.kernel("gpu/gemm.cl", "gemm_tile", options, epilogue.text), opencl::range3({tiles_of(t, p) * t.group, parts.count, p.batch}, {t.group, 1, 1}),
        {o.a, o.b, to, number(p.m), number(p.n), number(p.k), number(parts.terms), p.stride_a, p.stride_b, stride, std::int32_t{adds}}, epilogue.arguments);
  };
  if (parts.count == 1) return run(o.c, p.stride_c, p.adds, p.epilogue);
  run(o.workspace, p.m * p.n, false, {});
  add_up(device, {.parts = o.workspace, .out = o.c, .rows = p.batch * p.m, .columns = p.n, .count = parts.count, .adds = p.adds}, p.epilogue);
}

std::int64_t longest_loop_of(const GroupTile& t, const GemmProblem& p) { return p.k * t.rows * t.columns / (4 * t.group); }

TileChoice fastest_of(std::span<const GroupTile> tiles, const GemmProblem& p, const DeviceProfile& d) {
  TileChoice best{{}, {0, 0, std::numeric_limits<double>::infinity()}};
  for (const GroupTile& one : tiles) {
    const GroupTile tile = tile_on(one, d);
    const TileParts parts = parts_of(tile, p, d);
    if (parts.time < best.parts.time && has_registers_for(tile, d)) best = {tile, parts};
  }
  return best;
}

extern constinit const GemmForm kGroupTile128x128 = group_tile<0>("group_tile_128x128"), kGroupTile128x64 = group_tile<1>("group_tile_128x64"),
                                kGroupTile64x64 = group_tile<2>("group_tile_64x64"), kGroupTile128x32 = group_tile<3>("group_tile_128x32");

}  // namespace gemel::gemm
