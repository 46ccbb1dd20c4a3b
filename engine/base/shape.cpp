#include "engine/base/shape.h"

#include <algorithm>
#include <charconv>

#include "engine/base/checked_bytes.h"
#include "engine/base/error.h"

namespace gemel {

Shape::Shape(std::span<const std::int64_t> dims) {
  for (std::int64_t d : dims) push_back(d);
}

void Shape::push_back(std::int64_t extent) {
  if (rank_ == kMaxRank) throw ShapeError("shape: more than 8 axes; accepted: 0..8");
  if (extent < 0) throw ShapeError("shape: extent " + std::to_string(extent) + " is negative; accepted: 0 or more");
  dims_[static_cast<std::size_t>(rank_++)] = extent;
}

std::int64_t Shape::dim(int axis) const { return (*this)[checked_axis("shape", "shape", *this, axis)]; }

std::int64_t Shape::product(int from, int to) const {
  const auto n = checked_bytes(span().subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)), 1);
  if (!n) throw ShapeError("shape: " + to_string(*this) + " has more elements than 63 bits count; accepted: fewer");
  return *n;
}

bool Shape::operator==(const Shape& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

namespace {
void append_number(std::string& text, std::int64_t number) {
  std::array<char, 24> digits;
  text.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
}
void append_extent(std::string& text, std::int64_t extent) {
  if (extent == 0 || extent % kOpenExtent != 0) return append_number(text, extent);
  if (extent != kOpenExtent) {
    append_number(text, extent / kOpenExtent);
    text += '*';
  }
  text += '?';
}
}  // namespace

void append(std::string& text, const Shape& shape) {
  text += '[';
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ", ";
    append_extent(text, shape[i]);
  }
  text += ']';
}

std::string to_string(const Shape& shape) {
  std::string out;
  append(out, shape);
  return out;
}

int checked_axis(const char* op, const char* name, const Shape& shape, std::int64_t axis) {
  const int r = shape.rank();
  if (axis < -r || axis >= r)
    throw ShapeError(std::string(op) + ": axis " + std::to_string(axis) + " is out of range for " + name + " " + to_string(shape) +
                     (r ? "; accepted: " + std::to_string(-r) + ".." + std::to_string(r - 1) : "; it has no axes"));
  return static_cast<int>(axis < 0 ? axis + r : axis);
}

Shape row_major_strides(const Shape& shape) {
  Shape out = shape;
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    out[i] = step;
    step *= shape[i];
  }
  return out;
}

Shape broadcast_strides(const Shape& from, const Shape& to) {
  Shape out = to;
  std::int64_t step = 1;
  for (int k = 1; k <= to.rank(); ++k) {
    const int i = from.rank() - k;
    out[to.rank() - k] = i >= 0 && from[i] != 1 ? step : 0;
    if (i >= 0) step *= from[i];
  }
  return out;
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  Shape out = a.rank() >= b.rank() ? a : b;
  const Shape& less = a.rank() >= b.rank() ? b : a;
  for (int k = 1; k <= less.rank(); ++k) {
    std::int64_t& d = out[out.rank() - k];
    const std::int64_t e = less[less.rank() - k];
    if (d != e && d != 1 && e != 1)
      throw ShapeError(std::string(op) + ": " + to_string(a) + " and " + to_string(b) + " do not broadcast; accepted: equal extents or 1, from the last axis");
    if (d == 1) d = e;
  }
  return out;
}

}  // namespace gemel
