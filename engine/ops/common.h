// Helpers for records: checks with uniform error messages, common shape inference, costs and samples.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "engine/core/op.h"
#include "engine/device/launch.h"
#include "engine/gradients/autograd.h"
#include "engine/gradients/row_gradient.h"
#include "engine/ops/elementwise_kernels.h"
#include "engine/reference/reference_interpreter.h"

namespace gemel {

// Operators that compute accept the element types that their kernels compute in; operators that only move elements accept any.
/// @throws ShapeError `op: NAME is bfloat16 [2]; accepted: ` followed by `accepted`
void check_type(const char* op, const char* name, const Spec& spec, std::initializer_list<DType> types, const char* accepted);
void check_float32(const char* op, const char* name, const Spec& spec);
/// Accepts float32, float16 or bfloat16.
void check_floating(const char* op, const char* name, const Spec& spec);
/// Accepts float32, float16, bfloat16, int32 or int64.
void check_number(const char* op, const char* name, const Spec& spec);
/// Accepts float32, float16, bfloat16, int32, int64 or bool.
void check_computes(const char* op, const char* name, const Spec& spec);
void check_integer(const char* op, const char* name, const Spec& spec);
void check_same_dtype(const char* op, const Spec& a, const Spec& b);
void check_rank(const char* op, const char* name, const Spec& spec, int rank);
void check_shape(const char* op, const char* name, const Spec& spec, const Shape& expected);
/// Checks an attribute of two numbers, one for each axis of an image.
/// @throws ShapeError if it does not have two numbers of at least `least`
void check_pair(const char* op, const Attributes& attributes, const char* name, std::int64_t least);

/// The options of a kernel that includes lib/elements.clh.
std::string type_options(DType dtype);
/// SUB_GROUP in loops.clh, behind a space; empty where the device leaves kernels no choice.
std::string sub_group_option(const opencl::DeviceProfile& profile);
/// Returns the samples, and copies of those numbered `which` in float16 and in bfloat16.
/// @param changed  the float32 inputs that change their type
std::vector<Sample> also_in_two_bytes(std::vector<Sample> samples, std::initializer_list<std::size_t> which, Reads changed = all_inputs);

/// The range of a kernel that includes lib/pixels.clh, in groups of whole waves where items run in lanes.
/// @param items  vectors of a row, rows, images
opencl::Range range_of_pixels(const std::array<std::int64_t, 3>& items, const opencl::DeviceProfile& profile);
/// The range of a kernel with a work-item for each place of three axes, innermost first: groups of whole waves where items run in lanes, few of which lie
/// idle where an axis is short. Along the second and the third axis the kernel loops by the range's extent: drivers take fewer groups than there may be.
opencl::Range range_of_places(const std::array<std::int64_t, 3>& places, const opencl::DeviceProfile& profile);
/// The same for work-items with work enough for a group of their own each, as CPUs have them.
opencl::Range range_of_blocks(const std::array<std::int64_t, 3>& blocks, const opencl::DeviceProfile& profile);

/// Cost of an operator that reads its inputs and writes its outputs once, with `flops` FLOPs for each output element.
template <int flops>
Cost per_element(const Problem& p) {
  Cost cost{flops * p.outputs[0].elements(), 0};
  for (const Spec& s : p.inputs) cost.bytes += s.bytes();
  for (const Spec& s : p.outputs) cost.bytes += s.bytes();
  return cost;
}

/// Returns the axes as 0..rank-1, sorted; all axes if none are given.
/// @throws ShapeError for an axis that is out of range or repeated
std::vector<std::int64_t> normalised_axes(const char* op, const Shape& shape, const std::vector<std::int64_t>& axes);

/// Returns the shape with the (normalised) axes reduced to extent 1, or removed.
Shape reduced_shape(const Shape& shape, const std::vector<std::int64_t>& axes, bool keep);

}  // namespace gemel
