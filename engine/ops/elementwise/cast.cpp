// Conversions of the element type, and tests of elements that return bool. A cast between floating-point types has a gradient.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "engine/ops/elementwise/elementwise_record.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

Specs cast_infer(const Specs& in, const Attributes& a) {
  const DType to = a.dtype("dtype");
  if (to == DType::boolean) throw ShapeError(fmt::format("cast: dtype is {}; accepted: float32, float16, bfloat16, int32 or int64", to_string(to)));
  return {{in[0].shape, to}};
}

/// Without its fraction. Of what no integer holds, NaN too, the least one: a device may give another.
std::int64_t whole(double x) { return x >= -0x1p63 && x < 0x1p63 ? static_cast<std::int64_t>(x) : std::numeric_limits<std::int64_t>::min(); }

/// An integer as the type holds it.
std::int64_t held(DType dtype, std::int64_t x) { return dtype == DType::int32 ? static_cast<std::int32_t>(x) : x; }

void cast_reference(const HostCall& c) {
  const DType to = c.out_spec(0).dtype;
  const bool from_real = is_floating(c.in_spec(0).dtype);
  if (is_floating(to) && from_real)
    map_as<double>(c, [](double x) { return x; });
  else if (is_floating(to))
    map_as<std::int64_t>(c, [](std::int64_t x) { return double{static_cast<float>(x)}; });
  else if (from_real)
    map_as<double>(c, [to](double x) { return held(to, whole(x)); });
  else
    map_as<std::int64_t>(c, [to](std::int64_t x) { return held(to, x); });
}

std::vector<Sample> cast_samples() {
  std::vector<Sample> out;
  for (DType from : {DType::float32, DType::float16, DType::bfloat16, DType::int32, DType::int64, DType::boolean})
    for (DType to : {DType::float32, DType::float16, DType::bfloat16, DType::int32, DType::int64})
      if (from != to) out.push_back({{{Shape{3, 17}, from}}, {{"dtype", to}}, {uniform(-9, 9)}});
  out.push_back({{f32({0})}, {{"dtype", DType::int32}}});
  return out;
}

}  // namespace

const OpDef& cast_def() {
  static const OpDef def = [] {
    OpDef d = elementwise_record(
        "cast", {"x"},
        {.doc = "x in another number type, to the nearest; floating to integer truncates, and what the type cannot hold, NaN too, may be any number there.",
         .body = "x0",
         .reference = cast_reference,
         .gradient = [](const Backward& b) -> Values { return {cast(b.gradient(0), b.input_spec(0).dtype)}; },
         .reads = {nothing}});
    d.attributes = {{"dtype", Type::dtype, "of the result: float32, float16, bfloat16, int32 or int64"}};
    d.infer = cast_infer;
    d.samples = cast_samples;
    d.rejected = [] {
      return std::vector<Rejected>{{{f32({2})}, {{"dtype", DType::boolean}}, "cast: dtype is bool; accepted: float32, float16, bfloat16, int32 or int64"}};
    };
    return d;
  }();
  return def;
}

const OpDef& is_nonzero_def() {
  static const OpDef def = unary_record<"is_nonzero", Kind{.takes = Takes::anything, .gives = Gives::boolean, .a = integers(-1, 2)}>(
      {.doc = "Whether x is not 0, as bool.", .body = "x0 != 0", .reference = [](const HostCall& c) {
         map_numbers<1>(c, [](auto x) { return std::int64_t{x != 0}; });
       }});
  return def;
}

const OpDef& is_finite_def() {
  static const OpDef def = unary_record<"is_finite", Kind{.gives = Gives::boolean}>(
      {.doc = "Whether x is neither infinite nor NaN, as bool.", .body = "isfinite(x0)", .reference = [](const HostCall& c) {
         map_as<double>(c, [](double x) { return std::int64_t{std::isfinite(x)}; });
       }});
  return def;
}

const OpDef& logical_not_def() {
  static const OpDef def =
      unary_record<"logical_not", Kind{.takes = Takes::booleans}>({.doc = "Not x, of bools.", .body = "!x0", .reference = [](const HostCall& c) {
                                                                     map_as<std::int64_t>(c, [](std::int64_t x) { return std::int64_t{!x}; });
                                                                   }});
  return def;
}

Value cast(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  if (dtype == DType::boolean) return apply(is_nonzero_def(), list(std::move(x)))[0];
  return apply(cast_def(), list(std::move(x)), {{"dtype", dtype}})[0];
}
Value is_finite(Value x) { return apply(is_finite_def(), list(std::move(x)))[0]; }
Value logical_not(Value x) { return apply(logical_not_def(), list(std::move(x)))[0]; }

}  // namespace gemel::inline ops
