#include "engine/base/dtype.h"

#include <array>

namespace gemel {
namespace {

struct Row {
  DType dtype;
  std::string_view name, opencl;
  std::size_t bytes;
};
constexpr std::array<Row, 6> kRows{{{DType::float32, "float32", "float", 4},
                                    {DType::float16, "float16", "float", 2},
                                    {DType::bfloat16, "bfloat16", "float", 2},
                                    {DType::int32, "int32", "int", 4},
                                    {DType::int64, "int64", "long", 8},
                                    {DType::boolean, "bool", "uchar", 1}}};
const Row& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t size_of(DType dtype) { return row(dtype).bytes; }
std::string_view to_string(DType dtype) { return row(dtype).name; }
std::string_view opencl_name(DType dtype) { return row(dtype).opencl; }
std::string_view opencl_stored_name(DType dtype) { return is_two_bytes(dtype) ? "ushort" : opencl_name(dtype); }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Row& r : kRows)
    if (r.name == name) return r.dtype;
  return std::nullopt;
}

bool is_floating(DType dtype) { return dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16; }
bool is_two_bytes(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }
double unit_roundoff(DType dtype) {
  if (!is_floating(dtype)) return 0;
  return dtype == DType::float32 ? 0x1p-24 : dtype == DType::float16 ? 0x1p-11 : 0x1p-8;
}
bool is_integer(DType dtype) { return dtype == DType::int32 || dtype == DType::int64; }

}  // namespace gemel
