#include "engine/ops/common.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "engine/base/error.h"
#include "engine/ops/ops.h"

namespace gemel {

void check_type(const char* op, const char* name, const Spec& spec, std::initializer_list<DType> types, const char* accepted) {
  if (std::find(types.begin(), types.end(), spec.dtype) == types.end())
    throw ShapeError(fmt::format("{}: {} is {}; accepted: {}", op, name, to_string(spec), accepted));
}

void check_float32(const char* op, const char* name, const Spec& spec) { check_type(op, name, spec, {DType::float32}, "float32"); }
void check_floating(const char* op, const char* name, const Spec& spec) {
  check_type(op, name, spec, {DType::float32, DType::float16, DType::bfloat16}, "float32, float16 or bfloat16");
}
void check_number(const char* op, const char* name, const Spec& spec) {
  check_type(op, name, spec, {DType::float32, DType::float16, DType::bfloat16, DType::int32, DType::int64}, "float32, float16, bfloat16, int32 or int64");
}
void check_computes(const char* op, const char* name, const Spec& spec) {
  check_type(op, name, spec, {DType::float32, DType::float16, DType::bfloat16, DType::int32, DType::int64, DType::boolean},
             "float32, float16, bfloat16, int32, int64 or bool");
}
void check_integer(const char* op, const char* name, const Spec& spec) { check_type(op, name, spec, {DType::int32, DType::int64}, "int32 or int64"); }

void check_same_dtype(const char* op, const Spec& a, const Spec& b) {
  if (a.dtype != b.dtype)
    throw ShapeError(fmt::format("{}: {} and {} differ in element type; accepted: equal types, cast one", op, to_string(a), to_string(b)));
}

void check_rank(const char* op, const char* name, const Spec& spec, int rank) {
  if (spec.shape.rank() != rank)
    throw ShapeError(fmt::format("{}: {} is {}, of rank {}; accepted: rank {}", op, name, to_string(spec.shape), spec.shape.rank(), rank));
}

void check_shape(const char* op, const char* name, const Spec& spec, const Shape& expected) {
  if (spec.shape != expected) throw ShapeError(fmt::format("{}: {} is {}; accepted: {}", op, name, to_string(spec.shape), to_string(expected)));
}

void check_pair(const char* op, const Attributes& a, const char* name, std::int64_t least) {
  const auto& v = a.integers(name);
  if (v.size() != 2 || v[0] < least || v[1] < least)
    throw ShapeError(fmt::format("{}: {} is {}; accepted: two numbers of at least {}", op, name, to_string(Attributes::Item(v)), least));
}

namespace {

constexpr std::int64_t kGroupOfCpu = 16, kGroupOfGpu = 128, kWave = 32;
constexpr std::int64_t kMostAlongZ = 64;  // work-items of a group that NVIDIA's driver takes along the third dimension

/// In groups of `local`.
opencl::Range range_in_groups(const std::array<std::int64_t, 3>& places, const std::array<std::int64_t, 3>& local) {
  std::array<std::int64_t, 3> global;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t groups = ceil_div(places[axis], local[axis]);
    global[axis] = (axis > 0 ? std::min(groups, opencl::kMostGroups) : groups) * local[axis];
  }
  return opencl::range3(global, local);
}

}  // namespace

opencl::Range range_of_pixels(const std::array<std::int64_t, 3>& items, const opencl::DeviceProfile& profile) {
  const std::int64_t group = profile.runs_items_in_lanes() ? std::clamp(round_up(items[0], kWave), kWave, kGroupOfGpu) : kGroupOfCpu;
  return opencl::range3({round_up(items[0], group), std::min(items[1], opencl::kMostGroups), std::min(items[2], opencl::kMostGroups)}, {group, 1, 1});
}

opencl::Range range_of_places(const std::array<std::int64_t, 3>& places, const opencl::DeviceProfile& profile) {
  std::array<std::int64_t, 3> local{1, 1, 1};
  if (profile.runs_items_in_lanes()) {
    std::int64_t left = std::min(kGroupOfGpu, profile.max_group_size);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      local[axis] = std::min(axis < 2 ? left : std::min(left, kMostAlongZ), static_cast<std::int64_t>(std::bit_ceil(at(places[axis]))));
      left /= local[axis];
    }
    local[0] *= left;  // of fewer places than a group has items
  } else {             // one shape of a group or two: some drivers compile a kernel for each
    const auto enough = std::ranges::find_if(places, [](std::int64_t extent) { return extent >= kGroupOfCpu; });
    local[enough == places.end() ? 0 : at(enough - places.begin())] = kGroupOfCpu;
  }
  return range_in_groups(places, local);
}

opencl::Range range_of_blocks(const std::array<std::int64_t, 3>& blocks, const opencl::DeviceProfile&) { return range_in_groups(blocks, {1, 1, 1}); }

std::string type_options(DType dtype) {
  const std::string options = fmt::format("-DT={}", opencl_name(dtype));
  return is_two_bytes(dtype) ? fmt::format("{} -DSTORED_AS={}", options, to_string(dtype)) : options;
}

std::string sub_group_option(const opencl::DeviceProfile& profile) {
  return profile.least_sub_group_width ? fmt::format(" -DSUB_GROUP={}", profile.least_sub_group_width) : "";
}

std::vector<Sample> also_in_two_bytes(std::vector<Sample> samples, std::initializer_list<std::size_t> which, Reads changed) {
  for (std::size_t s : which)
    for (DType dtype : {DType::float16, DType::bfloat16}) {
      Sample sample = samples.at(s);
      for (std::size_t i = 0; i < sample.inputs.size(); ++i)
        if (sample.inputs[i].dtype == DType::float32 && ((changed.inputs >> i) & 1u)) sample.inputs[i].dtype = dtype;
      samples.push_back(std::move(sample));
    }
  return samples;
}

std::vector<std::int64_t> normalised_axes(const char* op, const Shape& shape, const std::vector<std::int64_t>& axes) {
  std::vector<std::int64_t> out;
  if (axes.empty()) {
    out.resize(at(shape.rank()));
    std::iota(out.begin(), out.end(), 0);
    return out;
  }
  for (std::int64_t a : axes) out.push_back(checked_axis(op, "x", shape, a));
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end())
    throw ShapeError(fmt::format("{}: an axis is given twice; accepted: each axis of x {} once", op, to_string(shape)));
  return out;
}

Shape reduced_shape(const Shape& shape, const std::vector<std::int64_t>& axes, bool keep) {
  Shape out;
  for (int k = 0; k < shape.rank(); ++k) {
    const bool gone = std::find(axes.begin(), axes.end(), k) != axes.end();
    if (!gone) out.push_back(shape[k]);
    if (gone && keep) out.push_back(1);
  }
  return out;
}

}  // namespace gemel
