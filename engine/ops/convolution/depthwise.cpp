// Depthwise convolution: each channel with a filter of its own.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_common.h"

namespace gemel::convolution {
namespace {

constexpr std::int64_t kGroupOfCpu = 16;
constexpr const char* kFile = "any/convolution/depthwise.cl";

template <Direction d>
const char* declines(const Problem& p, const opencl::DeviceProfile& profile) {
  const Geometry g = geometry_of<d>(p);
  if (!g.is_depthwise()) return "it is not one filter for each channel";
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (std::max(g.h * g.w * g.c, g.p * g.q * g.c) > kMost) return "an image has 2^31 elements or more";
  if (d != Direction::weights) return nullptr;
  if (g.n * in_rows(g, profile).p > kMost) return "the images have 2^31 rows or more";
  return g.taps() > opencl::kMostGroups ? "its window has too many taps" : nullptr;
}

/// Channels of one work-item: a vector where items run one after the other, one where they run side by side.
std::int64_t width_of(std::int64_t channels, const opencl::DeviceProfile& d) {
  if (d.runs_items_in_lanes()) return 1;
  return channels % 16 == 0 ? 16 : channels % 8 == 0 ? 8 : 1;
}

std::int64_t parts_of(const Geometry& g, const opencl::DeviceProfile& d) { return parts_of_rows(g, g.taps() * g.c / width_of(g.c, d), kGroupOfCpu, d); }

std::string options_for(std::int64_t width) { return fmt::format("-DWIDTH={}", width); }

template <Direction d>
void product_launch(Launch& l) {
  const Geometry g = geometry_of<d>(l.problem());
  const std::int64_t width = width_of(g.c, l.profile());
  run_last(l, {kFile, d == Direction::forward ? "depthwise_forward" : "depthwise_input_gradient", options_for(width)},
           range_of_pixels(d == Direction::forward ? std::array{g.q * g.c / width, g.p, g.n} : std::array{g.w * g.c / width, g.h, g.n}, l.profile()),
           arguments_of({l.in(0), l.in(1), l.out(0)}, g));
}

std::int64_t partial_bytes(const Problem& p, const opencl::DeviceProfile& d) {
  return parts_of(in_rows(geometry_of<Direction::weights>(p), d), d) * p.outputs[0].bytes();
}

void weights_launch(Launch& l) {
  const Geometry g = in_rows(geometry_of<Direction::weights>(l.problem()), l.profile());
  const std::int64_t parts = parts_of(g, l.profile()), width = width_of(g.c, l.profile());
  auto arguments = arguments_of({l.in(0), l.in(1), l.workspace()}, g);
  arguments.emplace_back(narrow<std::int32_t>(parts));
  run(l, {kFile, "depthwise_weight_gradient", options_for(width)}, range_of_pixels({g.c / width, g.taps(), parts}, l.profile()), arguments);
  add_parts(l, parts, l.begin_sum());
}

int rank(const Problem&, const opencl::DeviceProfile&) { return Rank::depthwise; }

}  // namespace

Variant depthwise_variant(Direction d) {
  constexpr const char* doc = "each channel with its own filter, a work-item some channels of a pixel";
  if (d == Direction::forward)
    return {.name = "depthwise", .doc = doc, .declines = declines<Direction::forward>, .rank = rank, .launch = product_launch<Direction::forward>};
  if (d == Direction::input)
    return {.name = "depthwise", .doc = doc, .declines = declines<Direction::input>, .rank = rank, .launch = product_launch<Direction::input>};
  return {.name = "depthwise", .doc = doc, .declines = declines<Direction::weights>, .rank = rank, .workspace_bytes = partial_bytes, .launch = weights_launch};
}

}  // namespace gemel::convolution
