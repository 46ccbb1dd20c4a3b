// What records have in common: checks with the house's error text, and usual inference, costs and samples.
#pragma once
#include <string>
#include <vector>

#include "engine/core/op.h"
#include "engine/device/launch.h"
#include "engine/gradients/autograd.h"
#include "engine/gradients/row_gradient.h"
#include "engine/ops/elementwise_kernels.h"
#include "engine/reference/reference_interpreter.h"

namespace gemel {

// Operators that compute accept the types that their kernels compute with; those that only move elements take any type.
/// @throws ShapeError `op: NAME is bfloat16 [2]; accepted: float32`, the last words being `accepted`
void check_type(const char* op, const char* name, const Spec& spec, std::initializer_list<DType> types, const char* accepted);
void check_float32(const char* op, const char* name, const Spec& spec);
/// float32, float16 or bfloat16
void check_floating(const char* op, const char* name, const Spec& spec);
/// float32, float16, bfloat16, int32 or int64
void check_number(const char* op, const char* name, const Spec& spec);
/// float32, float16, bfloat16, int32, int64 or bool
void check_computes(const char* op, const char* name, const Spec& spec);
void check_integer(const char* op, const char* name, const Spec& spec);
void check_same_dtype(const char* op, const Spec& a, const Spec& b);
void check_rank(const char* op, const char* name, const Spec& spec, int rank);
void check_shape(const char* op, const char* name, const Spec& spec, const Shape& expected);
/// An attribute of two numbers, one for each axis of an image. @throws ShapeError where they are not two of at least `least`
void check_pair(const char* op, const Attributes& attributes, const char* name, std::int64_t least);

/// The options of a kernel that includes lib/elements.clh.
std::string type_options(DType dtype);
/// The samples, and those numbered `which` again in float16 and in bfloat16. @param changed  the inputs that change, where they are float32
std::vector<Sample> also_in_two_bytes(std::vector<Sample> samples, std::initializer_list<std::size_t> which, Reads changed = all_inputs);

/// Inputs and outputs read and written once, `flops` an output element.
template <int flops>
Cost per_element(const Problem& p) {
  Cost cost{flops * p.outputs[0].elements(), 0};
  for (const Spec& s : p.inputs) cost.bytes += s.bytes();
  for (const Spec& s : p.outputs) cost.bytes += s.bytes();
  return cost;
}

/// Axes normalised to 0..rank-1, sorted; all axes where none are given. @throws ShapeError out of range or twice
std::vector<std::int64_t> normalised_axes(const char* op, const Shape& shape, const std::vector<std::int64_t>& axes);

/// Shape with the (normalised) axes reduced to extent 1, or dropped.
Shape reduced_shape(const Shape& shape, const std::vector<std::int64_t>& axes, bool keep);

}  // namespace gemel
