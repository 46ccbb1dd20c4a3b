// Convolution through GEMM, for one group. The patches under the windows form a matrix [N P Q, R S C] ("columns"):
//   y = columns w        dx = columns-to-image(dy w^T)        dw = columns^T dy
// It is made in blocks of rows, so that the workspace stays bounded. Where the window is a single tap at every pixel, x
// itself is that matrix. A small dw is a batch of products, each over a part of the rows, whose sums are added: on CPUs where x is the matrix.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_common.h"
#include "engine/ops/matmul/gemm_forms.h"
#include "engine/ops/ops.h"
#include "engine/ops/workspace_sections.h"

namespace gemel::convolution {
namespace {

constexpr std::int64_t kLocal = 64;
constexpr std::int64_t kColumnBytes = 16 << 20;       // of one block of columns where it comes from a shared cache
constexpr std::int64_t kWideColumnBytes = 128 << 20;  // and where only large products fill the device
constexpr std::int64_t kWeightRows = 16384;           // longest sum of the weights' gradient before it is added to the rest
constexpr std::int64_t kShortestPart = 1024;          // pixels of a part of the weights' gradient, whose sums are added to the others'
constexpr std::int64_t kPartElements = 1 << 15;       // of dw: a larger one has work enough without parts
constexpr std::int64_t kTileOfGpu = 64;               // rows and columns of dw that a group of a GPU makes, about
constexpr std::int64_t kTilesAUnit = 4;               // that fill it
constexpr std::int64_t kWorthwhileFlops = 1 << 17;    // below this, one simple kernel is faster than several launches

opencl::GemmProblem gemm_of(Direction d, const Geometry& g, std::int64_t rows) {
  switch (d) {
    case Direction::forward:
      return {.m = rows, .n = g.k, .k = g.depth()};
    case Direction::input:
      return {.m = rows, .n = g.depth(), .k = g.k, .b = Transpose::yes};
    case Direction::weights:
      return {.m = g.depth(), .n = g.k, .k = rows, .a = Transpose::yes};
  }
  throw InternalError("convolution: unknown direction");
}

/// Parts of one length into which all pixels are cut for a small dw, as many for each unit, so that none reads another's pixels. 1: none.
std::int64_t parts_on_cpu(const Geometry& g, const opencl::DeviceProfile& profile) {
  if (!g.is_matrix_product() || !profile.runs_vectors() || g.c * g.k > kPartElements) return 1;
  const std::int64_t step = 2 * profile.compute_units;  // a unit that is held up leaves its second to another
  for (std::int64_t parts = round_up(ceil_div(g.pixels(), kWeightRows), step); g.pixels() / parts >= kShortestPart; parts += step)
    if (g.pixels() % parts == 0) return parts;
  return 1;
}

/// Parts of a block of rows, of which dw alone has too few tiles to fill the device: a power of two, which divides a block of any
/// aligned length. 1: none.
std::int64_t parts_on_gpu(const Geometry& g, std::int64_t rows, const opencl::DeviceProfile& profile) {
  const std::int64_t tiles = ceil_div(g.depth(), kTileOfGpu) * ceil_div(g.k, kTileOfGpu);
  const std::int64_t wanted = std::max(ceil_div(kTilesAUnit * profile.compute_units, tiles), ceil_div(rows, kWeightRows));
  const std::int64_t most = std::max<std::int64_t>(rows / kShortestPart, 1);
  return wanted == 1 ? 1 : static_cast<std::int64_t>(std::bit_floor(at(std::min<std::int64_t>(2 * wanted - 1, most))));
}

opencl::GemmProblem gemm_of_parts(const Geometry& g, std::int64_t rows, std::int64_t parts) {
  opencl::GemmProblem problem = gemm_of(Direction::weights, g, rows / parts);
  problem.batch = parts;
  problem.stride_a = problem.k * problem.m, problem.stride_b = problem.k * problem.n, problem.stride_c = problem.m * problem.n;
  return problem;
}

/// Rows of the matrix of columns (or of x), and of y or dy, that are worked on at a time.
struct Block {
  std::int64_t begin, rows;
};

struct Plan {
  std::int64_t parts = 1;  // of a block's rows, whose sums for dw are added at the end
  std::int64_t rows = 0;   // of a block; the last may have fewer
  std::int64_t unit = 1;   // rows whose offset is aligned at any width
  Sections<3> sections;    // of the workspace: the sums of parts, columns, the product's own

