// Depthwise convolution by rows that stay in the first cache: the fast way on CPUs. kernels/convolution_depthwise_rows.cl explains it.
#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/common.h"
#include "engine/ops/convolution.h"

namespace gemel::convolution {
namespace {

constexpr const char* kFile = "convolution_depthwise_rows.cl";
constexpr std::int64_t kMostTaps = 8;         // of a window, along each axis
constexpr std::int64_t kRows = 8, kMostRows = 28;  // of a group: rows at its edges are read by its neighbour too
constexpr std::int64_t kGroupsAUnit = 8;      // so that no unit waits long for the last

std::int64_t width_of(const Geometry& g) { return g.c % 16 == 0 ? 16 : 8; }

/// How the work is shared out: rows of one image, and channels, of a group.
struct Shares {
  std::int64_t rows, row_groups, channels, channel_groups;
};
template <Direction d>
Shares shares_of(const Geometry& g, const opencl::DeviceProfile& profile) {
  const std::int64_t image_rows = d == Direction::input ? g.h : g.p, width = width_of(g), wanted = kGroupsAUnit * profile.compute_units;
  Shares s{};
  if (d == Direction::weights) {  // partial sums, of which there should be few
    s.rows = std::max(kRows, ceil_div(g.n * g.p, wanted));
    s.row_groups = ceil_div(g.n * g.p, s.rows);
  } else {
    s.rows = std::min(std::clamp(ceil_div(g.n * image_rows, wanted), kRows, kMostRows), image_rows);
    s.row_groups = g.n * ceil_div(image_rows, s.rows);
  }
  const std::int64_t blocks = g.c / width, parts = std::clamp<std::int64_t>(ceil_div(wanted, s.row_groups), 1, blocks);
  s.channels = ceil_div(blocks, parts) * width;
  s.channel_groups = ceil_div(g.c, s.channels);
  return s;
}

template <Direction d>
const char* declines(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  if (!g.is_depthwise()) return "it is not one filter for each channel";
  if (g.c % 8 != 0) return "the channels are no multiple of 8";
  if (g.pixels() == 0 || g.n * g.h * g.w == 0) return "an extent is 0";
  if (g.dilation[0] != 1) return "the rows of its window are apart";
  if (g.r > kMostTaps || g.s > kMostTaps) return "its window is too large";
  const Shares s = shares_of<d>(g, profile);
  if (profile.is_emulator && s.rows * g.taps() * std::max(g.w, g.q) * s.channels / width_of(g) > kEmulatedLoop) return "its loops are too long for an emulator";
  return nullptr;
}

int rank(const Problem&, const opencl::DeviceProfile& profile) {
  return profile.has_real_local_memory || profile.is_emulator || !profile.is_cpu() ? -2 : 12;  // the other has 10
}

std::vector<opencl::Argument> arguments_for(std::initializer_list<opencl::Argument> first, const Geometry& g, const Shares& s) {
  auto arguments = arguments_of(first, g);
  arguments.insert(arguments.end(), {narrow<std::int32_t>(s.rows), narrow<std::int32_t>(s.channels)});
  return arguments;
}
opencl::Range range_of(const Shares& s) { return opencl::range2({s.channel_groups, s.row_groups}, {1, 1}); }
std::string options_for(const Geometry& g, const opencl::DeviceProfile& profile) {
  return fmt::format("-DWIDTH={}{}", width_of(g), profile.is_emulator ? "" : " -DAHEAD");
}

template <Direction d>
void product_launch(Launch& l) {
  const Geometry g = geometry_of<d>(l.problem());
  const Shares s = shares_of<d>(g, l.profile());
  run_last(l, kFile, d == Direction::forward ? "depthwise_rows_forward" : "depthwise_rows_input_gradient", range_of(s),
           arguments_for({l.in(0), l.in(1), l.out(0)}, g, s), options_for(g, l.profile()));
}

std::int64_t partial_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  return shares_of<Direction::weights>(geometry_of<Direction::weights>(p), profile).row_groups * p.outputs[0].bytes();
}

void weights_launch(Launch& l) {
  const Geometry g = geometry_of<Direction::weights>(l.problem());
  const Shares s = shares_of<Direction::weights>(g, l.profile());
  run(l, kFile, "depthwise_rows_weight_gradient", range_of(s), arguments_for({l.in(0), l.in(1), l.workspace()}, g, s), options_for(g, l.profile()));
  add_parts(l, s.row_groups);
}

}  // namespace

Variant depthwise_rows_variant(Direction d) {
  constexpr const char* doc = "each channel with its own filter, rows of some channels at a time; for CPUs";
  if (d == Direction::forward) return {"depthwise_rows", doc, declines<Direction::forward>, rank, nullptr, product_launch<Direction::forward>};
  if (d == Direction::input) return {"depthwise_rows", doc, declines<Direction::input>, rank, nullptr, product_launch<Direction::input>};
  return {"depthwise_rows", doc, declines<Direction::weights>, rank, partial_bytes, weights_launch};
}

}  // namespace gemel::convolution
