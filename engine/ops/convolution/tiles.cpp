// Convolution in register tiles, without a matrix of patches: the fast way on CPUs.
// opencl/kernels/cpu/convolution/tiles.cl explains the layout.
#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_common.h"

namespace gemel::convolution {
namespace {

constexpr const char* kFile = "cpu/convolution/tiles.cl";
constexpr double kLeastShare = 0.5;             // of a tile's rows that have work: with less a matrix product is faster
constexpr double kLeastShareOfProduct = 0.85;   // the same where the product's matrix is there already
constexpr std::int64_t kManyChannels = 128;     // a matrix of patches costs little beside their product
constexpr std::int64_t kFewChannels = 48;       // up to these, half a panel too many would be much
constexpr std::int64_t kPackChunk = 16;         // inner channels that one group packs
constexpr std::int64_t kCachedBytes = 1 << 19;  // panels up to this stay in a core's second cache

/// The register tile: accumulators and a panel's row fill the vector registers (32 of 16 lanes, or 16 of 8). Of few output channels one
/// vector is enough, where the second would have little to do.
struct Tile {
  std::int64_t rows, columns;
};
std::int64_t output_channels(Direction d, const Geometry& g) { return d == Direction::forward ? g.group_filters() : g.group_channels(); }
Tile tile_for(Direction d, const Geometry& g, const opencl::DeviceProfile& profile) {
  if (!profile.has_wide_vectors()) return {6, 16};
  const std::int64_t channels = output_channels(d, g);
  return {8, channels <= kFewChannels && round_up(channels, 16) % 32 ? 16 : 32};
}

/// The part of the window that meets the image at any output pixel: of a 3 x 3 window over 1 x 1 images only the centre.
Geometry cropped(Geometry g, std::int64_t& first_tap) {
  const auto used = [&](std::int64_t tap, std::int64_t out, std::int64_t in, std::size_t axis) {
    for (std::int64_t i = 0; i < out; ++i)
      if (const std::int64_t at = i * g.stride[axis] + tap * g.dilation[axis] - g.padding[axis]; at >= 0 && at < in) return true;
    return false;
  };
  const auto rows = [&](std::int64_t tap) { return used(tap, g.p, g.h, 0); };
  const auto columns = [&](std::int64_t tap) { return used(tap, g.q, g.w, 1); };
  std::int64_t r0 = 0, r1 = g.r, s0 = 0, s1 = g.s;
  while (r0 + 1 < r1 && !rows(r0)) ++r0;
  while (r0 + 1 < r1 && !rows(r1 - 1)) --r1;
  while (s0 + 1 < s1 && !columns(s0)) ++s0;
  while (s0 + 1 < s1 && !columns(s1 - 1)) --s1;
  first_tap = r0 * g.s + s0;
  g.padding = {g.padding[0] - r0 * g.dilation[0], g.padding[1] - s0 * g.dilation[1]};
  g.r = r1 - r0;
  g.s = s1 - s0;
  return g;
}

template <Direction d>
std::int64_t longest_loop(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  const Tile t = tile_for(d, g, profile);
  const std::int64_t finishing = p.op.epilogue ? t.rows * t.columns : 0;
  return d == Direction::forward ? g.q * (g.depth() + finishing) : g.w * (g.taps() * g.group_filters() + finishing);
}

template <Direction d>
const char* declines(const Problem& p, const opencl::DeviceProfile&) {
  const Geometry g = geometry_of<d>(p);
  if (g.is_depthwise() && g.c > 1) return "it is one filter for each channel";
  if (g.pixels() == 0 || g.c == 0 || g.k == 0) return "an extent is 0";
  return nullptr;
}

/// @param worthwhile  the rank where there is work enough for its launches
int rank_of(const Geometry& g, const opencl::DeviceProfile& profile, int worthwhile) {
  if (!profile.runs_vectors()) return Rank::emulated;
  return g.flops() < kWorthTiles ? Rank::too_small : worthwhile;
}

std::int64_t panel_count(Direction d, const Geometry& g, const Tile& t) { return ceil_div(output_channels(d, g), t.columns); }

std::int64_t panel_bytes(Direction d, const Geometry& g, const Tile& t) {
  return 4 * g.groups * panel_count(d, g, t) * t.columns * g.taps() * (d == Direction::forward ? g.group_channels() : g.group_filters());
}

template <Direction d>
std::int64_t workspace_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  std::int64_t first_tap = 0;
  const Geometry g = cropped(geometry_of<d>(p), first_tap);
  return panel_bytes(d, g, tile_for(d, g, profile));
}

std::string options_for(const Tile& t) { return fmt::format("-DMR={} -DNR={}", t.rows, t.columns); }

/// Of the kernels that store a result: without an epilogue nothing reads it before what was stored first has left the caches.
std::string result_options(const Launch& l, const Tile& t) { return options_for(t) + (l.epilogue_text().empty() && l.leaves_the_caches() ? " -DAROUND" : ""); }

/// A part of the window: the taps that meet the image.
struct Part {
  Geometry geometry;
  std::int64_t first_tap = 0;  // of the whole window
};
Part part_of(const Geometry& whole) {
  Part p;
  p.geometry = cropped(whole, p.first_tap);
  return p;
}

/// Packs the weights of the window's part into the workspace.
void pack(const Launch& l, Direction d, const Geometry& whole, const Part& cropped_part, const Tile& t) {
  const auto& [part, first_tap] = cropped_part;
  const auto number = [](std::int64_t v) { return opencl::Argument(narrow<std::int32_t>(v)); };
  const bool transposed = d == Direction::input;
  l.run(kFile, "pack_panels",
        opencl::range3({part.taps(), ceil_div(transposed ? part.group_filters() : part.group_channels(), kPackChunk), part.groups}, {1, 1, 1}),
        {l.in(1), l.workspace(), number(part.r), number(part.s), number(whole.s), number(first_tap), number(part.group_channels()),
         number(part.group_filters()), number(transposed), number(kPackChunk)},
        options_for(t));
}

/// Tiles that a row of output pixels of one image falls into: neighbours whose window has the same taps in the image.
std::int64_t tiles_in_row(const Geometry& g, const Tile& t) {
  const auto taps_at = [&](std::int64_t q) {
    std::int64_t first = -1, last = -1;
    for (std::int64_t s = 0; s < g.s; ++s)
      if (const std::int64_t at = q * g.stride[1] + s * g.dilation[1] - g.padding[1]; at >= 0 && at < g.w) {
        if (first < 0) first = s;
        last = s;
      }
    return std::pair(first, last);
  };
  std::int64_t tiles = 0;
  for (std::int64_t q = 0; q < g.q; ++tiles) {
    std::int64_t count = 1;
    while (count < t.rows && q + count < g.q && taps_at(q + count) == taps_at(q)) ++count;
    q += count;
  }
  return tiles;
}

/// Whether a tile's pixels lie at one place of several images, or side by side; and the share of its rows that have work.
struct Arrangement {
  bool along_images;
  double full_share;
};
Arrangement arrangement_of(const Geometry& g, const Tile& t) {
  const std::int64_t by_images = ceil_div(g.n, t.rows) * g.q, by_rows = g.n * tiles_in_row(g, t);
  const auto share = [&](std::int64_t tiles) { return static_cast<double>(g.n * g.q) / static_cast<double>(tiles * t.rows); };
  return by_images <= by_rows ? Arrangement{true, share(by_images)} : Arrangement{false, share(by_rows)};
}

/// Tiles of many images leave no row without work, and share what they pack. A row of one image does not divide so well: the matrix
/// product does better where its matrix is there already, or takes little time beside so many channels.
bool forward_is_fast(const Geometry& g, const Tile& t) {
  const Arrangement a = arrangement_of(g, t);
  const bool matrix = g.groups == 1 && (g.is_matrix_product() || g.c >= kManyChannels);
  return a.full_share >= kLeastShare && (a.along_images || !matrix);
}

void forward_launch(Launch& l) {
  const Geometry whole = geometry_of<Direction::forward>(l.problem());
  const Tile t = tile_for(Direction::forward, whole, l.profile());
  const Part part = part_of(whole);
  const Geometry& g = part.geometry;
  pack(l, Direction::forward, whole, part, t);
  const bool along_images = arrangement_of(g, t).along_images;
  const std::int64_t blocks = panel_count(Direction::forward, g, t), units = (along_images ? ceil_div(g.n, t.rows) : g.n) * g.p;
  auto arguments = arguments_of({l.in(0), l.workspace(), l.out(0)}, g);
  arguments.insert(arguments.end(), {blocks, units, std::int32_t{l.workspace().bytes <= kCachedBytes}, std::int32_t{along_images}});
  run_last(l, {kFile, "tiles_forward", result_options(l, t)}, opencl::range2({blocks * units, g.groups}, {1, 1}), arguments);
}

void input_launch(Launch& l) {
  const Geometry whole = geometry_of<Direction::input>(l.problem());
  const Tile t = tile_for(Direction::input, whole, l.profile());
  const Part part = part_of(whole);
  const Geometry& g = part.geometry;
  pack(l, Direction::input, whole, part, t);
  const std::int64_t blocks = panel_count(Direction::input, g, t), units = ceil_div(g.n, t.rows) * g.h;
  auto arguments = arguments_of({l.in(0), l.workspace(), l.out(0)}, g);
  arguments.insert(arguments.end(), {blocks, units, std::int32_t{l.workspace().bytes <= kCachedBytes}});
  run_last(l, {kFile, "tiles_input_gradient", result_options(l, t)}, opencl::range2({blocks * units, g.groups}, {1, 1}), arguments);
}

double share_of(std::int64_t extent, std::int64_t unit) { return static_cast<double>(extent) / static_cast<double>(round_up(extent, unit)); }

}  // namespace

