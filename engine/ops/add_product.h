// Records of sum + product, written to the memory of the sum where possible. Weight gradients of several micro-batches are accumulated so: each reads and
// writes the sum once, where a product and an addition would access it three times.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/ops/common.h"

namespace gemel::add_product {

template <const OpDef& (*product)()>
Specs infer(const Specs& in, const Attributes& a) {
  static const std::string name = "add_" + product().name;
  const Specs out = product().infer({in[0], in[1]}, a);
  check_float32(name.c_str(), product().inputs[0].c_str(), in[0]);
  check_float32(name.c_str(), "sum", in[2]);
  check_shape(name.c_str(), "sum", in[2], out[0].shape);
  return out;
}

template <const OpDef& (*product)()>
Cost cost(const Problem& p) {
  Cost out = product().cost({product(), p.attributes, p.inputs.first(2), p.outputs});
  out.flops += p.outputs[0].elements();
  out.bytes += p.inputs[2].bytes();
  return out;
}

template <const OpDef& (*product)()>
void reference(const HostCall& c) {
  const std::vector<double> sum(c.real(2).begin(), c.real(2).end());  // the output may share its memory
  product().reference(c);
  std::ranges::transform(sum, c.out_real(0), c.out_real(0).begin(), std::plus());
}

template <const OpDef& (*product)()>
Values gradient(const Backward& b) {
  Values out = product().gradient(b);
  out.push_back(b.wants(2) ? b.gradient(0) : Value());
  return out;
}

template <const OpDef& (*product)()>
std::vector<Sample> samples() {
  std::vector<Sample> out;
  for (Sample& s : product().samples()) {
    if (s.inputs[0].dtype != DType::float32) continue;
    s.inputs.push_back(product().infer(s.inputs, s.attributes)[0]);
    out.push_back(std::move(s));
  }
  return out;
}

template <const OpDef& (*product)()>
std::vector<Rejected> rejected() {
  const Sample s = product().samples()[0];
  const Spec sum = product().infer(s.inputs, s.attributes)[0];
  const Spec whole{sum.shape, DType::int32};
  Shape longer = sum.shape;
  longer.push_back(2);
  const std::string name = "add_" + product().name + ": sum is ";
  return {{{s.inputs[0], s.inputs[1], {longer, DType::float32}}, s.attributes, name + to_string(longer) + "; accepted: " + to_string(sum.shape)},
          {{s.inputs[0], s.inputs[1], whole}, s.attributes, name + to_string(whole) + "; accepted: float32"}};
}

/// Makes the record "add_NAME" of a product.
/// @tparam product  record of two float32 inputs; its variants add to the output if Launch::begin_sum says so
template <const OpDef& (*product)()>
OpDef record() {
  OpDef def = product();
  def.name = "add_" + product().name;
  def.doc = "Adds to a sum, in its memory where nobody else holds it: " + product().doc;
  def.inputs.emplace_back("sum");
  def.infer = infer<product>;
  def.cost = cost<product>;
  def.reference = reference<product>;
  def.gradient = gradient<product>;
  def.gradient_reads = {product().gradient_reads[0], product().gradient_reads[1], nothing};
  def.may_reuse = {{0, 2}};
  def.takes_epilogue = false;
  def.adds = &product();
  def.samples = samples<product>;
  def.rejected = rejected<product>;
  return def;
}

}  // namespace gemel::add_product
