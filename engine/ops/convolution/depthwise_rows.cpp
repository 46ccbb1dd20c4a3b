// Depthwise convolution by rows of which the newest is a stream: the fast way on CPUs. opencl/kernels/cpu/convolution/depthwise_rows.cl explains it.
#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_common.h"

namespace gemel::convolution {
namespace {

constexpr const char* kFile = "cpu/convolution/depthwise_rows.cl";
constexpr std::int64_t kMostTaps = 8;              // of a window, along each axis
constexpr std::int64_t kPixels[] = {8, 14, 7};     // 8 unless another fits a row better
constexpr std::int64_t kMostOfEight = 8;           // pixels at once where vectors have 8 lanes: more sums leave no registers for the taps
constexpr std::int64_t kStreamed = 512;            // channels: pixels so long are streams that CPUs follow by themselves
constexpr std::int64_t kRows = 8, kMostRows = 28;  // of a group: rows at its edges are read by its neighbour too
constexpr std::int64_t kGroupsAUnit = 8;           // so that no unit waits long for the last
// Of the weights' gradient, whose groups of rows have sums of their own, which another launch adds:
constexpr std::int64_t kReadOverSums = 32;  // what is read is so many times as much
constexpr std::int64_t kLeastGroupsAUnit = 2;
constexpr std::int64_t kLeastChannels = 128;  // of a group of all rows: pieces of a pixel that are long enough to be read as streams

std::int64_t width_of(const Geometry& g, const opencl::DeviceProfile& profile) { return g.c % 16 == 0 && profile.has_wide_vectors() ? 16 : 8; }

/// How the work is shared out: rows of one image, and channels, of a group.
struct Shares {
  std::int64_t rows, row_groups, channels, channel_groups;
};
template <Direction d>
Shares shares_of(const Geometry& g, const opencl::DeviceProfile& profile) {
  const std::int64_t width = width_of(g, profile), blocks = g.c / width;
  Shares s{};
  if (d == Direction::weights) {
    const std::int64_t rows = g.n * g.p, read = g.n * (g.p * g.q + g.h * g.w), most = std::min(kGroupsAUnit * profile.compute_units, ceil_div(rows, kRows));
    const std::int64_t least = kLeastGroupsAUnit * profile.compute_units;
    s.row_groups = std::clamp<std::int64_t>(read / (kReadOverSums * g.taps()), 1, most);
    if (s.row_groups < least && g.c / least >= kLeastChannels) s.row_groups = 1;
    s.rows = ceil_div(rows, s.row_groups);
    s.row_groups = ceil_div(rows, s.rows);
    s.channel_groups = std::min(ceil_div(least, s.row_groups), blocks);
  } else {
    const std::int64_t wanted = kGroupsAUnit * profile.compute_units, image_rows = d == Direction::input ? g.h : g.p;
    s.rows = std::min(std::clamp(ceil_div(g.n * image_rows, wanted), kRows, kMostRows), image_rows);
    s.row_groups = g.n * ceil_div(image_rows, s.rows);
    s.channel_groups = std::clamp<std::int64_t>(ceil_div(wanted, s.row_groups), 1, blocks);
  }
  s.channels = ceil_div(blocks, s.channel_groups) * width;
  s.channel_groups = ceil_div(g.c, s.channels);
  return s;
}

template <Direction d>
const char* declines(const Problem& p, const opencl::DeviceProfile&) {
  const Geometry g = geometry_of<d>(p);
  if (!g.is_depthwise()) return "it is not one filter for each channel";
  if (g.c % 8 != 0) return "the channels are no multiple of 8";
  if (g.pixels() == 0 || g.n * g.h * g.w == 0) return "an extent is 0";
  if (g.dilation[0] != 1) return "the rows of its window are apart";
  if (g.r > kMostTaps || g.s > kMostTaps) return "its window is too large";
  if (g.stride[1] > kMostTaps || (g.s - 1) * g.dilation[1] > kPixels[0]) return "its taps are too far apart";
  return nullptr;
}

template <Direction d>
std::int64_t longest_loop(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  const Shares s = shares_of<d>(g, profile);
  return s.rows * g.taps() * std::max(g.w, g.q) * s.channels / width_of(g, profile);
}

int rank(const Problem&, const opencl::DeviceProfile& profile) { return profile.runs_vectors() ? Rank::fast_depthwise : Rank::emulated; }

std::vector<opencl::Argument> arguments_for(std::initializer_list<opencl::Argument> first, const Geometry& g, const Shares& s) {
  auto arguments = arguments_of(first, g);
  arguments.insert(arguments.end(), {narrow<std::int32_t>(s.rows), narrow<std::int32_t>(s.channels)});
  return arguments;
}
opencl::Range range_of(const Shares& s) { return opencl::range2({s.channel_groups, s.row_groups}, {1, 1}); }

/// Pixels of a row, of `columns`, that are worked on at once: as few as possible beyond its end.
std::int64_t pixels_of(std::int64_t columns, std::int64_t spread, std::int64_t width) {
  std::int64_t best = 0;
  for (std::int64_t pixels : kPixels) {
    if (pixels % spread != 0 || (width == 8 && pixels > kMostOfEight)) continue;
    if (best == 0 || round_up(columns, pixels) < round_up(columns, best)) best = pixels;
  }
  return best ? best : spread;
}

template <Direction d>
std::string options_for(const Launch& l, const Geometry& g) {
  const bool turned = d == Direction::input;
  const std::int64_t step = turned ? 1 : g.stride[1], spread = turned ? g.stride[1] : 1;
  const std::int64_t width = width_of(g, l.profile()), left = turned ? (g.s - 1) * g.dilation[1] - g.padding[1] : 0;
  // Halves of a line that go around the caches one by one are written alone wherever other lines come between them: up to eight times slower.
  const bool lines = width == 16, around = lines && l.epilogue_text().empty() && l.leaves_the_caches();
  const bool asks = lines && g.c < kStreamed && shares_of<d>(g, l.profile()).channel_groups == 1;
  return fmt::format("-DWIDTH={} -DPIXELS={} -DTAPS={} -DSTEP={} -DSPREAD={} -DSHIFT={} -DDILATION={}{}{}", width, pixels_of(turned ? g.w : g.q, spread, width),
                     g.s, step, spread, (left % spread + spread) % spread, g.dilation[1], asks ? " -DASKS" : "", around ? " -DAROUND" : "");
}

template <Direction d>
void product_launch(Launch& l) {
  const Geometry g = geometry_of<d>(l.problem());
  const Shares s = shares_of<d>(g, l.profile());
  run_last(l, {kFile, d == Direction::forward ? "depthwise_rows_forward" : "depthwise_rows_input_gradient", options_for<d>(l, g)}, range_of(s),
           arguments_for({l.in(0), l.in(1), l.out(0)}, g, s));
}

std::int64_t partial_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  const std::int64_t parts = shares_of<Direction::weights>(geometry_of<Direction::weights>(p), profile).row_groups;
  return parts > 1 ? parts * p.outputs[0].bytes() : 0;
}

void weights_launch(Launch& l) {
  const Geometry g = geometry_of<Direction::weights>(l.problem());
  const Shares s = shares_of<Direction::weights>(g, l.profile());
  const opencl::Region sums = s.row_groups > 1 ? l.workspace() : l.out(0);
  const bool adds = l.begin_sum();
  auto arguments = arguments_for({l.in(0), l.in(1), sums}, g, s);
  arguments.emplace_back(std::int32_t{adds && s.row_groups == 1});
  run(l, {kFile, "depthwise_rows_weight_gradient", options_for<Direction::weights>(l, g)}, range_of(s), arguments);
  if (s.row_groups > 1) add_parts(l, s.row_groups, adds);
}

template <Direction d>
Variant variant(void (*launch)(Launch&)) {
  return {.name = "depthwise_rows",
          .doc = "each channel with its own filter, rows of some channels at a time",
          .target = Target::cpu,
          .needs = {.private_blocks = true},
          .declines = declines<d>,
          .longest_loop = longest_loop<d>,
          .rank = rank,
          .workspace_bytes = d == Direction::weights ? partial_bytes : nullptr,
          .launch = launch};
}

}  // namespace

Variant depthwise_rows_variant(Direction d) {
  if (d == Direction::forward) return variant<Direction::forward>(product_launch<Direction::forward>);
  if (d == Direction::input) return variant<Direction::input>(product_launch<Direction::input>);
  return variant<Direction::weights>(weights_launch);
}

}  // namespace gemel::convolution
