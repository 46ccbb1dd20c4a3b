// Elementwise operators that take or return bool: comparisons, logic, where. Bools are 0 or 1; only where has a gradient.
#include <functional>

#include "engine/ops/elementwise/elementwise_record.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

constexpr Kind kOrder{.takes = Takes::numbers, .gives = Gives::boolean};
constexpr Kind kEquality{.takes = Takes::anything, .gives = Gives::boolean, .a = integers(-2, 3), .b = integers(-2, 3)};
constexpr Kind kLogic{.takes = Takes::booleans};

template <auto compare>
void compared(const HostCall& c) {
  map_numbers<2>(c, [](auto a, auto b) { return std::int64_t{compare(a, b)}; });
}

Specs where_infer(const Specs& in, const Attributes&) {
  check_takes<Takes::booleans>("where", "condition", in[0]);
  check_same_dtype("where", in[1], in[2]);
  check_takes<Takes::anything>("where", "a", in[1]);
  return {{broadcast_shapes("where", in[0].shape, broadcast_shapes("where", in[1].shape, in[2].shape)), in[1].dtype}};
}

void where_reference(const HostCall& c) {
  if (is_floating(c.in_spec(1).dtype))
    map_as<std::int64_t, double, double>(c, [](std::int64_t p, double a, double b) { return p ? a : b; });
  else
    map_as<std::int64_t, std::int64_t, std::int64_t>(c, [](std::int64_t p, std::int64_t a, std::int64_t b) { return p ? a : b; });
}

Values where_gradient(const Backward& b) {
  const Value g = b.gradient(0), condition = b.input(0);
  const auto zero = [&] { return full(b.session(), {Shape{}, g.dtype()}, 0); };
  return {Value(), b.wants(1) ? sum_to(where(condition, g, zero()), b.input_shape(1)) : Value(),
          b.wants(2) ? sum_to(where(condition, zero(), g), b.input_shape(2)) : Value()};
}

}  // namespace

const OpDef& equal_def() {
  static const OpDef def = binary_record<"equal", kEquality>({.doc = "a = b, as bool.", .body = "x0 == x1", .reference = compared<std::equal_to<>{}>});
  return def;
}
const OpDef& not_equal_def() {
  static const OpDef def =
      binary_record<"not_equal", kEquality>({.doc = "a unlike b, as bool.", .body = "x0 != x1", .reference = compared<std::not_equal_to<>{}>});
  return def;
}
const OpDef& less_def() {
  static const OpDef def = binary_record<"less", kOrder>({.doc = "a < b, as bool.", .body = "x0 < x1", .reference = compared<std::less<>{}>});
  return def;
}
const OpDef& less_equal_def() {
  static const OpDef def = binary_record<"less_equal", kOrder>({.doc = "a <= b, as bool.", .body = "x0 <= x1", .reference = compared<std::less_equal<>{}>});
  return def;
}
const OpDef& greater_def() {
  static const OpDef def = binary_record<"greater", kOrder>({.doc = "a > b, as bool.", .body = "x0 > x1", .reference = compared<std::greater<>{}>});
  return def;
}
const OpDef& greater_equal_def() {
  static const OpDef def =
      binary_record<"greater_equal", kOrder>({.doc = "a >= b, as bool.", .body = "x0 >= x1", .reference = compared<std::greater_equal<>{}>});
  return def;
}
const OpDef& logical_and_def() {
  static const OpDef def = binary_record<"logical_and", kLogic>({.doc = "a and b, of bools.", .body = "x0 & x1", .reference = [](const HostCall& c) {
                                                                   map_as<std::int64_t, std::int64_t>(c, [](std::int64_t a, std::int64_t b) { return a & b; });
                                                                 }});
  return def;
}
const OpDef& logical_or_def() {
  static const OpDef def = binary_record<"logical_or", kLogic>({.doc = "a or b, of bools.", .body = "x0 | x1", .reference = [](const HostCall& c) {
                                                                  map_as<std::int64_t, std::int64_t>(c, [](std::int64_t a, std::int64_t b) { return a | b; });
                                                                }});
  return def;
}

const OpDef& where_def() {
  static const OpDef def = [] {
    OpDef d = elementwise_record("where", {"condition", "a", "b"},
                                 {.doc = "a where the condition holds, else b, with broadcasting.",
                                  .body = "x0 ? x1 : x2",
                                  .reference = where_reference,
                                  .gradient = where_gradient,
                                  .reads = {nothing, inputs(0), inputs(0)}});
    d.infer = where_infer;
    d.may_reuse = {{0, 1}, {0, 2}};
    d.samples = [] {
      std::vector<Sample> out{{{b8({3, 5}), f32({3, 5}), f32({3, 5})}},
                              {{b8({65}), f32({}), f32({65})}},
                              {{b8({33, 17}), f32({33, 17}), f32({})}},
                              {{b8({33, 1}), f32({33, 17}), f32({17})}},
                              {{b8({2, 1, 3}), f32({4, 1}), f32({2, 4, 3})}},
                              {{b8({0}), f32({0}), f32({})}},
                              {{b8({16}), i64({16}), i64({})}, {}, {Fill{}, integers(-9, 9)}}};
      return also_in_two_bytes(std::move(out), {0, 3});
    };
    d.rejected = [] {
      return std::vector<Rejected>{
          {{f32({2}), f32({2}), f32({2})}, {}, "where: condition is float32 [2]; accepted: bool"},
          {{b8({2}), f32({2}), i32({2})}, {}, "where: float32 [2] and int32 [2] differ in element type; accepted: equal types, cast one"}};
    };
    return d;
  }();
  return def;
}

Value equal(Value a, Value b) { return apply(equal_def(), list(std::move(a), std::move(b)))[0]; }
Value not_equal(Value a, Value b) { return apply(not_equal_def(), list(std::move(a), std::move(b)))[0]; }
Value less(Value a, Value b) { return apply(less_def(), list(std::move(a), std::move(b)))[0]; }
Value less_equal(Value a, Value b) { return apply(less_equal_def(), list(std::move(a), std::move(b)))[0]; }
Value greater(Value a, Value b) { return apply(greater_def(), list(std::move(a), std::move(b)))[0]; }
Value greater_equal(Value a, Value b) { return apply(greater_equal_def(), list(std::move(a), std::move(b)))[0]; }
Value logical_and(Value a, Value b) { return apply(logical_and_def(), list(std::move(a), std::move(b)))[0]; }
Value logical_or(Value a, Value b) { return apply(logical_or_def(), list(std::move(a), std::move(b)))[0]; }
Value where(Value condition, Value a, Value b) { return apply(where_def(), list(std::move(condition), std::move(a), std::move(b)))[0]; }

}  // namespace gemel::inline ops
