// The weight gradient of a convolution as a product of packed tiles: the fast way on CPUs.
// opencl/kernels/cpu/convolution/weight_tiles.cl explains it.
#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_common.h"

namespace gemel::convolution {
namespace {

constexpr const char* kFile = "cpu/convolution/weight_tiles.cl";
constexpr std::int64_t kGroupsAUnit = 8;     // so that no unit waits long for the last
constexpr std::int64_t kNarrowFilters = 48;  // up to these, half a panel too many would be much

/// The register tile, and the most that a group holds packed: pixels, rows and columns of dw.
struct Tile {
  std::int64_t mr, nr, block, depth, filters;

  std::string options() const { return fmt::format("-DMR={} -DNR={} -DBLOCK={} -DDEPTH={} -DFILTERS={}", mr, nr, block, depth, filters); }
};
Tile tile_for(const Geometry& g, const opencl::DeviceProfile& f) {
  Tile t = f.has_wide_vectors() ? Tile{8, 32, 128, 256, 256} : Tile{4, 16, 128, 128, 128};
  if (g.group_filters() <= kNarrowFilters && round_up(g.group_filters(), 16) % 32) t.nr = 16;
  if (!f.runs_vectors()) t.block = t.depth = 16, t.filters = t.nr;  // emulators have little private memory
  return t;
}

/// How dw and the pixels are shared out among groups. Where dw is small they share the pixels, and their sums are added.
struct Shares {
  std::int64_t depth, filters, groups, parts;
  std::int64_t pixels, block;  // of a part, and at a time
};
Shares shares_of(const Geometry& g, const opencl::DeviceProfile& profile) {
  const Tile t = tile_for(g, profile);
  const auto even = [](std::int64_t whole, std::int64_t shares, std::int64_t unit) { return round_up(ceil_div(whole, shares), unit); };
  const std::int64_t filters = ceil_div(g.group_filters(), t.filters), units = profile.compute_units;
  std::int64_t depths = ceil_div(g.depth(), t.depth);
  // Few groups, all of one size: a round in which some units have none costs as much as a full one.
  if (const std::int64_t groups = depths * filters * g.groups; groups > units && groups < kGroupsAUnit * units)
    depths = std::max(depths, round_up(groups, units) / (filters * g.groups));
  Shares s{.depth = even(g.depth(), depths, t.mr), .filters = even(g.group_filters(), filters, t.nr), .groups = 0, .parts = 0, .pixels = 0, .block = 0};
  s.groups = ceil_div(g.depth(), s.depth) * ceil_div(g.group_filters(), s.filters);
  const std::int64_t wanted = std::clamp<std::int64_t>(kGroupsAUnit / 2 * units / (s.groups * g.groups), 1, ceil_div(g.pixels(), t.block));
  s.pixels = ceil_div(g.pixels(), wanted);
  s.block = even(s.pixels, ceil_div(s.pixels, t.block), 1);
  s.parts = ceil_div(g.pixels(), s.pixels);
  return s;
}

const char* declines(const Problem& p, const opencl::DeviceProfile&) {
  const Geometry g = geometry_of<Direction::weights>(p);
  if (g.is_depthwise() && g.c > 1) return "it is one filter for each channel";
  if (g.pixels() == 0 || g.c == 0 || g.k == 0) return "an extent is 0";
  return nullptr;
}

std::int64_t longest_loop(const Problem& p, const opencl::DeviceProfile& profile) {
  const Shares s = shares_of(geometry_of<Direction::weights>(p), profile);
  return s.pixels * s.depth;
}

int rank(const Problem& p, const opencl::DeviceProfile& profile) {
  if (!profile.runs_vectors()) return Rank::emulated;
  return geometry_of<Direction::weights>(p).flops() < kWorthTiles ? Rank::too_small : Rank::fast;
}

std::int64_t workspace_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  const std::int64_t parts = shares_of(geometry_of<Direction::weights>(p), profile).parts;
  return parts == 1 ? 0 : parts * p.outputs[0].bytes();
}

void launch(Launch& l) {
  const Geometry g = geometry_of<Direction::weights>(l.problem());
  const Shares s = shares_of(g, l.profile());
  const bool adds = l.begin_sum();
  auto arguments = arguments_of({l.in(0), l.in(1), s.parts == 1 ? l.out(0) : l.workspace()}, g);
  arguments.insert(arguments.end(), {narrow<std::int32_t>(s.depth), narrow<std::int32_t>(s.filters), s.pixels, narrow<std::int32_t>(s.block),
                                     std::int32_t{adds && s.parts == 1}});
  run(l, {kFile, "tiles_weight_gradient", tile_for(g, l.profile()).options()}, opencl::range3({s.groups, s.parts, g.groups}, {1, 1, 1}), arguments);
  if (s.parts > 1) add_parts(l, s.parts, adds);
}

}  // namespace

Variant weight_tiles_variant() {
  return {.name = "tiles",
          .doc = "patches and dy packed into register tiles as they are summed",
          .target = Target::cpu,
          .needs = {.private_blocks = true},
          .declines = declines,
          .longest_loop = longest_loop,
          .rank = rank,
          .workspace_bytes = workspace_bytes,
          .launch = launch};
}

}  // namespace gemel::convolution
