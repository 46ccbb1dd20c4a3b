// Shared by the records and variants of convolution.
// Legend: x [N, H, W, C], w [R, S, C / groups, K], y [N, P, Q, K].
#pragma once
#include <vector>

#include "engine/core/op.h"
#include "engine/device/launch.h"
#include "engine/ops/ops.h"

namespace gemel::convolution {

/// forward: y = x * w. input: the gradient for x from (dy, w). weights: the gradient for w from (dy, x).
enum class Direction { forward, input, weights };

struct Geometry {
  std::int64_t n, h, w, c, r, s, k, p, q, groups;
  Pair stride, padding, dilation;

  std::int64_t pixels() const { return n * p * q; }
  std::int64_t taps() const { return r * s; }
  std::int64_t group_channels() const { return c / groups; }
  std::int64_t group_filters() const { return k / groups; }
  /// Number of terms of one output element of the forward direction.
  std::int64_t depth() const { return taps() * group_channels(); }
  std::int64_t flops() const { return 2 * pixels() * k * depth(); }
  bool is_depthwise() const { return groups == c && groups == k; }
  /// True if the convolution is the product of x as [N H W, C] and w as [C, K].
  bool is_matrix_product() const { return groups == 1 && r == 1 && s == 1 && stride == Pair{1, 1} && padding == Pair{0, 0}; }
};

/// Ranks of the variants: classes of expected speed on a problem and a device. Direct variants have rank 0.
struct Rank {
  static constexpr int emulated = -2;   // vectors that the device only emulates
  static constexpr int too_small = -1;  // so little work that launching it takes longest
  static constexpr int slow = 3;        // a shape that it serves badly: lanes, tiles or rows are left half empty
  static constexpr int fair = 4, good = 5, fast = 8, faster = 9;
  static constexpr int depthwise = 10, fast_depthwise = 12;
  static constexpr int asked = 14;       // with fewer digits, as was asked for
  static constexpr int unmeasured = -3;  // whatever else there is goes first, until it was measured
};
/// Least floating-point operations for which tiles pay.
inline constexpr std::int64_t kWorthTiles = 1 << 15;

/// Returns the output extent along one axis; 0 if the window does not fit.
std::int64_t output_extent(std::int64_t in, std::int64_t window, std::int64_t stride, std::int64_t padding, std::int64_t dilation);
Geometry geometry_of(const Shape& x, const Shape& w, const Attributes& attributes);
Geometry geometry_of(Direction direction, std::span<const Spec> inputs, std::span<const Spec> outputs, const Attributes& attributes);
template <Direction direction>
Geometry geometry_of(const Problem& p) {
  return geometry_of(direction, p.inputs, p.outputs, p.attributes);
}

/// Returns the arguments `first`, followed by the geometry as the kernels' GEOMETRY: n h w c r s k p q, stride, padding, dilation (all int).
std::vector<opencl::Argument> arguments_of(std::initializer_list<opencl::Argument> first, const Geometry& g);
/// A kernel, its file and its build options.
struct KernelName {
  std::string_view file, kernel;
  std::string options = {};
};
void run(const Launch& launch, const KernelName& name, const opencl::Range& range, const std::vector<opencl::Argument>& arguments);
/// Runs the kernel that stores the result of a product, with the epilogue of a fused record.
void run_last(const Launch& launch, const KernelName& name, const opencl::Range& range, const std::vector<opencl::Argument>& arguments);
/// On a GPU turns a convolution of images of one row into the same one of images of one column, so that a sum over rows can be cut into parts.
Geometry in_rows(Geometry g, const opencl::DeviceProfile& profile);
/// Returns the number of parts of a sum over the rows of all images, such that every compute unit has work-groups.
/// @param items  work-items of each part  @param group  work-items of a work-group
std::int64_t parts_of_rows(const Geometry& g, std::int64_t items, std::int64_t group, const opencl::DeviceProfile& profile);
/// Sums the parts, which lie one after another in the workspace, into the output.
/// @param adds  true: adds to the output's contents
void add_parts(const Launch& launch, std::int64_t parts, bool adds);

/// The time that a GPU is estimated to take for it by group_tiles, as gemm::parts_of counts it.
double group_tiles_time(Direction direction, const Geometry& g, const opencl::DeviceProfile& profile);

/// The variants for each direction. Direct variants accept any problem.
Variant direct_variant(Direction direction);
Variant depthwise_variant(Direction direction);
Variant depthwise_rows_variant(Direction direction);
Variant depthwise_window_variant(Direction direction);
Variant gemm_variant(Direction direction);
Variant group_tiles_variant(Direction direction);
Variant matrix_units_variant(Direction direction);
Variant group_winograd_variant(Direction direction);
Variant rows_variant();
Variant tiles_variant(Direction direction);
Variant weight_tiles_variant();
Variant weight_rows_variant();
Variant winograd_variant(Direction direction);

}  // namespace gemel::convolution
