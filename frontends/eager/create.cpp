#include "frontends/eager/create.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::eager {

void Nested::join(std::span<const Nested> rows) {
  const Shape row = rows.empty() ? Shape() : rows[0].shape_;
  shape_.push_back(static_cast<std::int64_t>(rows.size()));
  for (int k = 0; k < row.rank(); ++k) shape_.push_back(row[k]);
  kind_ = rows.empty() ? Kind::real : Kind::boolean;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].shape_ != row)
      throw ShapeError(fmt::format("tensor: row {} is {}, row 0 {}; accepted: rows of one shape", i, gemel::to_string(rows[i].shape_), gemel::to_string(row)));
    reals_.insert(reals_.end(), rows[i].reals_.begin(), rows[i].reals_.end());
    integers_.insert(integers_.end(), rows[i].integers_.begin(), rows[i].integers_.end());
    kind_ = std::max(kind_, rows[i].kind_);
  }
}

DType Nested::dtype() const {
  if (kind_ == Kind::real) return DType::float32;
  return kind_ == Kind::integer ? DType::int64 : DType::boolean;
}

namespace {
Tensor made(Value value, const TensorOptions& options) { return Tensor(std::move(value)).requires_grad_(options.requires_grad); }

Tensor from_numbers(Session& session, std::span<const double> numbers, const Shape& shape, DType dtype, const TensorOptions& options) {
  return made(session.tensor({shape, options.dtype.value_or(dtype)}, numbers), options);
}
Tensor from_integers(Session& session, std::span<const std::int64_t> data, const Shape& shape, DType dtype, const TensorOptions& options) {
  if (options.dtype.value_or(dtype) == DType::int64) return made(session.tensor({shape, DType::int64}, bytes_of(data)), options);
  return from_numbers(session, std::vector<double>(data.begin(), data.end()), shape, dtype, options);
}
}  // namespace

Tensor tensor(Session& session, const Nested& numbers, const TensorOptions& options) {
  if (options.dtype.value_or(numbers.dtype()) == DType::int64) return from_integers(session, numbers.integers(), numbers.shape(), DType::int64, options);
  return from_numbers(session, numbers.reals(), numbers.shape(), numbers.dtype(), options);
}

Tensor from_host(Session& session, std::span<const float> data, const Shape& shape, const TensorOptions& options) {
  return made(session.tensor({shape, options.dtype.value_or(DType::float32)}, data), options);
}
Tensor from_host(Session& session, std::span<const double> data, const Shape& shape, const TensorOptions& options) {
  return from_numbers(session, data, shape, DType::float32, options);
}
Tensor from_host(Session& session, std::span<const std::int32_t> data, const Shape& shape, const TensorOptions& options) {
  if (options.dtype.value_or(DType::int32) == DType::int32) return made(session.tensor({shape, DType::int32}, bytes_of(data)), options);
  return from_numbers(session, std::vector<double>(data.begin(), data.end()), shape, DType::int32, options);
}
Tensor from_host(Session& session, std::span<const std::int64_t> data, const Shape& shape, const TensorOptions& options) {
  return from_integers(session, data, shape, DType::int64, options);
}

Tensor full(Session& session, const Shape& shape, double value, const TensorOptions& options) {
  return made(gemel::full(session, {shape, options.dtype.value_or(DType::float32)}, value), options);
}
Tensor zeros(Session& session, const Shape& shape, const TensorOptions& options) { return full(session, shape, 0, options); }
Tensor ones(Session& session, const Shape& shape, const TensorOptions& options) { return full(session, shape, 1, options); }
Tensor zeros_like(const Tensor& tensor, const TensorOptions& options) {
  return zeros(tensor.session(), tensor.shape(), {options.dtype.value_or(tensor.dtype()), options.requires_grad});
}
Tensor ones_like(const Tensor& tensor, const TensorOptions& options) {
  return ones(tensor.session(), tensor.shape(), {options.dtype.value_or(tensor.dtype()), options.requires_grad});
}

Tensor rand(Session& session, const Shape& shape, const TensorOptions& options) {
  return made(Tensor(random_uniform(session, shape)).to(options.dtype.value_or(DType::float32)), options);
}
Tensor randn(Session& session, const Shape& shape, const TensorOptions& options) {
  return made(Tensor(random_normal(session, shape)).to(options.dtype.value_or(DType::float32)), options);
}

Tensor progression(Session& session, double first, double step, std::int64_t count, const TensorOptions& options) {
  if (step == 0) throw UsageError("arange: the step is 0; accepted: any other number");
  std::vector<double> numbers(at(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = first + static_cast<double>(i) * step;
  return from_numbers(session, numbers, {count}, DType::float32, options);
}

}  // namespace gemel::eager
