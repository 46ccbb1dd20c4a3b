// Convolution by a 3x3 window with stride 1, with a quarter of the multiplications: the fast way on CPUs where channels are many.
// opencl/kernels/cpu/convolution/winograd.cl explains the algorithm and the layouts.
#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_common.h"
#include "engine/ops/convolution/winograd_common.h"
#include "engine/ops/workspace_sections.h"

namespace gemel::convolution {
namespace {

using winograd::Extents, winograd::extents_of, winograd::kPoints, winograd::unless_3x3;

constexpr const char* kFile = "cpu/convolution/winograd.cl";
constexpr std::int64_t kChunkFloats = 1 << 22;  // of transformed tiles at a time: they stay in the last cache
constexpr std::int64_t kBlock = 128;            // tiles that are summed in registers
constexpr std::int64_t kGroupsAUnit = 8;        // so that no unit waits long for the last

/// The register tile, as that of convolution_tiles, and the tiles and channels that a group works on at a time: with products of these
/// and weights of those, 36 times each, half a second cache is full.
struct Sizes {
  std::int64_t mr, nr, tiles, channels, width;

  std::string options() const { return fmt::format("-DWIDTH={} -DMR={} -DNR={} -DTILES={} -DCHANNELS={}", width, mr, nr, tiles, channels); }
};
Sizes sizes_for(const Extents& e, const opencl::DeviceProfile& f) {
  Sizes s = f.has_wide_vectors() ? Sizes{8, 32, 64, 64, 16} : Sizes{6, 16, 48, 64, 16};
  if (e.inner % 16 || e.outer % 16) s.width = 8;
  if (!f.runs_vectors()) s.tiles = s.mr, s.channels = s.width;  // emulators have little private memory
  return s;
}

/// Floats from one point's values to the next one's: SLAB of the kernels, which says why.
std::int64_t slab(std::int64_t floats) { return round_up(floats, 1024) + 16; }

/// Tiles are worked on a chunk at a time, so that what is transformed stays in the last cache. The workspace holds v, for the weights'
/// gradient then m, then d.
struct Plan {
  std::int64_t panels, chunk;
  Sections<3> sections;

