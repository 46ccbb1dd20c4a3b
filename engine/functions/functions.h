// Functions that are compositions of operators: typed, and a small record each, which `gemel ops` and the generated tests read.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel {

/// What is known of a function: shapes, cost and gradient are those of the operators that it applies.
struct FunctionDef {
  std::string name, doc;
  std::vector<std::string> inputs;
  std::vector<AttributeDef> attributes = {};
  Value (*definition)(const Values& inputs, const Attributes&);
  std::vector<Sample> (*samples)();
};
std::span<const FunctionDef* const> functions();
/// nullptr where there is none of that name.
const FunctionDef* find_function(std::string_view name);

const FunctionDef& true_divide_def();  // engine/functions/arithmetic.h

inline namespace ops {

/// Rows of `weight` [V, D] by indices [...]: [..., D].
Value embedding(Value weight, Value indices);
const FunctionDef& embedding_def();

struct Convolution1d {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
/// Cross-correlation along time. @param x [N, T, C] @param w [R, C / groups, K] @return [N, P, K]
Value conv1d(Value x, Value w, const Convolution1d& c = {});
const FunctionDef& conv1d_def();

}  // namespace ops
}  // namespace gemel
