// What the generated operator tests share: samples filled with numbers, and an operator's scalar objective.
#pragma once
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "engine/core/op.h"
#include "engine/core/session.h"
#include "engine/gradients/autograd.h"

namespace gemel::testing {

/// One (operator, sample) pair.
struct OpCase {
  const OpDef* op;
  int sample;
  std::string name() const;
  friend std::ostream& operator<<(std::ostream& out, const OpCase& c) { return out << c.name(); }
};
std::vector<OpCase> all_cases();
inline std::string case_name(const ::testing::TestParamInfo<OpCase>& info) { return info.param.name(); }

using InputNumbers = std::vector<std::vector<double>>;  // [input]

/// Numbers for a sample's inputs, the same at every call; floating ones are rounded so that device and host see the same.
/// @param name  of the operator or function: each has numbers of its own
InputNumbers numbers_for(const std::string& name, const Sample& sample);
inline InputNumbers numbers_for(const OpDef& op, const Sample& sample) { return numbers_for(op.name, sample); }
/// Directions of the same shapes, standard normal, for floating inputs that may want a gradient; else empty.
InputNumbers directions_for(const OpDef& op, const Sample& sample, unsigned seed);

enum class Wanting { no, yes };
/// Inputs in a session; those that may want a gradient are leaves where asked.
Values inputs_in(Session& session, const OpDef& op, const Sample& sample, const InputNumbers& numbers, Wanting wanting);
/// Whether the operator's gradient reaches input i.
bool differentiable(const OpDef& op, const Sample& sample, std::size_t i);
/// The largest roundoff among the types of inputs and outputs.
double coarsest_roundoff(const OpDef& op, const Sample& sample);
/// Whether an input or output is float16 or bfloat16: results are rounded so coarsely that differences of neighbouring points say nothing.
bool in_two_bytes(const OpDef& op, const Sample& sample);
bool any_differentiable(const OpDef& op, const Sample& sample);

/// A scalar whose gradient depends on every floating output: sum(w y + 0.3 w y y) with fixed weights w.
Value objective(const Values& outputs);

/// First-order gradients of the objective, and Hessian-vector products, one list an input (zeros where none flows).
InputNumbers gradients(Session& session, const OpDef& op, const Sample& sample, const InputNumbers& x);
InputNumbers hessian_vector(Session& session, const OpDef& op, const Sample& sample, const InputNumbers& x, const InputNumbers& direction);

/// Largest difference over the largest magnitude of `expected` (at least `floor`).
double relative_error(const std::vector<double>& got, const std::vector<double>& expected, double floor = 1e-3);

/// Root of the mean square of the differences, over that of `expected`, in roundings of float32 (2^-24).
double roundings(const std::vector<double>& got, const std::vector<double>& expected);

}  // namespace gemel::testing