  opencl::Region v(const opencl::Region& w) const { return sections.in(w, 0); }
  opencl::Region m(const opencl::Region& w) const { return sections.in(w, 1); }
  opencl::Region d(const opencl::Region& w) const { return sections.in(w, 2); }
};

Plan plan_for(Direction direction, const Extents& e, const Sizes& s, const opencl::DeviceProfile& profile) {
  const bool gradient = direction == Direction::weights;
  const std::int64_t panels = ceil_div(e.outer, s.nr), outer = panels * s.nr, read = gradient ? outer : 0;
  const std::int64_t fitting = std::max<std::int64_t>(kChunkFloats / (kPoints * (e.inner + read)), 1);
  const std::int64_t chunk = std::min(e.tiles(), round_up(fitting, kBlock));
  const auto bytes = [](std::int64_t floats) { return 4 * kPoints * slab(floats); };
  return {panels, chunk, {{bytes(chunk * e.inner), gradient ? bytes(e.inner * outer) : 0, gradient ? bytes(chunk * outer) : 0}, profile}};
}

/// Tiles of one group of a product. A group that needs one run of channels only keeps its weights for as many as leave work to share.
std::int64_t share_for(const Extents& e, const Sizes& s, std::int64_t panels, std::int64_t tiles, const opencl::DeviceProfile& profile) {
  if (e.inner > s.channels || !profile.runs_vectors()) return s.tiles;
  return s.tiles * std::max<std::int64_t>(ceil_div(tiles, s.tiles) * panels / (kGroupsAUnit * profile.compute_units), 1);
}

template <Direction d>
const char* declines(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  if (const char* why = unless_3x3(g)) return why;
  if (g.c % 8 || g.k % 8) return "its channels are no multiples of 8";
  const Extents e = extents_of(d, g);
  const Plan plan = plan_for(d, e, sizes_for(e, profile), profile);
  return plan.sections.bytes() > profile.max_allocation_bytes ? "its workspace exceeds the largest allocation" : nullptr;
}

template <Direction d>
std::int64_t longest_loop(const Problem& p, const opencl::DeviceProfile& profile) {
  const Extents e = extents_of(d, geometry_of<d>(p));
  const Sizes s = sizes_for(e, profile);
  return d == Direction::weights ? plan_for(d, e, s, profile).chunk * e.inner : kPoints * e.inner * s.tiles;
}

/// Whether the transforms cost less than the products that they save; in multiplications.
template <Direction d>
int rank(const Problem& p, const opencl::DeviceProfile& profile) {
  if (!profile.runs_vectors()) return Rank::emulated;
  const Geometry g = geometry_of<d>(p);
  const Extents e = extents_of(d, g);
  const std::int64_t direct = 9 * g.pixels() * g.c * g.k;
  const std::int64_t weights = d == Direction::weights ? 50 : 12;  // their gradient lies in memory, 4 times as large, before it is transformed
  const std::int64_t own = kPoints * (e.tiles() * (g.c * g.k + 10 * (g.c + g.k)) + weights * g.c * g.k);
  return own < direct ? Rank::faster : Rank::slow;
}

template <Direction d>
std::int64_t workspace_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  const Extents e = extents_of(d, geometry_of<d>(p));
  return plan_for(d, e, sizes_for(e, profile), profile).sections.bytes();
}

opencl::Argument number(std::int64_t v) { return narrow<std::int32_t>(v); }

/// Neighbours in the order of images, rows and columns.
struct Tiles {
  std::int64_t first, count;
};

/// Patches of x, transformed, to v.
void patches(const Launch& l, std::array<opencl::Region, 2> x_and_v, const Extents& e, const Tiles& tiles, const std::string& options) {
  l.run(kFile, "winograd_patches", opencl::range1(tiles.count, 1),
        {x_and_v[0], x_and_v[1], number(e.height), number(e.width), number(e.inner), number(e.top), number(e.left), number(e.tile_rows()),
         number(e.tile_columns()), tiles.first, number(tiles.count)},
        options);
}

/// y or dx. The weights are transformed at each call: in training they have changed.
template <Direction d>
void product_launch(Launch& l) {
  const Extents e = extents_of(d, geometry_of<d>(l.problem()));
  const Sizes s = sizes_for(e, l.profile());
  const Plan plan = plan_for(d, e, s, l.profile());
  const opencl::Region v = plan.v(l.workspace());
  for (std::int64_t first = 0; first < e.tiles(); first += plan.chunk) {
    const std::int64_t tiles = std::min(plan.chunk, e.tiles() - first), share = share_for(e, s, plan.panels, tiles, l.profile());
    patches(l, {l.in(0), v}, e, {first, tiles}, s.options());
    run_last(l, {kFile, "winograd_product", s.options()}, opencl::range2({ceil_div(tiles, share), plan.panels}, {1, 1}),
             {v, l.in(1), l.out(0), number(e.out_height), number(e.out_width), number(e.outer), number(e.inner), number(e.tile_rows()),
              number(e.tile_columns()), first, number(tiles), number(share), number(d == Direction::input)});
  }
}

void weights_launch(Launch& l) {
  const Extents e = extents_of(Direction::weights, geometry_of<Direction::weights>(l.problem()));
  const Sizes s = sizes_for(e, l.profile());
  const Plan plan = plan_for(Direction::weights, e, s, l.profile());
  const opencl::Region v = plan.v(l.workspace()), m = plan.m(l.workspace()), dy = plan.d(l.workspace());
  for (std::int64_t first = 0; first < e.tiles(); first += plan.chunk) {
    const std::int64_t tiles = std::min(plan.chunk, e.tiles() - first);
    patches(l, {l.in(1), v}, e, {first, tiles}, s.options());
    l.run(kFile, "winograd_tiles", opencl::range1(tiles, 1),
          {l.in(0), dy, number(e.out_height), number(e.out_width), number(e.outer), number(plan.panels), number(e.tile_rows()), number(e.tile_columns()), first,
           number(tiles)},
          s.options());
    l.run(kFile, "winograd_sums", opencl::range2({plan.panels, kPoints}, {1, 1}),
          {v, dy, m, number(e.inner), number(plan.panels), first, number(tiles), number(kBlock)}, s.options());
  }
  l.run(kFile, "winograd_windows", opencl::range1(e.inner, 1), {m, l.out(0), number(e.inner), number(e.outer), number(plan.panels), number(l.begin_sum())},
        s.options());
}

template <Direction d>
Variant variant(void (*launch)(Launch&)) {
  return {.name = "winograd",
          .doc = "Winograd's F(4x4, 3x3): a quarter of the multiplications",
          .target = Target::cpu,
          .needs = {.private_blocks = true},
          .declines = declines<d>,
          .longest_loop = longest_loop<d>,
          .rank = rank<d>,
          .workspace_bytes = workspace_bytes<d>,
          .launch = launch};
}

}  // namespace

Variant winograd_variant(Direction d) {
  if (d == Direction::forward) return variant<Direction::forward>(product_launch<Direction::forward>);
  if (d == Direction::input) return variant<Direction::input>(product_launch<Direction::input>);
  return variant<Direction::weights>(weights_launch);
}

}  // namespace gemel::convolution
