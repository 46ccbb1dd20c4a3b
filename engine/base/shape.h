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

/// Up to eight extents, held in place: shapes are made for every operator that runs.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  /// @throws ShapeError over eight axes or for a negative extent
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
  /// Product of the extents of axes [from, to). @throws ShapeError where that of the extents but 0 does not fit in 63 bits
  std::int64_t product(int from, int to) const;
  std::int64_t elements() const { return product(0, rank_); }
  bool operator==(const Shape& other) const;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// Stands for an extent that is left open while a graph is built: a prime, so that shapes show how they depend on it.
inline constexpr std::int64_t kOpenExtent = 1'000'003;

/// "[2, 3]"; the open extent and multiples of it are "?" and "4*?".
std::string to_string(const Shape& shape);

/// Axis in 0..rank-1 for one in -rank..rank-1.
/// @throws ShapeError `op: axis A is out of range for NAME SHAPE; accepted: -R..R-1`
int checked_axis(const char* op, const char* name, const Shape& shape, std::int64_t axis);

/// Elements to step along each axis of a dense tensor.
Shape row_major_strides(const Shape& shape);

/// Strides that walk `from` while an index runs over `to`: 0 along broadcast axes. `from` must broadcast to `to`.
Shape broadcast_strides(const Shape& from, const Shape& to);

/// NumPy's rule. @throws ShapeError `op: A and B do not broadcast ...`
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

}  // namespace gemel
