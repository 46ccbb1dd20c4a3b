// The weight gradient of a convolution of few channels, such as a model's first: patches are read where rows of x lie.
// Of fewer filters than a vector has lanes, each row of dy is laid out with as many, the others 0.
// opencl/kernels/cpu/convolution/weight_rows.cl explains it.
#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_common.h"

namespace gemel::convolution {
namespace {

constexpr const char* kFile = "cpu/convolution/weight_rows.cl";
constexpr std::int64_t kWindow = 8192;     // floats of the rows laid out: the first cache
constexpr std::int64_t kMostStep = 16;     // floats from one pixel to the next: a line of the cache
constexpr std::int64_t kShortestRow = 28;  // sums are added to memory once a row
constexpr std::int64_t kGroupsAUnit = 4;   // so that no unit waits long for the last

std::int64_t places_of(const Geometry& g) { return (g.q - 1) * g.stride[1] + (g.s - 1) * g.dilation[1] + 1; }
constexpr std::int64_t kNarrowPanel = 16, kWidePanel = 32;
std::int64_t panel_of(const Geometry& g, const opencl::DeviceProfile& profile) {
  return profile.has_wide_vectors() && g.k >= kWidePanel ? kWidePanel : kNarrowPanel;
}
bool lays_out_dy(const Geometry& g) { return g.k < kNarrowPanel; }
std::int64_t rows_of(const Geometry& g, const opencl::DeviceProfile& profile) { return ceil_div(g.n * g.p, kGroupsAUnit * profile.compute_units); }
std::int64_t parts_of(const Geometry& g, const opencl::DeviceProfile& profile) { return ceil_div(g.n * g.p, rows_of(g, profile)); }

const char* declines(const Problem& p, const opencl::DeviceProfile&) {
  const Geometry g = geometry_of<Direction::weights>(p);
  if (g.groups != 1) return "it has several groups";
  if (g.pixels() == 0 || g.c == 0 || g.n * g.h * g.w == 0) return "an extent is 0";
  if (g.r * places_of(g) * g.c > kWindow || (lays_out_dy(g) && g.q * kNarrowPanel > kWindow)) return "its rows are too long";
  return nullptr;
}

std::int64_t longest_loop(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<Direction::weights>(p);
  return rows_of(g, profile) * g.depth() * g.q;
}

int rank(const Problem& p, const opencl::DeviceProfile& profile) {
  if (!profile.runs_vectors()) return Rank::emulated;
  const Geometry g = geometry_of<Direction::weights>(p);
  return g.c * g.stride[1] <= kMostStep && g.q >= kShortestRow && g.taps() > 1 ? Rank::faster : Rank::slow;
}

std::int64_t workspace_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  return parts_of(geometry_of<Direction::weights>(p), profile) * p.outputs[0].bytes();
}

void launch(Launch& l) {
  const Geometry g = geometry_of<Direction::weights>(l.problem());
  const std::int64_t parts = parts_of(g, l.profile());
  auto arguments = arguments_of({l.in(0), l.in(1), l.workspace()}, g);
  arguments.push_back(narrow<std::int32_t>(rows_of(g, l.profile())));
  const bool wide = l.profile().has_wide_vectors();
  const std::string options =
      fmt::format("-DMR={} -DNR={} -DWINDOW={}{}", wide ? 8 : 4, panel_of(g, l.profile()), kWindow, lays_out_dy(g) ? " -DFEW_FILTERS" : "");
  run(l, {kFile, "rows_weight_gradient", options}, opencl::range1(parts, 1), arguments);
  add_parts(l, parts, l.begin_sum());
}

}  // namespace

Variant weight_rows_variant() {
  return {.name = "rows",
          .doc = "patches read where rows of x lie, for few channels",
          .target = Target::cpu,
          .needs = {.private_blocks = true},
          .declines = declines,
          .longest_loop = longest_loop,
          .rank = rank,
          .workspace_bytes = workspace_bytes,
          .launch = launch};
}

}  // namespace gemel::convolution