Variant tiles_variant(Direction d) {
  constexpr const char* doc = "register tiles of pixels by channels, without a matrix of patches";
  using opencl::DeviceProfile;
  if (d == Direction::forward)
    return {.name = "tiles",
            .doc = doc,
            .target = Target::cpu,
            .needs = {.private_blocks = true},
            .declines = declines<Direction::forward>,
            .longest_loop = longest_loop<Direction::forward>,
            .rank =
                [](const Problem& p, const DeviceProfile& f) {
                  const Geometry g = geometry_of<Direction::forward>(p);
                  return rank_of(g, f, forward_is_fast(g, tile_for(Direction::forward, g, f)) ? Rank::fast : Rank::fair);
                },
            .workspace_bytes = workspace_bytes<Direction::forward>,
            .launch = forward_launch};
  if (d == Direction::input)
    return {.name = "tiles",
            .doc = doc,
            .target = Target::cpu,
            .needs = {.private_blocks = true},
            .declines = declines<Direction::input>,
            .longest_loop = longest_loop<Direction::input>,
            .rank =
                [](const Problem& p, const DeviceProfile& f) {
                  const Geometry g = geometry_of<Direction::input>(p);
                  const double least = g.is_matrix_product() ? kLeastShareOfProduct : kLeastShare;
                  return rank_of(g, f, share_of(g.n, tile_for(Direction::input, g, f).rows) >= least ? Rank::fast : Rank::fair);
                },
            .workspace_bytes = workspace_bytes<Direction::input>,
            .launch = input_launch};
  return weight_tiles_variant();
}

}  // namespace gemel::convolution
