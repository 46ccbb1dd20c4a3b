// Convolution, one work-item an output element: right for any stride, dilation and groups.
#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_common.h"

namespace gemel::convolution {
namespace {

constexpr std::int64_t kLocal = 64;

opencl::Range range_of(std::int64_t elements) { return opencl::range1(round_up(elements, kLocal), kLocal); }

template <Direction d>
void launch(Launch& l) {
  const Geometry g = geometry_of<d>(l.problem());
  auto arguments = arguments_of({l.in(0), l.in(1), l.out(0)}, g);
  arguments.emplace_back(narrow<std::int32_t>(g.groups));
  run_last(l, {"any/convolution/direct.cl", d == Direction::forward ? "conv_forward" : "conv_input_gradient"}, range_of(l.out_spec(0).elements()), arguments);
}

Geometry geometry_in_rows(const Problem& p, const opencl::DeviceProfile& profile) { return in_rows(geometry_of<Direction::weights>(p), profile); }

std::int64_t parts_of(const Problem& p, const opencl::DeviceProfile& profile) {
  return parts_of_rows(geometry_in_rows(p, profile), p.outputs[0].elements(), kLocal, profile);
}
std::int64_t partial_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  const std::int64_t parts = parts_of(p, profile);
  return parts > 1 ? parts * p.outputs[0].bytes() : 0;
}

void launch_weights(Launch& l) {
  const Geometry g = geometry_in_rows(l.problem(), l.profile());
  const std::int64_t parts = parts_of(l.problem(), l.profile());
  const bool adds = l.begin_sum(), is_whole = parts == 1;
  auto arguments = arguments_of({l.in(0), l.in(1), is_whole ? l.out(0) : l.workspace()}, g);
  arguments.emplace_back(narrow<std::int32_t>(g.groups));
  arguments.emplace_back(parts);
  arguments.emplace_back(std::int32_t{is_whole && adds});
  run(l, {"any/convolution/direct.cl", "conv_weight_gradient"}, range_of(parts * l.out_spec(0).elements()), arguments);
  if (!is_whole) add_parts(l, parts, adds);
}

}  // namespace

Variant direct_variant(Direction d) {
  if (d == Direction::weights)
    return {.name = "direct", .doc = "one work-item a weight and share of the rows", .workspace_bytes = partial_bytes, .launch = launch_weights};
  return {
      .name = "direct", .doc = "one work-item an output element", .launch = d == Direction::forward ? launch<Direction::forward> : launch<Direction::input>};
}

}  // namespace gemel::convolution
