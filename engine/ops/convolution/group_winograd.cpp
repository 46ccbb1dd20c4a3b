// Convolution by a 3x3 window with stride 1, with a quarter of the multiplications, for GPUs: transforms, and a batch of 36 products by a tile for each
// work-group between them. opencl/kernels/gpu/convolution/winograd.cl explains the layouts.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_common.h"
#include "engine/ops/convolution/winograd_common.h"
#include "engine/ops/matmul/group_tiles.h"
#include "engine/ops/workspace_sections.h"

namespace gemel::convolution {
namespace {

using winograd::Extents, winograd::extents_of, winograd::kPoints, winograd::kTile;

constexpr std::int64_t kGroup = 128;
constexpr std::int64_t kMostElements = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kUsualCache = 32 << 20;        // bytes of the last cache where the device does not tell
constexpr std::int64_t kLargestChunk = 256 << 20;     // bytes of transformed tiles at a time that no cache holds
constexpr std::int64_t kChunkStep = 64;               // tiles: rows of a tile of the products
constexpr std::int64_t kTapsAndPoints = 9 + kPoints;  // elements that the transform of the weights moves for each pair of channels

/// Tiles of 4x4 outputs that are computed together.
struct Chunk {
  std::int64_t first = 0, tiles = 0;
};

opencl::GemmProblem product_of(Direction d, const Extents& e, std::int64_t tiles) {
  return {.m = tiles,
          .n = e.outer,
          .k = e.inner,
          .batch = kPoints,
          .b = d == Direction::input ? Transpose::yes : Transpose::no,
          .stride_a = tiles * e.inner,
          .stride_b = e.inner * e.outer,
          .stride_c = tiles * e.outer};
}

/// What of the transformed tensors the last cache keeps until it is read: no more than half of it, as what passes through takes room.
struct Cache {
  std::int64_t room = 0;  // bytes, for transformed tiles
  bool keeps_weights = false;
};
Cache cache_of(const Extents& e, const opencl::DeviceProfile& profile) {
  const std::int64_t half = (profile.cache_bytes > 0 ? profile.cache_bytes : kUsualCache) / 2, weights = 4 * kPoints * e.inner * e.outer;
  const bool keeps_weights = weights <= half / 2;
  return {keeps_weights ? half - weights : half, keeps_weights};
}

std::int64_t bytes_of_tile(const Extents& e) { return 4 * kPoints * (e.inner + e.outer); }

/// As much faster must smaller chunks be, which are more launches; estimates are no better.
constexpr double kClearly = 1.25;
/// As much faster than tiles must the whole be: it takes memory, moves and rounds more, and was not measured on a GPU yet. `gemel tune` takes it where it is
/// faster.
constexpr double kFarFaster = 2.4;

/// Multiplications of a unit in the time of moving an element to or from memory, if all units move some: 4 bytes, at 0.85 of the memory's rate and 0.68 of
/// the arithmetic's, which are what copies and tiles reach on an H100. 15 on an A100, 30 on an H100, 130 on an RTX 4090.
double memory_element(const opencl::DeviceProfile& profile) {
  constexpr double kFloat = 4, kFlops = 2;
  return profile.flops_a_byte > 0 ? kFloat / 0.85 * profile.flops_a_byte * 0.68 / kFlops : gemm::kMemoryElement;
}

gemm::GroupTile tile_of(const opencl::GemmProblem& product, const opencl::DeviceProfile& profile) {
  return gemm::fastest_of(gemm::kGroupTiles, product, profile).tile;
}

/// In multiplications of a unit, as gemm::parts_of counts: products, launches, and what transforms move beside them. What they compute is little.
double time_of(Direction d, const Extents& e, std::int64_t chunk, const opencl::DeviceProfile& profile) {
  constexpr double kCacheElement = 15;  // of moving an element to or from the last cache: 8 on an A100, 15 on an H100, 20 on an RTX 4090
  constexpr double kLaunch = 300'000;   // of the 2 us that pass between two kernels, on an H100
  const Cache cache = cache_of(e, profile);
  const double memory = memory_element(profile) / profile.compute_units, cached = kCacheElement / profile.compute_units;
  const auto number = [](std::int64_t v) { return static_cast<double>(v); };
  const double weights = number(e.inner * e.outer), tiles = number(e.tiles()), chunks = number(ceil_div(e.tiles(), chunk));
  const double of_chunk = gemm::fastest_of(gemm::kGroupTiles, product_of(d, e, chunk), profile).parts.time + 2 * kLaunch +
                          kPoints * weights * (cache.keeps_weights ? cached : memory);
  const double of_tile = 2 * kPoints * number(e.inner + e.outer) * (chunk * bytes_of_tile(e) <= cache.room ? cached : memory);
  const double images = number(e.n * (e.height * e.width * e.inner + e.out_height * e.out_width * e.outer));
  return chunks * of_chunk + kLaunch + tiles * of_tile + (kTapsAndPoints * weights + images) * memory;
}

struct Plan {
  std::int64_t chunk;  // tiles; the last chunk may have fewer
  double time;
  Sections<4> sections;  // u, v, m, the product's own

