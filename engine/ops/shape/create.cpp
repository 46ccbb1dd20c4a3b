// full, copy and assign.
#include <array>
#include <cstring>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

Cost moves(const Problem& p) { return {0, p.inputs.empty() ? p.outputs[0].bytes() : 2 * p.inputs[0].bytes()}; }

void full_reference(const HostCall& c) {
  const double value = c.attributes().real("value");
  if (is_floating(c.out_spec(0).dtype))
    for (double& y : c.out_real(0)) y = value;
  else
    for (std::int64_t& y : c.out_integer(0)) y = static_cast<std::int64_t>(value);
}

void full_launch(Launch& l) {
  const double value = l.attributes().real("value");
  l.device().fill(l.out(0), bytes_from_numbers(l.out_spec(0).dtype, std::span(&value, 1)));
}

void copy_cells(std::span<const Cell> from, std::span<Cell> to) { std::copy(from.begin(), from.end(), to.begin()); }

Specs assign_infer(const Specs& in, const Attributes&) {
  check_same_dtype("assign", in[0], in[1]);
  check_shape("assign", "source", in[1], in[0].shape);
  return {};
}

}  // namespace

const OpDef& full_def() {
  static const OpDef def{
      .name = "full",
      .doc = "A tensor of one value.",
      .attributes = {{"shape", Type::shape, "of the result"}, {"dtype", Type::dtype, "of the result"}, {"value", Type::real, "of every element"}},
      .infer = [](const Specs&, const Attributes& a) -> Specs {
        return {{a.shape("shape"), a.dtype("dtype")}};
      },
      .cost = moves,
      .reference = full_reference,
      .variants = {{"fill", "the driver's fill", never_declines, nullptr, nullptr, full_launch}},
      .samples =
          [] {
            return std::vector<Sample>{{{}, {{"shape", Shape{3, 5}}, {"dtype", DType::float32}, {"value", 1.5}}},
                                       {{}, {{"shape", Shape{}}, {"dtype", DType::int64}, {"value", -3.0}}},
                                       {{}, {{"shape", Shape{3, 5}}, {"dtype", DType::float16}, {"value", 0.3}}},
                                       {{}, {{"shape", Shape{5}}, {"dtype", DType::bfloat16}, {"value", 0.3}}},
                                       {{}, {{"shape", Shape{7}}, {"dtype", DType::boolean}, {"value", 1.0}}},
                                       {{}, {{"shape", Shape{0, 4}}, {"dtype", DType::float32}, {"value", 2.0}}}};
          },
  };
  return def;
}

const OpDef& copy_def() {
  static const OpDef def{
      .name = "copy",
      .doc = "The same contents in memory of its own.",
      .inputs = {"x"},
      .infer = [](const Specs& in, const Attributes&) -> Specs { return {in[0]}; },
      .cost = moves,
      .reference = [](const HostCall& c) { copy_cells(c.in<Cell>(0), c.out<Cell>(0)); },
      .gradient = [](const Backward& b) -> Values { return {b.gradient(0)}; },
      .gradient_reads = {nothing},
      .variants = {{"copy", "the driver's copy", never_declines, nullptr, nullptr, [](Launch& l) { l.device().copy(l.in(0), l.out(0)); }}},
      .samples =
          [] {
            return also_in_two_bytes({{{f32({3, 5})}}, {{f32({0, 2})}}, {{i64({4})}, {}, {integers(-9, 9)}}}, {0});
          },
  };
  return def;
}

const OpDef& assign_def() {
  static const OpDef def{
      .name = "assign",
      .doc = "destination = source, in place.",
      .inputs = {"destination", "source"},
      .outputs = {},
      .infer = assign_infer,
      .cost = moves,
      .reference = [](const HostCall& c) { copy_cells(c.in<Cell>(1), c.written<Cell>(0)); },
      .writes = {0},
      .variants = {{"copy", "the driver's copy", never_declines, nullptr, nullptr, [](Launch& l) { l.device().copy(l.in(1), l.in(0)); }}},
      .samples =
          [] {
            return also_in_two_bytes({{{f32({3, 5}), f32({3, 5})}}, {{i32({4}), i32({4})}, {}, {integers(-9, 9)}}}, {0});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{
                {{f32({3}), f32({4})}, {}, "assign: source is [4]; accepted: [3]"},
                {{f32({3}), i32({3})}, {}, "assign: float32 [3] and int32 [3] differ in element type; accepted: equal types, cast one"}};
          },
  };
  return def;
}

Value copy(Value x) { return apply(copy_def(), list(std::move(x)))[0]; }
void assign(const Value& destination, Value source) { apply(assign_def(), list(destination.detached(), std::move(source))); }

}  // namespace gemel::inline ops

namespace gemel {

Value full(Session& session, const Spec& spec, double value) {
  return apply(session, full_def(), {}, {{"shape", spec.shape}, {"dtype", spec.dtype}, {"value", value}})[0];
}

}  // namespace gemel
