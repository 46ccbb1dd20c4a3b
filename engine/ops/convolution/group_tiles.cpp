// Convolution by a tile of results for each work-group, for GPUs: a matrix product whose columns are read from the images as they are needed.
// opencl/kernels/gpu/convolution/tiles.cl and weight_tiles.cl explain the layouts.
#include "engine/ops/matmul/group_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>

#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_common.h"

namespace gemel::convolution {
namespace {

using gemm::GroupTile;
using gemm::TileArithmetic;
using gemm::TileParts;

constexpr std::int64_t kMostElements = std::numeric_limits<std::int32_t>::max();

/// The product that is computed; of the input gradient, one of several phases, which are its batch.
opencl::GemmProblem product_of(Direction d, const Geometry& g) {
  const auto product = [](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) {
    return opencl::GemmProblem{.m = m, .n = n, .k = std::max<std::int64_t>(k, 1), .batch = batch, .stride_c = m * n};
  };
  if (d == Direction::forward) return product(g.pixels(), g.k, g.depth(), 1);
  if (d == Direction::weights) return product(g.depth(), g.k, g.pixels(), 1);
  const auto [down, right] = g.stride;
  return product(g.n * ceil_div(g.h, down) * ceil_div(g.w, right), g.c, g.taps() * g.k / (down * right), down * right);
}

template <TileArithmetic arithmetic>
gemm::TileChoice division_of(Direction d, const Geometry& g, const opencl::DeviceProfile& profile) {
  if constexpr (arithmetic == TileArithmetic::matrix_units) return gemm::fastest_of(gemm::unit_tiles(profile), product_of(d, g), profile);
  return gemm::fastest_of(gemm::kGroupTiles, product_of(d, g), profile);
}

/// The sums of all parts, if there are several.
template <TileArithmetic arithmetic>
std::int64_t workspace_of(Direction d, const Geometry& g, const opencl::DeviceProfile& profile) {
  const std::int64_t parts = division_of<arithmetic>(d, g, profile).parts.count;
  const std::int64_t elements = d == Direction::forward ? g.pixels() * g.k : d == Direction::input ? g.n * g.h * g.w * g.c : g.depth() * g.k;
  return parts > 1 ? 4 * parts * elements : 0;
}

template <Direction d, TileArithmetic arithmetic>
const char* declines(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  if (g.groups != 1) return "it has several groups";
  if (g.pixels() == 0 || g.c == 0 || g.k == 0) return "an extent is 0";
  // Places behind the last image and outside of it are computed, not read.
  const std::int64_t rows = std::max(g.h, g.p) + 2 * (g.padding[0] + g.r * g.dilation[0]),
                     columns = std::max(g.w, g.q) + 2 * (g.padding[1] + g.s * g.dilation[1]);
  if (std::max({(g.n + 1) * rows * columns * std::max(g.c, g.k), g.depth() * g.k}) > kMostElements) return "a tensor has about 2^31 elements or more";
  if (workspace_of<arithmetic>(d, g, profile) > profile.max_allocation_bytes) return "the workspace exceeds the largest allocation";
  if (division_of<arithmetic>(d, g, profile).parts.count > opencl::kMostGroups) return "it has too many parts";
  if (d != Direction::input) return nullptr;
  for (const std::size_t axis : {0, 1})
    if (g.stride[axis] > 1 && g.dilation[axis] > 1) return "its window has both a stride and a dilation";
  return g.stride[0] * g.stride[1] > opencl::kMostGroups ? "it has too many phases" : nullptr;
}

template <Direction d, TileArithmetic arithmetic>
std::int64_t longest_loop(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  return longest_loop_of(division_of<arithmetic>(d, g, profile).tile, product_of(d, g));
}

template <Direction d, TileArithmetic arithmetic>
int rank(const Problem& p, const opencl::DeviceProfile& profile) {
  const bool is_on_units = arithmetic == TileArithmetic::matrix_units;
  if (is_on_units && profile.precision() == Precision::float32) return Rank::unmeasured;
  if (!profile.runs_items_in_lanes() || geometry_of<d>(p).flops() < kWorthTiles) return Rank::too_small;
  return is_on_units ? Rank::asked : Rank::fast;
}

template <Direction d, TileArithmetic arithmetic>
std::int64_t workspace_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  return workspace_of<arithmetic>(d, geometry_of<d>(p), profile);
}

template <Direction d, TileArithmetic arithmetic>
void launch(Launch& l) {
  constexpr bool is_weights = d == Direction::weights;
  const Geometry g = geometry_of<d>(l.problem());
  const auto [chosen, parts] = division_of<arithmetic>(d, g, l.profile());
  const opencl::GemmProblem product = product_of(d, g);
  const bool vectors = g.c % 4 == 0 && g.k % 4 == 0 && (l.in(0).offset | l.in(1).offset | l.out(0).offset) % 16 == 0;
  const GroupTile tile = tile_by(chosen, vectors);
  const bool adds = is_weights && l.begin_sum(), is_whole = parts.count == 1;
  const std::string_view file = is_weights ? "gpu/convolution/weight_tiles.cl" : "gpu/convolution/tiles.cl";
  std::string options = options_of(tile, vectors, l.profile());
  if (!is_weights) options += fmt::format(" -DFORWARD={:d}", d == Direction::forward);
  const auto range = opencl::range3({tiles_of(tile, product) * tile.group, parts.count, product.batch}, {tile.group, 1, 1});
  auto arguments = arguments_of({l.in(0), l.in(1), is_whole ? l.out(0) : l.workspace()}, g);
  if (is_weights) {
    arguments.emplace_back(narrow<std::int32_t>(parts.terms));
    arguments.emplace_back(std::int32_t{adds && is_whole});
  }
  const KernelName name{file, is_weights ? "conv_weight_tile" : "conv_tile", options};
  if (is_whole && !is_weights) return run_last(l, name, range, arguments);
  run(l, name, range, arguments);
  if (is_whole) return;
  const std::int64_t columns = l.out_shape(0).back();
  const auto epilogue = l.epilogue_arguments();
  gemm::add_up(l.device(),
               {.parts = l.workspace(), .out = l.out(0), .rows = l.out_spec(0).elements() / columns, .columns = columns, .count = parts.count, .adds = adds},
               {l.epilogue_text(), epilogue});
}

template <Direction d, TileArithmetic arithmetic>
Variant variant() {
  constexpr bool is_on_units = arithmetic == TileArithmetic::matrix_units;
  return {.name = is_on_units ? "matrix_units" : "group_tiles",
          .doc = is_on_units ? "group_tiles on matrix units; in float32, or in TF32 with --precision tf32"
                             : "a tile of results for each work-group, columns read as they are needed",
          .target = Target::gpu,
          .needs = {.group_size = gemm::kGroupTiles[0].group, .matrix_units = is_on_units},
          .declines = declines<d, arithmetic>,
          .longest_loop = longest_loop<d, arithmetic>,
          .rank = rank<d, arithmetic>,
          .workspace_bytes = workspace_bytes<d, arithmetic>,
          .launch = launch<d, arithmetic>};
}

template <TileArithmetic arithmetic>
Variant variant_for(Direction d) {
  if (d == Direction::forward) return variant<Direction::forward, arithmetic>();
  if (d == Direction::input) return variant<Direction::input, arithmetic>();
  return variant<Direction::weights, arithmetic>();
}

}  // namespace

double group_tiles_time(Direction d, const Geometry& g, const opencl::DeviceProfile& profile) {
  return division_of<TileArithmetic::fma>(d, g, profile).parts.time;
}

Variant group_tiles_variant(Direction d) { return variant_for<TileArithmetic::fma>(d); }
Variant matrix_units_variant(Direction d) { return variant_for<TileArithmetic::matrix_units>(d); }

}  // namespace gemel::convolution
