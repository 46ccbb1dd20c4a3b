// Functions that make tensors from numbers. The element type is float32 unless stated otherwise.
#pragma once
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "frontends/eager/tensor.h"

namespace gemel::eager {

struct TensorOptions {
  std::optional<DType> dtype = {};
  bool requires_grad = false;
};

/// Numbers in nested braces or vectors: 1.5, {1, 2}, {{1, 2}, {3, 4}}.
class Nested {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> Nested(T number)
      : reals_{static_cast<double>(number)},
        integers_{static_cast<std::int64_t>(number)},
        kind_(std::is_same_v<T, bool> ? Kind::boolean
              : std::is_integral_v<T> ? Kind::integer
                                      : Kind::real) {}
  /// @throws ShapeError for rows of different shapes
  Nested(std::initializer_list<Nested> rows) { join({rows.begin(), rows.size()}); }
  template <class T>
  Nested(const std::vector<T>& rows) {
    const std::vector<Nested> nested(rows.begin(), rows.end());
    join(nested);
  }
  const Shape& shape() const { return shape_; }
  /// Returns the element type by PyTorch's rule: bool, int64, or float32 if any number is floating-point.
  DType dtype() const;
  const std::vector<double>& reals() const { return reals_; }
  const std::vector<std::int64_t>& integers() const { return integers_; }

 private:
  enum class Kind { boolean, integer, real };
  void join(std::span<const Nested> rows);
  Shape shape_;
  std::vector<double> reals_;
  std::vector<std::int64_t> integers_;  // the same elements, exact for integers
  Kind kind_ = Kind::boolean;
};

/// Makes a tensor of numbers: tensor(session, {{1., 2.}, {3., 4.}}).
/// @throws ShapeError for rows of different shapes
Tensor tensor(Session& session, const Nested& numbers, const TensorOptions& options = {});

/// Copies host data in row-major order. The element type is that of the data, but double becomes float32.
/// @throws ShapeError if data.size() is not the shape's number of elements
Tensor from_host(Session& session, std::span<const float> data, const Shape& shape, const TensorOptions& options = {});
Tensor from_host(Session& session, std::span<const double> data, const Shape& shape, const TensorOptions& options = {});
Tensor from_host(Session& session, std::span<const std::int32_t> data, const Shape& shape, const TensorOptions& options = {});
Tensor from_host(Session& session, std::span<const std::int64_t> data, const Shape& shape, const TensorOptions& options = {});

Tensor full(Session& session, const Shape& shape, double value, const TensorOptions& options = {});
Tensor zeros(Session& session, const Shape& shape, const TensorOptions& options = {});
Tensor ones(Session& session, const Shape& shape, const TensorOptions& options = {});
Tensor zeros_like(const Tensor& tensor, const TensorOptions& options = {});
Tensor ones_like(const Tensor& tensor, const TensorOptions& options = {});

/// Draw from a uniform distribution over [0, 1), and a standard normal one, by the session's random state: see Session::manual_seed.
Tensor rand(Session& session, const Shape& shape, const TensorOptions& options = {});
Tensor randn(Session& session, const Shape& shape, const TensorOptions& options = {});

/// Returns first + i step for `count` values of i. Use arange.
Tensor progression(Session& session, double first, double step, std::int64_t count, const TensorOptions& options);
/// Returns first, first + step, ... below `end` (above it for a negative step): int64 for integers, else float32.
/// @throws UsageError for a step of 0
template <class A, class B, class C = int>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>&& std::is_arithmetic_v<C>) Tensor
    arange(Session& session, A first, B end, C step = 1, TensorOptions options = {}) {
  constexpr bool integers = std::is_integral_v<A> && std::is_integral_v<B> && std::is_integral_v<C>;
  if (!options.dtype) options.dtype = integers ? DType::int64 : DType::float32;
  const double count = std::ceil((static_cast<double>(end) - static_cast<double>(first)) / static_cast<double>(step));
  return progression(session, static_cast<double>(first), static_cast<double>(step), count > 0 ? static_cast<std::int64_t>(count) : 0, options);
}
template <class B>
requires std::is_arithmetic_v<B> Tensor arange(Session& session, B end) { return arange(session, 0, end); }

}  // namespace gemel::eager
