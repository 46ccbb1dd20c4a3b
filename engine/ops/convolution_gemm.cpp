// Convolution through GEMM, for one group. The patches under the windows form a matrix [N P Q, R S C] ("columns"):
//   y = columns w        dx = columns-to-image(dy w^T)        dw = columns^T dy
// It is made in blocks of rows, so that the workspace stays bounded. Where the window is a single tap at every pixel, x
// itself is that matrix; a small dw is then a batch of products, each over a part of the pixels, whose sums are added.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/convolution.h"
#include "engine/ops/matmul.h"

namespace gemel::convolution {
namespace {

constexpr std::int64_t kLocal = 64;
constexpr std::int64_t kColumnBytes = 16 << 20;       // of one block of columns where it comes from a shared cache
constexpr std::int64_t kWideColumnBytes = 128 << 20;  // and where only large products fill the device
constexpr std::int64_t kWeightRows = 16384;           // longest sum of the weights' gradient before it is added to the rest
constexpr std::int64_t kShortestPart = 1024;          // pixels of a part of the weights' gradient, whose sums are added to the others'
constexpr std::int64_t kPartElements = 1 << 15;       // of dw: a larger one has work enough without parts
constexpr std::int64_t kWorthwhileFlops = 1 << 17;    // below this, one simple kernel is faster than several launches

opencl::GemmProblem gemm_of(Direction d, const Geometry& g, std::int64_t rows) {
  switch (d) {
    case Direction::forward: return {.m = rows, .n = g.k, .k = g.depth()};
    case Direction::input: return {.m = rows, .n = g.depth(), .k = g.k, .b = Transpose::yes};
    case Direction::weights: return {.m = g.depth(), .n = g.k, .k = rows, .a = Transpose::yes};
  }
  throw InternalError("convolution: unknown direction");
}

/// Parts of one length into which all pixels are cut for a small dw, as many for each unit, so that none reads another's pixels. 1: none.
std::int64_t parts_of(Direction d, const Geometry& g, const opencl::DeviceProfile& profile) {
  if (d != Direction::weights || !g.is_matrix_product() || !runs_vectors(profile) || g.c * g.k > kPartElements) return 1;
  const std::int64_t step = 2 * profile.compute_units;  // a unit that is held up leaves its second to another
  for (std::int64_t parts = round_up(ceil_div(g.pixels(), kWeightRows), step); g.pixels() / parts >= kShortestPart; parts += step)
    if (g.pixels() % parts == 0) return parts;
  return 1;
}

opencl::GemmProblem gemm_of_parts(const Geometry& g, std::int64_t parts) {
  opencl::GemmProblem problem = gemm_of(Direction::weights, g, g.pixels() / parts);
  problem.batch = parts;
  problem.stride_a = problem.k * g.c, problem.stride_b = problem.k * g.k, problem.stride_c = g.c * g.k;
  return problem;
}

struct Plan {
  std::int64_t parts = 1;         // of all pixels; 1: blocks of rows one after the other
  std::int64_t rows = 0;          // of a block; the last may have fewer
  std::int64_t first_bytes = 0;   // of columns, or of the sums of parts, first in the workspace; 0 where x is the matrix
  std::int64_t workspace_bytes = 0;
};

/// The products of a plan: of all parts at once, or of a whole block and of the last.
std::vector<opencl::GemmProblem> products_of(Direction d, const Geometry& g, const Plan& plan) {
  if (plan.parts > 1) return {gemm_of_parts(g, plan.parts)};
  std::vector<opencl::GemmProblem> out;
  for (std::int64_t block : {std::min(plan.rows, g.pixels()), g.pixels() % plan.rows})
    if (block > 0) out.push_back(gemm_of(d, g, block));
  return out;
}

Plan plan_of(Direction d, const Geometry& g, const opencl::DeviceProfile& profile) {
  const std::int64_t unit = std::max<std::int64_t>(profile.base_alignment_bytes / 4, 1);  // rows whose offset is aligned at any width
  if (const std::int64_t parts = parts_of(d, g, profile); parts > 1) {
    const opencl::GemmProblem problem = gemm_of_parts(g, parts);
    const std::int64_t part_bytes = round_up(4 * parts * problem.stride_c, profile.base_alignment_bytes);
    return {.parts = parts, .first_bytes = part_bytes, .workspace_bytes = part_bytes + product_form(problem, profile).workspace_bytes(problem, profile)};
  }
  std::int64_t rows = round_up(g.pixels(), unit);
  if (d == Direction::weights) rows = std::min(rows, round_up(kWeightRows, unit));
  Plan plan;
  if (!g.is_matrix_product()) {
    const std::int64_t wanted = profile.has_real_local_memory ? kWideColumnBytes : kColumnBytes;
    const std::int64_t room = std::min(wanted, profile.max_allocation_bytes / 4);
    rows = std::max(unit, std::min(rows, room / (4 * g.depth()) / unit * unit));
    plan.first_bytes = round_up(4 * rows * g.depth(), profile.base_alignment_bytes);
  }
  plan.rows = rows;
  std::int64_t gemm_bytes = 0;
  for (const opencl::GemmProblem& problem : products_of(d, g, plan))
    gemm_bytes = std::max(gemm_bytes, product_form(problem, profile).workspace_bytes(problem, profile));
  plan.workspace_bytes = plan.first_bytes + gemm_bytes;
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
const char* declines(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  if (g.groups != 1) return "it has several groups";
  if (g.pixels() == 0 || g.c == 0 || g.k == 0) return "an extent is 0";
  if (plan_of(d, g, profile).workspace_bytes > profile.max_allocation_bytes) return "the workspace exceeds the largest allocation";
  return declines_epilogue<d>(p, g, profile);
}

template <Direction d>
int rank(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  if (g.flops() < kWorthwhileFlops) return Rank::too_small;
  // The weight gradient of a window of one pixel: a product over many pixels, where it has tiles for every unit.
  constexpr std::int64_t kTile = 12 * 32;
  const bool one_product = d == Direction::weights && g.is_matrix_product() && g.c * g.k >= 4 * kTile * profile.compute_units;
  return one_product && runs_vectors(profile) ? Rank::faster : Rank::good;
}

template <Direction d>
std::int64_t workspace_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  return plan_of(d, geometry_of<d>(p), profile).workspace_bytes;
}

opencl::Region part(const opencl::Region& of, std::int64_t begin, std::int64_t elements) {
  return {of.block, of.offset + 4 * begin, 4 * elements};
}

/// Channels of one work-item: a vector where items run one after the other, a little where they run side by side.
std::int64_t width_of(std::int64_t channels, const opencl::DeviceProfile& profile) {
  for (std::int64_t width : {16, 4})
    if (channels % width == 0 && (width == 4) == profile.has_real_local_memory) return width;
  return 1;
}

/// Rows of the matrix of columns (or of x), and of y or dy, that are worked on at a time.
struct Block {
  std::int64_t begin, rows;
};

/// @param elements  that the kernel writes
void run_columns(const Launch& l, const char* kernel, const Geometry& g, const std::vector<opencl::Argument>& arguments, std::int64_t elements) {
  const std::int64_t width = width_of(g.c, l.profile());
  run(l, {"convolution_columns.cl", kernel, fmt::format("-DWIDTH={}", width)}, opencl::range1(round_up(elements / width, kLocal), kLocal), arguments);
}

void im2col(const Launch& l, const Geometry& g, const opencl::Region& x, const opencl::Region& columns, const Block& b) {
  auto arguments = arguments_of({x, columns}, g);
  arguments.insert(arguments.end(), {b.begin, b.rows});
  run_columns(l, "im2col", g, arguments, b.rows * g.depth());
}

void col2im(const Launch& l, const Geometry& g, const opencl::Region& columns, const opencl::Region& dx, const Block& b) {
  const std::int64_t per_image = g.p * g.q, first = b.begin / per_image, images = ceil_div(b.begin + b.rows, per_image) - first;
  auto arguments = arguments_of({columns, dx}, g);
  arguments.insert(arguments.end(), {b.begin, b.rows, first, images});
  run_columns(l, "col2im", g, arguments, images * g.h * g.w * g.c);
}

opencl::Region scratch_of(const Launch& l, const Plan& plan) {
  return {l.workspace().block, l.workspace().offset + plan.first_bytes, plan.workspace_bytes - plan.first_bytes};
}

/// @param adds  to what lies in the output
template <Direction d>
void run_block(const Launch& l, const Geometry& g, const Plan& plan, const Block& b, bool adds) {
  const bool is_product = g.is_matrix_product();
  const opencl::Region& x = d == Direction::forward ? l.in(0) : d == Direction::input ? l.out(0) : l.in(1);
  const opencl::Region y = part(d == Direction::forward ? l.out(0) : l.in(0), b.begin * g.k, b.rows * g.k);
  const opencl::Region columns =
      is_product ? part(x, b.begin * g.c, b.rows * g.c) : part(l.workspace(), 0, b.rows * g.depth());
  const opencl::Region scratch = scratch_of(l, plan);
  const auto epilogue = l.epilogue_arguments(b.begin * (d == Direction::forward ? g.k : g.c));
  opencl::GemmProblem problem = gemm_of(d, g, b.rows);
  problem.accumulate = adds;
  problem.epilogue = {l.epilogue_text(), epilogue};
  const opencl::GemmForm& gemm = product_form(problem, l.profile());
  if (d != Direction::input && !is_product) im2col(l, g, x, columns, b);
  switch (d) {
    case Direction::forward: gemm.run(l.device(), problem, {columns, l.in(1), y, scratch}); break;
    case Direction::input: gemm.run(l.device(), problem, {y, l.in(1), columns, scratch}); break;
    case Direction::weights: gemm.run(l.device(), problem, {columns, y, l.out(0), scratch}); break;
  }
  if (d == Direction::input && !is_product) col2im(l, g, columns, x, b);
}

void run_parts(const Launch& l, const Geometry& g, const Plan& plan, bool adds) {
  const opencl::GemmProblem problem = gemm_of_parts(g, plan.parts);
  product_form(problem, l.profile()).run(l.device(), problem, {l.in(1), l.in(0), part(l.workspace(), 0, plan.parts * problem.stride_c),
      scratch_of(l, plan)});
  add_parts(l, plan.parts, adds);
}

template <Direction d>
void launch(Launch& l) {
  const Geometry g = geometry_of<d>(l.problem());
  const Plan plan = plan_of(d, g, l.profile());
  const bool adds = l.begin_sum();
  if (plan.parts > 1) return run_parts(l, g, plan, adds);
  for (std::int64_t begin = 0; begin < g.pixels(); begin += plan.rows)
    run_block<d>(l, g, plan, {begin, std::min(plan.rows, g.pixels() - begin)}, adds || (d == Direction::weights && begin > 0));
}

template <Direction d>
Variant variant() {
  return {"gemm", "a matrix product with the patches under the windows, in blocks", declines<d>, rank<d>, workspace_bytes<d>, launch<d>};
}

template <Direction d>
std::vector<opencl::GemmProblem> products_of(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  return products_of(d, g, plan_of(d, g, profile));
}

}  // namespace

Variant gemm_variant(Direction d) {
  if (d == Direction::forward) return variant<Direction::forward>();
  if (d == Direction::input) return variant<Direction::input>();
  return variant<Direction::weights>();
}

}  // namespace gemel::convolution

namespace gemel {

std::vector<opencl::GemmProblem> products_of(const Problem& p, const opencl::DeviceProfile& profile) {
  using convolution::Direction;
  const OpDef* op = p.op.epilogue ? p.op.epilogue->product : p.op.adds ? p.op.adds : &p.op;
  if (op == &conv2d_def()) return convolution::products_of<Direction::forward>(p, profile);
  if (op == &conv2d_input_gradient_def()) return convolution::products_of<Direction::input>(p, profile);
  if (op == &conv2d_weight_gradient_def()) return convolution::products_of<Direction::weights>(p, profile);
  throw InternalError(fmt::format("products_of: {} is no convolution", p.op.name));
}

}  // namespace gemel
