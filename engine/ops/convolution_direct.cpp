// Convolution, one work-item an output element: right for any stride, dilation and groups.
#include "engine/ops/common.h"
#include "engine/ops/convolution.h"

namespace gemel::convolution {

std::vector<opencl::Argument> arguments_of(std::initializer_list<opencl::Argument> first, const Geometry& g) {
  std::vector<opencl::Argument> out(first);
  for (std::int64_t v : {g.n, g.h, g.w, g.c, g.r, g.s, g.k, g.p, g.q, g.stride[0], g.stride[1], g.padding[0], g.padding[1],
                         g.dilation[0], g.dilation[1]})
    out.emplace_back(narrow<std::int32_t>(v));
  return out;
}

void run(const Launch& l, std::string_view file, std::string_view kernel, const opencl::Range& range,
         const std::vector<opencl::Argument>& arguments, std::string_view options) {
  l.device().run(l.device().kernel(file, kernel, options), range, arguments);
}

void run_last(const Launch& l, std::string_view file, std::string_view kernel, const opencl::Range& range,
              const std::vector<opencl::Argument>& arguments, std::string_view options) {
  l.device().run(l.device().kernel(file, kernel, options, l.epilogue_text()), range, arguments, l.epilogue_arguments());
}

void add_parts(const Launch& l, std::int64_t parts) {
  const std::int64_t elements = l.out_spec(0).elements();
  l.run("parts.cl", "add_parts", opencl::range1(round_up(elements, 16), 16), {l.workspace(), l.out(0), elements, parts});
}

namespace {

constexpr std::int64_t kLocal = 64;
constexpr const char* kKernels[] = {"conv_forward", "conv_input_gradient", "conv_weight_gradient"};

template <Direction d>
void launch(Launch& l) {
  const Geometry g = geometry_of<d>(l.problem());
  auto arguments = arguments_of({l.in(0), l.in(1), l.out(0)}, g);
  arguments.emplace_back(narrow<std::int32_t>(g.groups));
  run_last(l, "convolution.cl", kKernels[static_cast<int>(d)], opencl::range1(round_up(l.out_spec(0).elements(), kLocal), kLocal), arguments);
}

}  // namespace

Variant direct_variant(Direction d) {
  constexpr void (*kLaunch[])(Launch&) = {launch<Direction::forward>, launch<Direction::input>, launch<Direction::weights>};
  return {"direct", "one work-item an output element", never_declines, nullptr, nullptr, kLaunch[static_cast<int>(d)]};
}

}  // namespace gemel::convolution
