// Convolution with few filters, such as a small model's first: vectors of a row's pixels. kernels/convolution_rows.cl explains it.
#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_common.h"

namespace gemel::convolution {
namespace {

constexpr std::int64_t kWindow = 8192;    // floats of the rows laid out: the first cache
constexpr std::int64_t kFewFilters = 12;  // of 16 lanes they would leave a quarter empty
constexpr std::int64_t kGroupsAUnit = 4;  // so that no unit waits long for the last

struct Tile {
  std::int64_t width, filters, blocks;
  std::int64_t pixels() const { return width * blocks; }
};
/// Sums fill the vector registers (32 of 16 lanes, or 16 of 8) but for what a tap needs beside them.
Tile tile_for(const Geometry& g, const opencl::DeviceProfile& profile) {
  const bool wide = profile.has_wide_vectors();
  const std::int64_t sums = wide ? 24 : 12, chunks = ceil_div(g.k, sums), filters = ceil_div(g.k, chunks), width = wide ? 16 : 8;
  return {width, filters, std::clamp<std::int64_t>(std::min(sums / filters, ceil_div(g.q, width)), 1, 4)};
}

/// Places of one phase of a row that is laid out: the tiles read so far.
std::int64_t length_of(const Geometry& g, const Tile& t) { return round_up(g.q, t.pixels()) + (g.s - 1) * g.dilation[1] / g.stride[1]; }
std::int64_t rows_met(const Geometry& g, std::int64_t band) { return (band - 1) * g.stride[0] + (g.r - 1) * g.dilation[0] + 1; }
std::int64_t floats_of(const Geometry& g, const Tile& t, std::int64_t band) { return rows_met(g, band) * g.c * g.stride[1] * length_of(g, t); }

/// Output rows of a group: neighbours share rows of x, as far as the window holds them and every unit has some.
std::int64_t band_of(const Geometry& g, const Tile& t, const opencl::DeviceProfile& profile) {
  std::int64_t band = std::clamp<std::int64_t>(g.n * g.p / (kGroupsAUnit * profile.compute_units), 1, g.p);
  while (band > 1 && floats_of(g, t, band) > kWindow) --band;
  return band;
}

const char* declines(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<Direction::forward>(p);
  if (g.groups != 1) return "it has several groups";
  if (g.pixels() == 0 || g.c == 0 || g.k == 0) return "an extent is 0";
  return floats_of(g, tile_for(g, profile), 1) > kWindow ? "its rows are too long" : nullptr;
}

std::int64_t longest_loop(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<Direction::forward>(p);
  const Tile t = tile_for(g, profile);
  return band_of(g, t, profile) * length_of(g, t) * g.depth() * g.k;
}

int rank(const Problem& p, const opencl::DeviceProfile& profile) {
  if (!profile.runs_vectors()) return Rank::emulated;
  const Geometry g = geometry_of<Direction::forward>(p);
  if (g.flops() < kWorthTiles) return Rank::too_small;
  const std::int64_t pixels = tile_for(g, profile).pixels();
  const bool full = 4 * g.q >= 3 * round_up(g.q, pixels);
  return g.k <= kFewFilters && g.taps() > 1 && full ? Rank::faster : Rank::slow;
}

void launch(Launch& l) {
  const Geometry g = geometry_of<Direction::forward>(l.problem());
  const Tile t = tile_for(g, l.profile());
  const std::int64_t band = band_of(g, t, l.profile());
  auto arguments = arguments_of({l.in(0), l.in(1), l.out(0)}, g);
  arguments.insert(arguments.end(), {narrow<std::int32_t>(band), narrow<std::int32_t>(length_of(g, t))});
  const std::string options = fmt::format("-DWIDTH={} -DFILTERS={} -DBLOCKS={} -DWINDOW={}", t.width, t.filters, t.blocks, kWindow);
  run_last(l, {"cpu/convolution/rows.cl", "rows_forward", options}, opencl::range1(g.n * ceil_div(g.p, band), 1), arguments);
}

}  // namespace

Variant rows_variant() {
  return {.name = "rows",
          .doc = "vectors of a row's pixels, for few filters",
          .target = Target::cpu,
          .needs = {.private_blocks = true},
          .declines = declines,
          .longest_loop = longest_loop,
          .rank = rank,
          .launch = launch};
}

}  // namespace gemel::convolution
