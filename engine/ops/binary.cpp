// Elementwise operators of two tensors, with broadcasting.
#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"
#include "engine/session.h"

namespace gemel {
namespace {

template <const char* const& name>
Specs infer(const Specs& in, const Attributes&) {
  check_same_dtype(name, in[0], in[1]);
  if (in[0].dtype == DType::boolean)
    throw ShapeError(std::string(name) + ": a is " + to_string(in[0]) + "; accepted: a number type");
  return {{broadcast_shapes(name, in[0].shape, in[1].shape), in[0].dtype}};
}

constexpr const char* kAdd = "add";
constexpr const char* kSubtract = "subtract";
constexpr const char* kMultiply = "multiply";

std::vector<Sample> samples() {
  return {{{f32({3, 5}), f32({3, 5})}},      {{f32({65}), f32({})}},          {{f32({33, 17}), f32({17})}},
          {{f32({33, 17}), f32({33, 1})}},   {{f32({3, 1}), f32({1, 31})}},   {{f32({2, 1, 3, 1, 4}), f32({5, 1, 2, 1})}},
          {{f32({0, 3}), f32({3})}},         {{i32({4, 3}), i32({3})}, {}, {integers(-9, 9)}},
          {{i64({16}), i64({16})}, {}, {integers(-9, 9)}}};
}

template <const char* const& name>
std::vector<Rejected> rejected() {
  const std::string op = name;
  return {{{f32({2, 3}), f32({2})}, {}, op + ": [2, 3] and [2] do not broadcast; accepted: equal extents or 1, from the last axis"},
          {{f32({2}), i32({2})}, {}, op + ": float32 [2] and int32 [2] differ in element type; accepted: equal types, cast one"},
          {{b8({2}), b8({2})}, {}, op + ": a is bool [2]; accepted: a number type"}};
}

}  // namespace

const OpDef& add_def() {
  static const OpDef def{
      .name = kAdd,
      .doc = "a + b, with broadcasting.",
      .inputs = {"a", "b"},
      .infer = infer<kAdd>,
      .cost = elementwise_cost,
      .reference = [](const HostCall& c) { map_numbers<2>(c, [](auto a, auto b) { return a + b; }); },
      .gradient = [](const Backward& b) -> Values {
        return {b.wants(0) ? sum_to(b.gradient(0), b.input_shape(0)) : Value(),
                b.wants(1) ? sum_to(b.gradient(0), b.input_shape(1)) : Value()};
      },
      .gradient_reads = {nothing},
      .may_reuse = {{0, 0}, {0, 1}},
      .elementwise = Elementwise{"x0 + x1"},
      .variants = elementwise_variants(),
      .samples = samples,
      .rejected = rejected<kAdd>};
  return def;
}

const OpDef& subtract_def() {
  static const OpDef def{
      .name = kSubtract,
      .doc = "a - b, with broadcasting.",
      .inputs = {"a", "b"},
      .infer = infer<kSubtract>,
      .cost = elementwise_cost,
      .reference = [](const HostCall& c) { map_numbers<2>(c, [](auto a, auto b) { return a - b; }); },
      .gradient = [](const Backward& b) -> Values {
        return {b.wants(0) ? sum_to(b.gradient(0), b.input_shape(0)) : Value(),
                b.wants(1) ? sum_to(negate(b.gradient(0)), b.input_shape(1)) : Value()};
      },
      .gradient_reads = {nothing},
      .may_reuse = {{0, 0}, {0, 1}},
      .elementwise = Elementwise{"x0 - x1"},
      .variants = elementwise_variants(),
      .samples = samples,
      .rejected = rejected<kSubtract>};
  return def;
}

const OpDef& multiply_def() {
  static const OpDef def{
      .name = kMultiply,
      .doc = "a * b, with broadcasting.",
      .inputs = {"a", "b"},
      .infer = infer<kMultiply>,
      .cost = elementwise_cost,
      .reference = [](const HostCall& c) { map_numbers<2>(c, [](auto a, auto b) { return a * b; }); },
      .gradient = [](const Backward& b) -> Values {
        return {b.wants(0) ? sum_to(b.gradient(0) * b.input(1), b.input_shape(0)) : Value(),
                b.wants(1) ? sum_to(b.gradient(0) * b.input(0), b.input_shape(1)) : Value()};
      },
      .gradient_reads = {inputs(1), inputs(0)},
      .may_reuse = {{0, 0}, {0, 1}},
      .elementwise = Elementwise{"x0 * x1"},
      .variants = elementwise_variants(),
      .samples = samples,
      .rejected = rejected<kMultiply>};
  return def;
}

Value add(Value a, Value b) { return apply(add_def(), list(std::move(a), std::move(b)))[0]; }
Value subtract(Value a, Value b) { return apply(subtract_def(), list(std::move(a), std::move(b)))[0]; }
Value multiply(Value a, Value b) { return apply(multiply_def(), list(std::move(a), std::move(b)))[0]; }

namespace {
Value number_like(const Value& x, double number) { return full(x.session(), {Shape{}, x.dtype()}, number); }
}  // namespace
Value operator+(Value x, double number) { Value n = number_like(x, number); return add(std::move(x), std::move(n)); }
Value operator-(Value x, double number) { Value n = number_like(x, number); return subtract(std::move(x), std::move(n)); }
Value operator*(Value x, double number) { Value n = number_like(x, number); return multiply(std::move(x), std::move(n)); }

}  // namespace gemel
