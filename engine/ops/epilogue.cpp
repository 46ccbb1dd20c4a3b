#include "engine/ops/epilogue.h"

#include <fmt/format.h>

#include "engine/base/numbers.h"
#include "engine/device/launch.h"
#include "engine/ops/elementwise_kernels.h"

namespace gemel {
namespace {

const char* index_of(Reach reach) {
  switch (reach) {
    case Reach::element:
      return "i";
    case Reach::column:
      return "c";
    default:
      return "0";
  }
}

/// A function of the product's element, and the macros that bring it into a kernel.
std::string text_of(const Elementwise& e, const Specs& inputs, const std::vector<Reach>& reach) {
  std::string parameters, loads, product, further = ", const long epilogue_first", passed;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (reach[k] == Reach::product) {
      product = fmt::format("const float x{}", k);
      continue;
    }
    const auto type = opencl_stored_name(inputs[k].dtype);
    parameters += fmt::format(", __global const {}* a{}", type, k);
    loads += fmt::format("  const {} x{} = {};\n", opencl_name(inputs[k].dtype), k, widened(inputs[k].dtype, fmt::format("a{}[{}]", k, index_of(reach[k]))));
    further += fmt::format(", __global const {}* epilogue_a{}", type, k);
    passed += fmt::format(", epilogue_a{}", k);
  }
  for (std::size_t s = 0; s < e.scalars.size(); ++s) {
    parameters += fmt::format(", const float {}", e.scalars[s]);
    further += fmt::format(", const float epilogue_s{}", s);
    passed += fmt::format(", epilogue_s{}", s);
  }
  // Always inlined: a call in it would leave the loop over lanes scalar.
  return fmt::format(
             "#include \"lib/math/functions.clh\"\nstatic inline __attribute__((always_inline)) float epilogue({}, const long i, const long c{}) {{\n{}  "
             "{}return "
             "(float)({});\n}}\n",
             product, parameters, loads, e.statements, e.body) +
         fmt::format("#define EPILOGUE_PARAMETERS {}\n#define EPILOGUE(v, i, c) epilogue(v, epilogue_first + (i), c{})\n", further, passed);
}

Cost cost(const Problem& p) {
  const OpDef& product = *p.op.epilogue->product;
  const auto own = product.inputs.size();
  Cost out = product.cost({product, p.attributes, p.inputs.first(own), p.outputs});
  out.flops += p.op.epilogue->flops * p.outputs[0].elements();
  for (const Spec& s : p.inputs.subspan(own)) out.bytes += s.bytes();
  return out;
}

}  // namespace

std::optional<Reach> reach_of(const Shape& input, const Shape& out) {
  if (input.elements() == 1) return Reach::single;
  if (input.elements() == out.elements()) return Reach::element;
  if (out.rank() > 0 && input.elements() == out.back() && input.back() == out.back()) return Reach::column;
  return std::nullopt;
}

std::shared_ptr<const OpDef> epilogue_record(const OpDef& product, const OpDef& elementwise, const Specs& inputs, const std::vector<Reach>& reach) {
  const Elementwise& e = *elementwise.elementwise;
  auto op = std::make_shared<OpDef>();
  op->name = product.name + "+" + (e.title.empty() ? elementwise.name : e.title);
  op->doc = "A product and what follows it, in one kernel: " + op->name + ".";
  op->inputs = product.inputs;
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (reach[k] != Reach::product) op->inputs.push_back(fmt::format("x{}", k));
  op->outputs = product.outputs;
  op->attributes = product.attributes;
  op->infer = product.infer;  // no product looks beyond its own inputs
  op->cost = cost;
  op->writes = product.writes;
  op->epilogue = Epilogue{&product, text_of(e, inputs, reach), e.scalars, e.flops};
  for (const std::string& s : op->epilogue->scalars) op->attributes.push_back({s.c_str(), Type::real, "of the elementwise operator"});
  op->variants = product.variants;
  return op;
}

Arguments Launch::epilogue_arguments(std::int64_t first) const {
  if (!problem_.op.epilogue) return {};
  const Epilogue& e = *problem_.op.epilogue;
  Arguments out(first, inputs_.subspan(e.product->inputs.size()));
  for (const std::string& s : e.scalars) out.add(attributes().real(s));
  return out;
}

Arguments Launch::epilogue_arguments_of_part(std::int64_t first, std::int64_t count) const {
  Arguments out = epilogue_arguments();
  const std::int64_t elements = out_spec(0).elements();
  std::size_t input = problem_.op.epilogue ? problem_.op.epilogue->product->inputs.size() : 0;
  for (opencl::Argument& argument : out)
    if (auto* region = std::get_if<opencl::Region>(&argument)) {
      const Spec& spec = problem_.inputs[input++];
      if (reach_of(spec.shape, out_spec(0).shape) != Reach::element) continue;
      const std::int64_t size = spec.bytes() / elements;
      *region = count == 0 ? opencl::Region{} : opencl::Region{region->block, region->offset + size * first, size * count};
    }
  return out;
}

}  // namespace gemel
