// How the variants of the convolution family call their kernels.
#include <algorithm>
#include <utility>

#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_common.h"
#include "engine/ops/matmul/group_tiles.h"

namespace gemel::convolution {

std::vector<opencl::Argument> arguments_of(std::initializer_list<opencl::Argument> first, const Geometry& g) {
  std::vector<opencl::Argument> out(first);
  for (std::int64_t v : {g.n, g.h, g.w, g.c, g.r, g.s, g.k, g.p, g.q, g.stride[0], g.stride[1], g.padding[0], g.padding[1], g.dilation[0], g.dilation[1]})
    out.emplace_back(narrow<std::int32_t>(v));
  return out;
}

void run(const Launch& l, const KernelName& name, const opencl::Range& range, const std::vector<opencl::Argument>& arguments) {
  l.device().run(l.device().kernel(name.file, name.kernel, name.options), range, arguments);
}

void run_last(const Launch& l, const KernelName& name, const opencl::Range& range, const std::vector<opencl::Argument>& arguments) {
  l.device().run(l.device().kernel(name.file, name.kernel, name.options, l.epilogue_text()), range, arguments, l.epilogue_arguments());
}

Geometry in_rows(Geometry g, const opencl::DeviceProfile& d) {
  if (!d.runs_items_in_lanes() || g.h != 1 || g.r != 1 || g.p != 1) return g;
  std::swap(g.h, g.w);
  std::swap(g.r, g.s);
  std::swap(g.p, g.q);
  for (Pair* pair : {&g.stride, &g.padding, &g.dilation}) std::swap((*pair)[0], (*pair)[1]);
  return g;
}

std::int64_t parts_of_rows(const Geometry& g, std::int64_t items, std::int64_t group, const opencl::DeviceProfile& d) {
  constexpr std::int64_t kGroupsOfCore = 2, kItemsOfUnit = 16384, kMostParts = 1024;  // more parts are added up no faster than they are made
  const std::int64_t wanted = d.compute_units * (d.runs_items_in_lanes() ? kItemsOfUnit : kGroupsOfCore * group), most = std::min(g.n * g.p, kMostParts);
  return std::clamp<std::int64_t>(wanted / std::max<std::int64_t>(items, 1), 1, std::max<std::int64_t>(most, 1));
}

void add_parts(const Launch& l, std::int64_t parts, bool adds) {
  constexpr std::int64_t kGroup = 16;
  const std::int64_t elements = l.out_spec(0).elements(), columns = std::max<std::int64_t>(l.out_shape(0).back(), 1);
  if (l.profile().runs_items_in_lanes())
    return gemm::add_up(l.device(), {.parts = l.workspace(), .out = l.out(0), .rows = elements / columns, .columns = columns, .count = parts, .adds = adds},
                        {});
  l.run("cpu/parts.cl", "add_parts", opencl::range1(round_up(elements, kGroup), kGroup), {l.workspace(), l.out(0), elements, parts, std::int32_t{adds}});
}

}  // namespace gemel::convolution
