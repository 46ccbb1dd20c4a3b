// Depthwise convolution by a window in registers, for GPUs. opencl/kernels/gpu/convolution/depthwise.cl explains it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_common.h"

namespace gemel::convolution {
namespace {

constexpr const char* kFile = "gpu/convolution/depthwise.cl";
constexpr std::int64_t kRun = 4;           // pixels of a work-item
constexpr std::int64_t kMostOfWindow = 5;  // along each axis: a work-item keeps its taps, and for their gradient what lies under them, in registers
constexpr std::int64_t kMostStride = 2;

template <Direction d>
const char* declines(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  if (!g.is_depthwise()) return "it is not one filter for each channel";
  if (g.dilation != Pair{1, 1}) return "the taps of its window are apart";
  if (std::max(g.r, g.s) > kMostOfWindow) return "its window is too large";
  if (std::max(g.stride[0], g.stride[1]) > (d == Direction::input ? 1 : kMostStride)) return "its stride is too large";
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t columns = std::max(g.w, g.q) + kRun * kMostStride + 2 * (g.padding[1] + g.s);  // with those outside, which are computed, not read
  if (std::max(g.h, g.p) * columns * g.c > kMost) return "an image has about 2^31 elements or more";
  return d == Direction::weights && g.n * in_rows(g, profile).p > kMost ? "the images have 2^31 rows or more" : nullptr;
}

std::string options_for(const Geometry& g, bool forward, const opencl::DeviceProfile& profile) {
  return fmt::format("-DWINDOW_ROWS={} -DWINDOW_COLUMNS={} -DROW_STRIDE={} -DCOLUMN_STRIDE={} -DRUN={} -DFORWARD={:d}{}", g.r, g.s, g.stride[0], g.stride[1],
                     kRun, forward, sub_group_option(profile));
}

template <Direction d>
void product_launch(Launch& l) {
  const Geometry g = geometry_of<d>(l.problem());
  const bool forward = d == Direction::forward;
  const std::int64_t height = forward ? g.p : g.h, width = forward ? g.q : g.w;
  run_last(l, {kFile, "depthwise_window", options_for(g, forward, l.profile())}, range_of_pixels({ceil_div(width, kRun) * g.c, height, g.n}, l.profile()),
           arguments_of({l.in(0), l.in(1), l.out(0)}, g));
}

std::int64_t parts_of(const Geometry& g, const opencl::DeviceProfile& d) { return parts_of_rows(g, g.c, 1, d); }
std::int64_t partial_bytes(const Problem& p, const opencl::DeviceProfile& d) {
  return parts_of(in_rows(geometry_of<Direction::weights>(p), d), d) * p.outputs[0].bytes();
}

void weights_launch(Launch& l) {
  const Geometry g = in_rows(geometry_of<Direction::weights>(l.problem()), l.profile());
  const std::int64_t parts = parts_of(g, l.profile());
  auto arguments = arguments_of({l.in(0), l.in(1), l.workspace()}, g);
  arguments.emplace_back(narrow<std::int32_t>(parts));
  run(l, {kFile, "depthwise_window_weight_gradient", options_for(g, true, l.profile())}, range_of_pixels({g.c, parts, 1}, l.profile()), arguments);
  add_parts(l, parts, l.begin_sum());
}

int rank(const Problem&, const opencl::DeviceProfile& d) { return d.runs_items_in_lanes() ? Rank::fast_depthwise : Rank::emulated; }

}  // namespace

Variant depthwise_window_variant(Direction d) {
  Variant v{.name = "depthwise_window", .doc = "each channel with its own filter, whose window slides in registers", .target = Target::gpu, .rank = rank};
  if (d == Direction::forward) v.declines = declines<Direction::forward>, v.launch = product_launch<Direction::forward>;
  if (d == Direction::input) v.declines = declines<Direction::input>, v.launch = product_launch<Direction::input>;
  if (d == Direction::weights) v.declines = declines<Direction::weights>, v.workspace_bytes = partial_bytes, v.launch = weights_launch;
  return v;
}

}  // namespace gemel::convolution
