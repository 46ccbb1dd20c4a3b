// Elementwise operators of one tensor.
#include <cmath>

#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel {
namespace {

Specs same(const Specs& in, const Attributes&) { return {in[0]}; }

std::vector<Sample> samples() { return {{{f32({3, 5})}}, {{f32({})}}, {{f32({65, 33})}}, {{f32({0})}}}; }

}  // namespace

const OpDef& negate_def() {
  static const OpDef def{
      .name = "negate",
      .doc = "The negative, -x.",
      .inputs = {"x"},
      .infer = same,
      .cost = elementwise_cost,
      .reference = [](const HostCall& c) { map_numbers<1>(c, [](auto x) { return -x; }); },
      .gradient = [](const Backward& b) -> Values { return {negate(b.gradient(0))}; },
      .gradient_reads = {nothing},
      .may_reuse = {{0, 0}},
      .elementwise = Elementwise{"-x0"},
      .variants = elementwise_variants(),
      .samples = samples};
  return def;
}

const OpDef& exp_def() {
  static const OpDef def{
      .name = "exp",
      .doc = "e to the power of x.",
      .inputs = {"x"},
      .infer = [](const Specs& in, const Attributes&) -> Specs {
        check_floating("exp", "x", in[0]);
        return {in[0]};
      },
      .cost = elementwise_cost,
      .reference = [](const HostCall& c) { map_as<double>(c, [](double x) { return std::exp(x); }); },
      .gradient = [](const Backward& b) -> Values { return {b.gradient(0) * b.output(0)}; },
      .gradient_reads = {outputs(0)},
      .may_reuse = {{0, 0}},
      .elementwise = Elementwise{"exp(x0)"},
      .variants = elementwise_variants(),
      .samples = samples,
      .rejected = [] { return std::vector<Rejected>{{{i32({2})}, {}, "exp: x is int32 [2]; accepted: a floating type"}}; }};
  return def;
}

Value negate(Value x) { return apply(negate_def(), list(std::move(x)))[0]; }
Value exp(Value x) { return apply(exp_def(), list(std::move(x)))[0]; }

}  // namespace gemel
