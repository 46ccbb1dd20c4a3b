// Functions that are compositions of operators, and a small record of each, which `gemel ops` and the generated tests read.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel {

/// Record of a function. Its shapes, cost and gradient follow from the operators that it applies.
struct FunctionDef {
  std::string name, doc;
  std::vector<std::string> inputs;
  std::vector<AttributeDef> attributes = {};
  Value (*definition)(const Values& inputs, const Attributes&);
  std::vector<Sample> (*samples)();
};
std::span<const FunctionDef* const> functions();
/// Returns the record of that name, or nullptr.
const FunctionDef* find_function(std::string_view name);

const FunctionDef& true_divide_def();  // engine/functions/arithmetic.h

inline namespace ops {

/// Looks up rows of `weight` [V, D] by indices [...]; returns [..., D].
Value embedding(Value weight, Value indices);
const FunctionDef& embedding_def();

struct Convolution1d {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
/// Cross-correlation along time.
/// @param x  [N, T, C]  @param w  [R, C / groups, K]  @return [N, P, K]
Value conv1d(Value x, Value w, const Convolution1d& c = {});
const FunctionDef& conv1d_def();

}  // namespace ops
}  // namespace gemel
