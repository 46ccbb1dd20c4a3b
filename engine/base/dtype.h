// DType: the element type of a tensor.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gemel {

enum class DType : std::uint8_t { float32, float16, bfloat16, int32, int64, boolean };

/// Bytes of one element; a boolean takes one.
std::size_t size_of(DType dtype);
/// "float32", "bool", ...
std::string_view to_string(DType dtype);
/// The inverse of to_string.
std::optional<DType> parse_dtype(std::string_view name);
/// OpenCL C type in which kernels compute: "float" for all floating types, "int", "long", "uchar".
std::string_view opencl_name(DType dtype);
/// OpenCL C type of the elements in memory: "ushort" for the bits of float16 and bfloat16, else opencl_name.
std::string_view opencl_stored_name(DType dtype);
bool is_floating(DType dtype);
/// float16 or bfloat16. Kernels widen such elements on load and round them on store.
bool is_two_bytes(DType dtype);
/// Largest relative error of rounding to a floating type: 2^-24, 2^-11 or 2^-8. 0 for other types.
double unit_roundoff(DType dtype);
bool is_integer(DType dtype);

}  // namespace gemel