  opencl::Region part(const opencl::Region& workspace, std::size_t i, std::int64_t elements) const {
    return {workspace.block, sections.in(workspace, i).offset, 4 * elements};
  }
};

/// Chunks of one length, of at most so many tiles but enough of them to fill the device.
std::int64_t even_chunk(const Extents& e, std::int64_t most, const opencl::DeviceProfile& profile) {
  const gemm::GroupTile largest = tile_on(gemm::kGroupTiles[0], profile);
  const std::int64_t filling = largest.rows * ceil_div(std::int64_t{profile.compute_units}, kPoints * ceil_div(e.outer, largest.columns));
  const std::int64_t limit = std::max(most / kChunkStep * kChunkStep, round_up(filling, kChunkStep));
  return std::min(round_up(ceil_div(e.tiles(), ceil_div(e.tiles(), limit)), kChunkStep), e.tiles());
}

/// As few chunks as there may be, unless those that stay in the last cache are faster.
Plan plan_of(Direction d, const Extents& e, const opencl::DeviceProfile& profile) {
  Plan best{0, std::numeric_limits<double>::infinity(), {}};
  for (const std::int64_t bytes : {std::min(kLargestChunk, profile.max_allocation_bytes / 4), cache_of(e, profile).room}) {
    const std::int64_t chunk = even_chunk(e, bytes / bytes_of_tile(e), profile);
    if (const double time = time_of(d, e, chunk, profile); kClearly * time < best.time) best = {chunk, time, {}};
  }
  std::int64_t of_product = 0;
  for (const std::int64_t tiles : {best.chunk, (e.tiles() - 1) % best.chunk + 1}) {
    const opencl::GemmProblem product = product_of(d, e, tiles);
    of_product = std::max(of_product, workspace_of(tile_of(product, profile), product, profile));
  }
  const auto bytes = [](std::int64_t elements) { return 4 * kPoints * elements; };
  best.sections = {{bytes(e.inner * e.outer), bytes(best.chunk * e.inner), bytes(best.chunk * e.outer), of_product}, profile};
  return best;
}

template <Direction d>
Plan plan_of(const Geometry& g, const opencl::DeviceProfile& profile) {
  return plan_of(d, extents_of(d, g), profile);
}

template <Direction d>
const char* declines(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  if (const char* why = winograd::unless_3x3(g)) return why;
  const Extents e = extents_of(d, g);
  const std::int64_t rows = std::max(e.height, e.out_height) + winograd::kPatch, columns = std::max(e.width, e.out_width) + winograd::kPatch;
  const std::int64_t channels = std::max(e.inner, e.outer);
  if ((e.n + 1) * rows * columns * channels > kMostElements) return "a tensor has about 2^31 elements or more";
  const Plan plan = plan_of(d, e, profile);
  // One range holds the items of three tensors, of each rounded up to a group.
  const std::int64_t most = std::max(plan.chunk, std::min(e.inner, e.outer)) + kGroup;
  if (kPoints * most * channels > kMostElements) return "its transforms have about 2^31 elements or more";
  if (plan.sections.bytes() > profile.max_allocation_bytes) return "its workspace exceeds the largest allocation";
  const opencl::GemmProblem product = product_of(d, e, plan.chunk);
  return unless_tile(tile_of(product, profile), product, profile);
}

template <Direction d>
std::int64_t longest_loop(const Problem& p, const opencl::DeviceProfile& profile) {
  const Extents e = extents_of(d, geometry_of<d>(p));
  const opencl::GemmProblem product = product_of(d, e, plan_of(d, e, profile).chunk);
  return longest_loop_of(tile_of(product, profile), product);
}

template <Direction d>
int rank(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  if (!profile.runs_items_in_lanes() || g.flops() < kWorthTiles) return Rank::too_small;
  return kFarFaster * plan_of<d>(g, profile).time < group_tiles_time(d, g, profile) ? Rank::faster : Rank::slow;
}

template <Direction d>
std::int64_t workspace_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  return plan_of<d>(geometry_of<d>(p), profile).sections.bytes();
}

/// Rows of all images, one after another: those of a chunk's tiles, and a few before them where memory has to be aligned.
struct Rows {
  opencl::Region region;
  std::int64_t first = 0;
};
struct Images {
  opencl::Region region;
  const Shape& shape;
};
/// What of its images a tile needs: rows from so many above its first output on.
struct Band {
  std::int64_t above, rows;
};
Rows rows_of(const Images& images, const Extents& e, const Chunk& chunk, const Band& band, std::int64_t alignment) {
  if (chunk.tiles == 0) return {};
  const std::int64_t height = images.shape[1], row = images.shape[2] * images.shape[3];  // elements
  const auto row_of = [&](std::int64_t tile, std::int64_t beyond) {
    const std::int64_t line = tile / e.tile_columns();
    return line / e.tile_rows() * height + std::clamp<std::int64_t>(line % e.tile_rows() * kTile - band.above + beyond, 0, height - 1);
  };
  const std::int64_t end = row_of(chunk.first + chunk.tiles - 1, band.rows - 1) + 1;
  std::int64_t first = row_of(chunk.first, 0);
  while (first * row % alignment != 0) --first;
  return {{images.region.block, images.region.offset + 4 * first * row, 4 * (end - first) * row}, first};
}

/// Runs the transforms that may go together: of the products of `done` to the output, of the patches of `next`, and of the weights before the first chunk.
template <Direction d>
void transform(const Launch& l, const Extents& e, const Plan& plan, const Chunk& done, const Chunk& next) {
  const bool is_even = e.inner % 2 == 0 && e.outer % 2 == 0 && (l.in(0).offset | l.in(1).offset | l.out(0).offset) % 8 == 0;
  const std::int64_t width = is_even ? 2 : 1, weights = done.tiles == 0 ? e.inner * e.outer : 0;
  const auto groups_of = [width](std::int64_t elements) { return round_up(ceil_div(elements, width), kGroup); };
  const std::int64_t alignment = l.profile().base_alignment_bytes;
  const Rows x = rows_of({l.in(0), l.in_shape(0)}, e, next, {e.top, winograd::kPatch}, alignment);
  const Rows y = rows_of({l.out(0), l.out_shape(0)}, e, done, {0, kTile}, alignment);
  const auto part = [&](std::size_t i, std::int64_t elements) { return elements ? plan.part(l.workspace(), i, kPoints * elements) : opencl::Region{}; };
  Arguments arguments(part(2, done.tiles * e.outer), y.region, x.region, part(1, next.tiles * e.inner));
  arguments.add(weights ? l.in(1) : opencl::Region{}, part(0, weights));
  arguments.add(ints(e.height, e.width, e.inner, e.top, e.left, e.out_height, e.out_width, e.outer, e.tile_rows(), e.tile_columns()));
  arguments.add(ints(y.first, done.first, done.tiles, x.first, next.first, next.tiles), d == Direction::input);
  const std::string options = fmt::format("-DWIDTH={} -DGROUP={}{}", width, kGroup, sub_group_option(l.profile()));
  l.device().run(l.device().kernel("gpu/convolution/winograd.cl", "winograd_transforms", options, l.epilogue_text()),
                 opencl::range1(groups_of(done.tiles * e.outer) + groups_of(next.tiles * e.inner) + groups_of(weights), kGroup), arguments,
                 l.epilogue_arguments_of_part(y.first * e.out_width * e.outer, y.region.bytes / 4));
}

template <Direction d>
void launch(Launch& l) {
  const Extents e = extents_of(d, geometry_of<d>(l.problem()));
  const Plan plan = plan_of(d, e, l.profile());
  Chunk done;
  for (std::int64_t first = 0; first < e.tiles(); first += plan.chunk) {
    const Chunk next{first, std::min(plan.chunk, e.tiles() - first)};
    transform<d>(l, e, plan, done, next);
    const opencl::GemmProblem product = product_of(d, e, next.tiles);
    launch_tile(tile_of(product, l.profile()), l.device(), product,
                {plan.part(l.workspace(), 1, kPoints * next.tiles * e.inner), plan.part(l.workspace(), 0, kPoints * e.inner * e.outer),
                 plan.part(l.workspace(), 2, kPoints * next.tiles * e.outer), plan.sections.in(l.workspace(), 3)});
    done = next;
  }
  transform<d>(l, e, plan, done, {});
}

template <Direction d>
Variant variant() {
  return {.name = "group_winograd",
          .doc = "Winograd's F(4x4, 3x3): a quarter of the multiplications, as products by a tile for each work-group",
          .target = Target::gpu,
          .needs = {.group_size = gemm::kGroupTiles[0].group},
          .declines = declines<d>,
          .longest_loop = longest_loop<d>,
          .rank = rank<d>,
          .workspace_bytes = workspace_bytes<d>,
          .launch = launch<d>};
}

}  // namespace

Variant group_winograd_variant(Direction d) { return d == Direction::forward ? variant<Direction::forward>() : variant<Direction::input>(); }

}  // namespace gemel::convolution
