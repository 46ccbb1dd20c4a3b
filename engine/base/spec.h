// Spec: shape and element type of a tensor.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/shape.h"

namespace gemel {

struct Spec {
  Shape shape;
  DType dtype = DType::float32;

  std::int64_t elements() const { return shape.elements(); }
  /// @throws ShapeError if the size does not fit in 63 bits
  std::int64_t bytes() const;
  bool operator==(const Spec&) const = default;
};
using Specs = std::vector<Spec>;

/// Appends "float32 [2, 3]" to a text.
inline void append(std::string& text, const Spec& spec) {
  text += to_string(spec.dtype);
  text += ' ';
  append(text, spec.shape);
}
/// "float32 [2, 3]"
inline std::string to_string(const Spec& spec) {
  std::string out;
  append(out, spec);
  return out;
}

inline Spec f32(std::initializer_list<std::int64_t> dims) { return {Shape(dims), DType::float32}; }
inline Spec i32(std::initializer_list<std::int64_t> dims) { return {Shape(dims), DType::int32}; }
inline Spec i64(std::initializer_list<std::int64_t> dims) { return {Shape(dims), DType::int64}; }
inline Spec b8(std::initializer_list<std::int64_t> dims) { return {Shape(dims), DType::boolean}; }

}  // namespace gemel
