// What the parts of the convolution family share.
// Legend: x [N, H, W, C], w [R, S, C / groups, K], y [N, P, Q, K].
#pragma once
#include <vector>

#include "engine/core/op.h"
#include "engine/device/launch.h"
#include "engine/ops/ops.h"

namespace gemel::convolution {

/// y = x * w, or the gradient for x from (dy, w), or the gradient for w from (dy, x).
enum class Direction { forward, input, weights };

struct Geometry {
  std::int64_t n, h, w, c, r, s, k, p, q, groups;
  Pair stride, padding, dilation;

  std::int64_t pixels() const { return n * p * q; }
  std::int64_t taps() const { return r * s; }
  std::int64_t group_channels() const { return c / groups; }
  std::int64_t group_filters() const { return k / groups; }
  /// Terms of one output element of the forward direction.
  std::int64_t depth() const { return taps() * group_channels(); }
  std::int64_t flops() const { return 2 * pixels() * k * depth(); }
  bool is_depthwise() const { return groups == c && groups == k; }
  /// The convolution is a product of x as [N H W, C] with w as [C, K].
  bool is_matrix_product() const { return groups == 1 && r == 1 && s == 1 && stride == Pair{1, 1} && padding == Pair{0, 0}; }
};

/// Ranks of the variants: how fast each is on a problem and a device, in classes of speed. The direct ones have 0.
struct Rank {
  static constexpr int emulated = -2;   // vectors that the device only emulates
  static constexpr int too_small = -1;  // so little work that launching it takes longest
  static constexpr int slow = 3;        // a shape that it serves badly: lanes, tiles or rows are left half empty
  static constexpr int fair = 4, good = 5, fast = 8, faster = 9;
  static constexpr int depthwise = 10, depthwise_rows = 12;
};
/// Floating-point operations below which tiles do not pay.
inline constexpr std::int64_t kWorthTiles = 1 << 15;

/// Output extent along one axis; 0 where the window does not fit.
std::int64_t output_extent(std::int64_t in, std::int64_t window, std::int64_t stride, std::int64_t padding, std::int64_t dilation);
Geometry geometry_of(const Shape& x, const Shape& w, const Attributes& attributes);
Geometry geometry_of(Direction direction, std::span<const Spec> inputs, std::span<const Spec> outputs, const Attributes& attributes);
template <Direction direction>
Geometry geometry_of(const Problem& p) {
  return geometry_of(direction, p.inputs, p.outputs, p.attributes);
}

/// Regions followed by the geometry as the kernels' GEOMETRY: n h w c r s k p q, stride, padding, dilation (all int).
std::vector<opencl::Argument> arguments_of(std::initializer_list<opencl::Argument> first, const Geometry& g);
/// A kernel of a file, built with options.
struct KernelName {
  std::string_view file, kernel;
  std::string options = {};
};
void run(const Launch& launch, const KernelName& name, const opencl::Range& range, const std::vector<opencl::Argument>& arguments);
/// The same for the kernel that stores the result of a product: with what a fused record appends.
void run_last(const Launch& launch, const KernelName& name, const opencl::Range& range, const std::vector<opencl::Argument>& arguments);
/// As its rows are cut into parts: on a GPU a convolution along time, of one row of pixels, is one along its column, whose rows are the pixels.
Geometry in_rows(Geometry g, const opencl::DeviceProfile& profile);
/// Into how many parts a sum over the rows of all images is cut, so that every unit of the device has groups to work on.
/// @param items  work-items of each part  @param group  of a work-group
std::int64_t parts_of_rows(const Geometry& g, std::int64_t items, std::int64_t group, const opencl::DeviceProfile& profile);
/// Adds the parts of a sum that lie one after another in the workspace, into the output. @param adds  to what lies there
void add_parts(const Launch& launch, std::int64_t parts, bool adds);

/// The variants of each direction, by family. The direct ones take any problem.
Variant direct_variant(Direction direction);
Variant depthwise_variant(Direction direction);
Variant depthwise_rows_variant(Direction direction);
Variant gemm_variant(Direction direction);
Variant rows_variant();
Variant tiles_variant(Direction direction);
Variant weight_tiles_variant();
Variant weight_rows_variant();
Variant winograd_variant(Direction direction);

}  // namespace gemel::convolution
