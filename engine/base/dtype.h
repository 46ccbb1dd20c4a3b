// Element types.
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
/// The type's name in OpenCL C: "float", "int", "long", "uchar".
std::string_view opencl_name(DType dtype);
bool is_floating(DType dtype);
bool is_integer(DType dtype);

}  // namespace gemel
