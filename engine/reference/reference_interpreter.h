// ReferenceInterpreter: computes the plain definition of every operator, in double on the host. Results of float16 and bfloat16 are rounded to
// the type; results of float32 stay in double.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/op.h"
#include "engine/core/trace.h"

namespace gemel {

/// Memory with eight bytes for each element: a double for floating types, an int64 for integers and booleans (0 or 1).
class HostMemory : public Memory {
 public:
  explicit HostMemory(std::int64_t elements);
  /// Makes a range of `whole`, in elements, which it keeps alive.
  HostMemory(std::shared_ptr<const Memory> whole, std::int64_t first, std::int64_t elements);
  template <class T>
  std::span<T> as() const {
    static_assert(sizeof(T) == 8);
    return {reinterpret_cast<T*>(cells_), elements_};
  }
  std::span<double> reals() const { return as<double>(); }

 private:
  std::size_t elements_;
  std::unique_ptr<std::byte[]> own_;
  std::shared_ptr<const Memory> whole_;
  std::byte* cells_;
};

/// An element of any type, for operators that only move elements.
struct alignas(8) Cell {
  std::byte bytes[8];
};

/// Argument of the reference function of an operator: its attributes, inputs and outputs.
class HostCall {
 public:
  HostCall(const OpDef& op, const Attributes& attributes, std::span<const Value> in, std::span<const Value> out)
      : op_(op), attributes_(attributes), in_(in), out_(out) {}
  const Attributes& attributes() const { return attributes_; }
  int inputs() const { return static_cast<int>(in_.size()); }
  int outputs() const { return static_cast<int>(out_.size()); }
  const Spec& in_spec(int i) const { return in_[at(i)].spec(); }
  const Spec& out_spec(int o) const { return out_[at(o)].spec(); }
  const Shape& in_shape(int i) const { return in_spec(i).shape; }
  const Shape& out_shape(int o) const { return out_spec(o).shape; }

  /// Elements of an input. @tparam T  double, std::int64_t or Cell  @throws InternalError if T does not match the element type
  template <class T>
  std::span<const T> in(int i) const {
    return cells<T>(in_[at(i)]);
  }
  template <class T>
  std::span<T> out(int o) const {
    return cells<T>(out_[at(o)]);
  }
  /// Elements of an input that the operator writes in place (OpDef::writes).
  template <class T>
  std::span<T> written(int i) const {
    return cells<T>(in_[at(i)]);
  }
  std::span<const double> real(int i) const { return in<double>(i); }
  std::span<const std::int64_t> integer(int i) const { return in<std::int64_t>(i); }
  std::span<double> out_real(int o) const { return out<double>(o); }
  std::span<std::int64_t> out_integer(int o) const { return out<std::int64_t>(o); }

 private:
  template <class T>
  std::span<T> cells(const Value& v) const {
    if constexpr (!std::is_same_v<T, Cell>)
      if (std::is_same_v<T, double> != is_floating(v.dtype()))
        throw InternalError(op_.name + ": its reference reads " + std::string(to_string(v.dtype())) + " as another kind");
    return static_cast<const HostMemory&>(*v.storage()->memory).as<T>().subspan(at(v.offset()), at(v.elements()));
  }
  const OpDef& op_;
  const Attributes& attributes_;
  std::span<const Value> in_, out_;
};

/// Computes operators by their reference functions.
class ReferenceInterpreter : public Interpreter {
 public:
  std::unique_ptr<Memory> allocate(const Spec& spec, std::string_view what) override;
  std::int64_t largest_allocation() const override;
  /// Allocates one element for every four bytes, for tensors with elements of four bytes.
  std::unique_ptr<Memory> allocate_bytes(std::int64_t bytes, std::string_view what) override;
  std::unique_ptr<Memory> part_of(std::shared_ptr<const Memory> whole, std::int64_t offset, std::int64_t bytes) const override;
  using Interpreter::write;
  void write(const Value& to, std::span<const std::byte> from) override;
  void read(const Value& from, std::span<std::byte> to) override;
  PendingBytes read_later(std::span<const Value> from) override;
  void copy(const Value& from, const Value& to) override;

 protected:
  void compute_now(const OpDef& op, const Attributes& attributes, std::span<const Value> inputs, std::span<const Value> outputs, Prepared*) override;
};

/// Calls f(linear index, index in each operand) for every element of `shape`, in row-major order.
/// @param strides  strides of each operand, 0 along broadcast axes
template <std::size_t N, class F>
void walk(const Shape& shape, const std::array<Shape, N>& strides, F f) {
  Shape index = shape;
  for (int k = 0; k < shape.rank(); ++k) index[k] = 0;
  std::array<std::int64_t, N> offset{};
  for (std::int64_t i = 0, n = shape.elements(); i < n; ++i) {
    f(i, offset);
    for (int k = shape.rank() - 1; k >= 0; --k) {
      for (std::size_t o = 0; o < N; ++o) offset[o] += strides[o][k];
      if (++index[k] < shape[k]) break;
      for (std::size_t o = 0; o < N; ++o) offset[o] -= strides[o][k] * shape[k];
      index[k] = 0;
    }
  }
}

/// Computes y = f(x0, x1, ...) for each element, with broadcasting. Reads input i as Ti; writes y as double or int64 by the result type of f.
template <class... T, class F>
void map_as(const HostCall& call, F f) {
  using R = std::conditional_t<std::is_floating_point_v<std::invoke_result_t<F, T...>>, double, std::int64_t>;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    const std::array<Shape, sizeof...(T)> strides{broadcast_strides(call.in_shape(I), call.out_shape(0))...};
    const std::tuple inputs{call.in<T>(I)...};
    const auto out = call.out<R>(0);
    walk(call.out_shape(0), strides, [&](std::int64_t i, const auto& offset) { out[at(i)] = static_cast<R>(f(std::get<I>(inputs)[at(offset[I])]...)); });
  }
  (std::index_sequence_for<T...>{});
}

/// Computes y = f(x0, ...) as map_as does, with all N inputs read as double or all as int64, by the type of the first.
template <std::size_t N, class F>
void map_numbers(const HostCall& call, F f) {
  const bool real = is_floating(call.in_spec(0).dtype);
  if constexpr (N == 1) {
    if (real)
      map_as<double>(call, f);
    else
      map_as<std::int64_t>(call, f);
  } else {
    if (real)
      map_as<double, double>(call, f);
    else
      map_as<std::int64_t, std::int64_t>(call, f);
  }
}

}  // namespace gemel
