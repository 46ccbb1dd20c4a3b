// Shape: the extents of a dense, row-major tensor.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace gemel {

/// Up to eight extents, stored inline, since every operator that runs creates shapes.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  /// @throws ShapeError for more than eight axes or a negative extent
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  /// Extent of an axis; negative axes count from the end. @throws ShapeError if out of range
  std::int64_t dim(int axis) const;
  std::int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  std::int64_t& operator[](int axis) { return dims_[static_cast<std::size_t>(axis)]; }
  std::int64_t back() const { return dims_[static_cast<std::size_t>(rank_ - 1)]; }
  void push_back(std::int64_t extent);
  const std::int64_t* begin() const { return dims_.data(); }
  const std::int64_t* end() const { return dims_.data() + rank_; }
  std::span<const std::int64_t> span() const { return {begin(), end()}; }
  /// Product of the extents of axes [from, to). @throws ShapeError if the product of the non-zero extents does not fit in 63 bits
  std::int64_t product(int from, int to) const;
  std::int64_t elements() const { return product(0, rank_); }
  bool operator==(const Shape& other) const;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// Placeholder for the open extent of a graph while it is built. A prime, so that products show that they depend on it.
inline constexpr std::int64_t kOpenExtent = 1'000'003;

/// "[2, 3]". The open extent prints as "?", its multiples as "4*?".
std::string to_string(const Shape& shape);
/// Appends that to a text.
void append(std::string& text, const Shape& shape);

/// Converts an axis of -rank..rank-1 to 0..rank-1.
/// @throws ShapeError `op: axis A is out of range for NAME SHAPE; accepted: -R..R-1`
int checked_axis(const char* op, const char* name, const Shape& shape, std::int64_t axis);

/// Strides of a dense tensor, in elements.
Shape row_major_strides(const Shape& shape);

/// Strides of `from`, in elements, for an index that runs over `to`: 0 along broadcast axes. `from` must broadcast to `to`.
Shape broadcast_strides(const Shape& from, const Shape& to);

/// Shape of two broadcast operands by NumPy's rule. @throws ShapeError `op: A and B do not broadcast ...`
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

}  // namespace gemel