  /// What parts do not divide is a block of its own, whose sum goes to the first part's.
  std::vector<Block> blocks(std::int64_t pixels) const {
    std::vector<Block> out;
    for (std::int64_t begin = 0; begin < pixels; begin += out.back().rows) {
      const std::int64_t most = std::min(rows, pixels - begin), step = std::max(parts, unit);
      out.push_back({begin, most % parts != 0 && most > step ? most / step * step : most});
    }
    return out;
  }
};

opencl::GemmProblem product_of(Direction d, const Geometry& g, const Plan& plan, const Block& b) {
  return plan.parts > 1 && b.rows % plan.parts == 0 ? gemm_of_parts(g, b.rows, plan.parts) : gemm_of(d, g, b.rows);
}

/// The products of a plan, of each size once.
std::vector<opencl::GemmProblem> products_of(Direction d, const Geometry& g, const Plan& plan) {
  std::vector<opencl::GemmProblem> out;
  std::int64_t before = 0;
  for (const Block& b : plan.blocks(g.pixels()))
    if (b.rows != std::exchange(before, b.rows)) out.push_back(product_of(d, g, plan, b));
  return out;
}

Plan plan_of(Direction d, const Geometry& g, const opencl::DeviceProfile& profile) {
  Plan plan;
  plan.unit = std::max<std::int64_t>(profile.base_alignment_bytes / 4, 1);
  plan.rows = round_up(g.pixels(), plan.unit);
  if (!g.is_matrix_product()) {
    const std::int64_t wanted = profile.runs_items_in_lanes() ? kWideColumnBytes : kColumnBytes;
    const std::int64_t room = std::min(wanted, profile.max_allocation_bytes / 4);
    plan.rows = std::max(plan.unit, std::min(plan.rows, room / (4 * g.depth()) / plan.unit * plan.unit));
  }
  if (d == Direction::weights) {
    plan.parts = profile.runs_items_in_lanes() ? parts_on_gpu(g, std::min(plan.rows, g.pixels()), profile) : parts_on_cpu(g, profile);
    if (plan.parts == 1) plan.rows = std::min(plan.rows, round_up(kWeightRows, plan.unit));
  }
  std::int64_t gemm_bytes = 0;
  for (const opencl::GemmProblem& problem : products_of(d, g, plan))
    gemm_bytes = std::max(gemm_bytes, product_form(problem, profile).workspace_bytes(problem, profile));
  plan.sections = {{plan.parts > 1 ? 4 * plan.parts * g.depth() * g.k : 0, g.is_matrix_product() ? 0 : 4 * plan.rows * g.depth(), gemm_bytes}, profile};
  return plan;
}

/// An epilogue is the last product's to compute, and no reason to take a slower one.
template <Direction d>
const char* declines_epilogue(const Problem& p, const Geometry& g, const opencl::DeviceProfile& profile) {
  if (!p.op.epilogue) return nullptr;
  if (d == Direction::input && !g.is_matrix_product()) return "its images are added up from products";
  const opencl::GemmProblem product = gemm_of(d, g, std::min(plan_of(d, g, profile).rows, g.pixels()));
  opencl::GemmProblem fused = product;
  fused.epilogue = {p.op.epilogue->text};
  return product_form(product, profile).declines(fused, profile) ? "its product takes no epilogue" : nullptr;
}

template <Direction d>
const char* declines(const Problem& p, const opencl::DeviceProfile& profile) try {
  const Geometry g = geometry_of<d>(p);
  if (g.groups != 1) return "it has several groups";
  if (g.pixels() == 0 || g.c == 0 || g.k == 0) return "an extent is 0";
  const Plan plan = plan_of(d, g, profile);
  if (plan.sections.bytes() > profile.max_allocation_bytes) return "the workspace exceeds the largest allocation";
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (!g.is_matrix_product() && (d == Direction::input ? g.h * g.w * g.c : plan.rows * g.depth()) > kMost)
    return d == Direction::input ? "an image has 2^31 elements or more" : "a block of columns has 2^31 elements or more";
  return declines_epilogue<d>(p, g, profile);
} catch (const UsageError&) {  // of dispatch, which is asked for the products
  return "the variant of matmul that is asked for declines one of its products";
}

template <Direction d>
int rank(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  if (g.flops() < kWorthwhileFlops) return Rank::too_small;
  // The weight gradient of a window of one pixel: a product over many pixels, where it has tiles for every unit.
  constexpr std::int64_t kTile = 12 * 32;
  const bool one_product = d == Direction::weights && g.is_matrix_product() && g.c * g.k >= 4 * kTile * profile.compute_units;
  return one_product && profile.runs_vectors() ? Rank::faster : Rank::good;
}

template <Direction d>
std::int64_t workspace_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  return plan_of(d, geometry_of<d>(p), profile).sections.bytes();
}

template <Direction d>
std::vector<OwnedProblem> products(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  std::vector<OwnedProblem> out;
  for (const opencl::GemmProblem& product : products_of(d, g, plan_of(d, g, profile))) out.push_back(matmul_of(product));
  return out;
}

opencl::Region part(const opencl::Region& of, std::int64_t begin, std::int64_t elements) { return {of.block, of.offset + 4 * begin, 4 * elements}; }

/// Channels of one work-item: a vector where items run one after the other, a little where they run side by side.
std::int64_t width_of(std::int64_t channels, const opencl::DeviceProfile& profile) {
  for (std::int64_t width : {16, 4})
    if (channels % width == 0 && (width == 4) == profile.runs_items_in_lanes()) return width;
  return 1;
}

KernelName columns_kernel(const char* name, std::int64_t width) { return {"any/convolution/columns.cl", name, fmt::format("-DWIDTH={}", width)}; }

void im2col(const Launch& l, const Geometry& g, const opencl::Region& x, const opencl::Region& columns, const Block& b) {
  const std::int64_t width = width_of(g.c, l.profile()), per_image = g.p * g.q;
  auto arguments = arguments_of({x, columns}, g);
  for (std::int32_t number : ints(b.begin / per_image, b.begin % per_image / g.q, b.begin % g.q, b.rows)) arguments.emplace_back(number);
  run(l, columns_kernel("im2col", width), opencl::range1(round_up(b.rows * g.depth() / width, kLocal), kLocal), arguments);
}

void col2im(const Launch& l, const Geometry& g, const opencl::Region& columns, const opencl::Region& dx, const Block& b) {
  const std::int64_t width = width_of(g.c, l.profile()), per_image = g.p * g.q, first = b.begin / per_image;
  const std::int64_t images = ceil_div(b.begin + b.rows, per_image) - first;
  auto arguments = arguments_of({columns, dx}, g);
  arguments.insert(arguments.end(), {b.begin, b.rows, narrow<std::int32_t>(first), narrow<std::int32_t>(images)});
  run(l, columns_kernel("col2im", width), range_of_pixels({g.w * g.c / width, g.h, images}, l.profile()), arguments);
}

/// @param adds  to what lies in the output
template <Direction d>
void run_block(const Launch& l, const Geometry& g, const Plan& plan, const Block& b, bool adds) {
  const bool is_product = g.is_matrix_product();
  const opencl::Region& x = d == Direction::forward ? l.in(0) : d == Direction::input ? l.out(0) : l.in(1);
  const opencl::Region y = part(d == Direction::forward ? l.out(0) : l.in(0), b.begin * g.k, b.rows * g.k);
  const opencl::Region columns = is_product ? part(x, b.begin * g.c, b.rows * g.c) : part(plan.sections.in(l.workspace(), 1), 0, b.rows * g.depth());
  const opencl::Region scratch = plan.sections.in(l.workspace(), 2);
  const auto epilogue = l.epilogue_arguments(b.begin * (d == Direction::forward ? g.k : g.c));
  opencl::GemmProblem problem = product_of(d, g, plan, b);
  problem.adds = adds;
  problem.epilogue = {l.epilogue_text(), epilogue};
  const GemmForm& gemm = product_form(problem, l.profile());
  if (d != Direction::input && !is_product) im2col(l, g, x, columns, b);
  switch (d) {
    case Direction::forward:
      gemm.launch(l.device(), problem, {columns, l.in(1), y, scratch});
      break;
    case Direction::input:
      gemm.launch(l.device(), problem, {y, l.in(1), columns, scratch});
      break;
    case Direction::weights: {
      const opencl::Region sums = plan.parts > 1 ? part(l.workspace(), 0, problem.batch * g.depth() * g.k) : l.out(0);
      gemm.launch(l.device(), problem, {columns, y, sums, scratch});
      break;
    }
  }
  if (d == Direction::input && !is_product) col2im(l, g, columns, x, b);
}

template <Direction d>
void launch(Launch& l) {
  const Geometry g = geometry_of<d>(l.problem());
  const Plan plan = plan_of(d, g, l.profile());
  const bool adds = l.begin_sum();
  for (const Block& b : plan.blocks(g.pixels())) run_block<d>(l, g, plan, b, (adds && plan.parts == 1) || (d == Direction::weights && b.begin > 0));
  if (plan.parts > 1) add_parts(l, plan.parts, adds);
}

template <Direction d>
Variant variant() {
  return {.name = "gemm",
          .doc = "a matrix product with the patches under the windows, in blocks",
          .declines = declines<d>,
          .rank = rank<d>,
          .workspace_bytes = workspace_bytes<d>,
          .products = products<d>,
          .launch = launch<d>};
}

}  // namespace

Variant gemm_variant(Direction d) {
  if (d == Direction::forward) return variant<Direction::forward>();
  if (d == Direction::input) return variant<Direction::input>();
  return variant<Direction::weights>();
}

}  // namespace gemel::convolution
