// Makes the records of elementwise operators from their few differences.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/ops/common.h"

namespace gemel::inline ops {

/// A string as a template argument, so that `infer` and `rejected`, which are plain functions, can name their operator.
template <std::size_t N>
struct Literal {
  char text[N];
  constexpr Literal(const char (&from)[N]) { std::copy_n(from, N, text); }
};

/// Element types that an operator accepts, and the type of its output: that of the input, or bool.
enum class Takes { floating, numbers, booleans, anything };
enum class Gives { same, boolean };

/// The parts in which elementwise operators differ.
struct ElementwiseParts {
  const char* doc;
  const char* body;  // OpenCL C expression of x0, x1, ...
  void (*reference)(const HostCall&);
  Values (*gradient)(const Backward&) = nullptr;
  std::vector<Reads> reads = {};
};

/// Element types, and the fills of the samples' inputs.
struct Kind {
  Takes takes = Takes::floating;
  Gives gives = Gives::same;
  Fill a = {}, b = {};
};

/// @throws ShapeError `op: NAME is bool [2]; accepted: float32, float16, bfloat16, int32 or int64`
template <Takes takes>
void check_takes(const char* op, const char* name, const Spec& spec) {
  if constexpr (takes == Takes::floating) check_floating(op, name, spec);
  if constexpr (takes == Takes::numbers) check_number(op, name, spec);
  if constexpr (takes == Takes::anything) check_computes(op, name, spec);
  if (takes == Takes::booleans && spec.dtype != DType::boolean) throw ShapeError(std::string(op) + ": " + name + " is " + to_string(spec) + "; accepted: bool");
}

/// Returns a spec of this shape with an element type that the operator accepts.
template <Takes takes>
Spec taken(const Shape& shape) {
  return {shape, takes == Takes::booleans ? DType::boolean : DType::float32};
}

template <Literal name, Kind kind>
Specs unary_infer(const Specs& in, const Attributes&) {
  check_takes<kind.takes>(name.text, "x", in[0]);
  return {{in[0].shape, kind.gives == Gives::boolean ? DType::boolean : in[0].dtype}};
}

template <Literal name, Kind kind>
Specs binary_infer(const Specs& in, const Attributes&) {
  check_same_dtype(name.text, in[0], in[1]);
  check_takes<kind.takes>(name.text, "a", in[0]);
  return {{broadcast_shapes(name.text, in[0].shape, in[1].shape), kind.gives == Gives::boolean ? DType::boolean : in[0].dtype}};
}

/// Returns specs that the operator rejects.
template <Takes takes>
std::vector<Spec> refused() {
  const auto of = [](DType dtype) { return Spec{Shape{2}, dtype}; };
  if (takes == Takes::floating) return {of(DType::int32), of(DType::boolean)};
  if (takes == Takes::numbers) return {of(DType::boolean)};
  if (takes == Takes::booleans) return {of(DType::float32), of(DType::bfloat16)};
  return {};
}
/// Text of the accepted element types in error messages.
template <Takes takes>
constexpr const char* kAccepted = takes == Takes::floating   ? "float32, float16 or bfloat16"
                                  : takes == Takes::numbers  ? "float32, float16, bfloat16, int32 or int64"
                                  : takes == Takes::booleans ? "bool"
                                                             : "float32, float16, bfloat16, int32, int64 or bool";

template <Literal name, Takes takes>
std::vector<Rejected> unary_rejected() {
  std::vector<Rejected> out;
  for (const Spec& bad : refused<takes>()) out.push_back({{bad}, {}, std::string(name.text) + ": x is " + to_string(bad) + "; accepted: " + kAccepted<takes>});
  return out;
}

template <Literal name, Takes takes>
std::vector<Rejected> binary_rejected() {
  const std::string op = name.text;
  const auto of = [](const Shape& shape) { return taken<takes>(shape); };
  std::vector<Rejected> out{{{of({2, 3}), of({2})}, {}, op + ": [2, 3] and [2] do not broadcast; accepted: equal extents or 1, from the last axis"},
                            {{f32({2}), i32({2})}, {}, op + ": float32 [2] and int32 [2] differ in element type; accepted: equal types, cast one"}};
  for (const Spec& bad : refused<takes>()) out.push_back({{bad, bad}, {}, op + ": a is " + to_string(bad) + "; accepted: " + kAccepted<takes>});
  return out;
}

/// Reference of a function of one real number.
template <auto f>
void of_reals(const HostCall& c) {
  map_as<double>(c, [](double x) { return f(x); });
}

inline OpDef elementwise_record(const char* name, std::vector<std::string> inputs, const ElementwiseParts& parts) {
  return {.name = name,
          .doc = parts.doc,
          .inputs = std::move(inputs),
          .cost = elementwise_cost,
          .reference = parts.reference,
          .gradient = parts.gradient,
          .gradient_reads = parts.reads,
          .elementwise = Elementwise{parts.body},
          .variants = elementwise_variants()};
}

/// Makes the record of y = f(x).
template <Literal name, Kind kind = Kind{}>
OpDef unary_record(const ElementwiseParts& parts) {
  OpDef def = elementwise_record(name.text, {"x"}, parts);
  def.infer = unary_infer<name, kind>;
  if (kind.gives == Gives::same) def.may_reuse = {{0, 0}};
  def.rejected = unary_rejected<name, kind.takes>;
  def.samples = [] {
    std::vector<Sample> out;
    for (const Shape& s : {Shape{3, 5}, Shape{}, Shape{65, 33}, Shape{0}}) out.push_back({{taken<kind.takes>(s)}, {}, {kind.a}});
    if (kind.takes == Takes::numbers || kind.takes == Takes::anything) out.push_back({{i32({17})}, {}, {integers(-9, 9)}});
    if (kind.takes == Takes::booleans) return out;
    return also_in_two_bytes(std::move(out), {2});
  };
  return def;
}

/// Makes the record of y = f(a, b), with broadcasting.
template <Literal name, Kind kind = Kind{}>
OpDef binary_record(const ElementwiseParts& parts) {
  OpDef def = elementwise_record(name.text, {"a", "b"}, parts);
  def.infer = binary_infer<name, kind>;
  if (kind.gives == Gives::same) def.may_reuse = {{0, 0}, {0, 1}};
  def.rejected = binary_rejected<name, kind.takes>;
  def.samples = [] {
    const std::vector<std::pair<Shape, Shape>> shapes{
        {{3, 5}, {3, 5}}, {{65}, {}}, {{33, 17}, {17}}, {{33, 17}, {33, 1}}, {{3, 1}, {1, 31}}, {{0, 3}, {3}}, {{2, 1, 3, 1, 4}, {5, 1, 2, 1}}};
    std::vector<Sample> out;
    for (const auto& [a, b] : shapes) out.push_back({{taken<kind.takes>(a), taken<kind.takes>(b)}, {}, {kind.a, kind.b}});
    if (kind.takes == Takes::numbers || kind.takes == Takes::anything) {
      out.push_back({{i32({4, 3}), i32({3})}, {}, {integers(-3, 3)}});
      out.push_back({{i64({16}), i64({16})}, {}, {integers(-3, 3)}});
    }
    if (kind.takes == Takes::anything) out.push_back({{b8({16}), b8({16})}});
    if (kind.takes == Takes::booleans) return out;
    return also_in_two_bytes(std::move(out), {3, 6});
  };
  return def;
}

}  // namespace gemel::inline ops
