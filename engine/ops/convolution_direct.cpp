// Convolution, one work-item an output element: right for any stride, dilation and groups.
#include "engine/ops/common.h"
#include "engine/ops/convolution.h"

namespace gemel::convolution {
namespace {

constexpr std::int64_t kLocal = 64;
constexpr const char* kKernels[] = {"conv_forward", "conv_input_gradient", "conv_weight_gradient"};

template <Direction d>
void launch(Launch& l) {
  const Geometry g = geometry_of<d>(l.problem());
  auto arguments = arguments_of({l.in(0), l.in(1), l.out(0)}, g);
  arguments.emplace_back(narrow<std::int32_t>(g.groups));
  if constexpr (d == Direction::weights) arguments.emplace_back(std::int32_t{l.begin_sum()});
  run_last(l, {"convolution.cl", kKernels[static_cast<int>(d)]}, opencl::range1(round_up(l.out_spec(0).elements(), kLocal), kLocal), arguments);
}

}  // namespace

Variant direct_variant(Direction d) {
  constexpr void (*kLaunch[])(Launch&) = {launch<Direction::forward>, launch<Direction::input>, launch<Direction::weights>};
  return {"direct", "one work-item an output element", never_declines, nullptr, nullptr, kLaunch[static_cast<int>(d)]};
}

}  // namespace gemel::convolution
