// Tensor: what a PyTorch user expects of one, over the engine's values.
// A Tensor is a shared handle: copies are the same tensor, as names are in Python, so what changes one changes all. It converts
// to and from gemel::Value, so modules, optimizers and every function of engine/ops/ops.h take and give Tensors.
// A Session is passed to whatever makes a tensor from nothing; results live in the session of their inputs. There is no default one.
// A tensor that is used after its Session has ended is refused, also where it is read: keep the Session as long as its tensors, or take the
// numbers out of them before.
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/core/session.h"
#include "engine/core/value.h"
#include "engine/ops/ops.h"

namespace gemel::eager {

class Tensor;
using Tensors = std::vector<Tensor>;

/// What becomes of the history in a backward pass, which by default is released, and who is told.
struct BackwardOptions {
  bool retain_graph = false;                               // keep it for another pass
  bool create_graph = false;                               // record the pass too, so that gradients can be differentiated; keeps it as well
  std::function<void(const Node& leaf)> accumulated = {};  // as soon as grad() of a leaf has the pass's gradient
};

/// Takes a tensor hook away again.
class HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<Node> node, std::weak_ptr<const GradientHook> hook) : node_(std::move(node)), hook_(std::move(hook)) {}
  /// Does nothing the second time, or once the history is gone.
  void remove();

 private:
  std::weak_ptr<Node> node_;
  std::weak_ptr<const GradientHook> hook_;
};

/// A tensor, or a number that becomes one beside it, as gemel::alike says.
class Operand;

class Tensor {
 public:
  /// Undefined: what grad() gives where there is none.
  Tensor() = default;
  Tensor(Value value);
  /// @throws UsageError where its history no longer describes its contents, changed in place through a view
  /// or another handle. A detach() may be used on: it has no history whatever happens to its memory
  operator Value() const&;
  operator Value() &&;
  bool defined() const { return state_ != nullptr; }

  // ---- what it is
  const Shape& shape() const { return value().shape(); }
  std::int64_t dim() const { return value().shape().rank(); }
  /// Extent of an axis; negative axes count from the end.
  std::int64_t size(int axis) const { return value().shape().dim(axis); }
  std::int64_t numel() const { return value().elements(); }
  DType dtype() const { return value().dtype(); }
  Session& session() const { return value().session(); }

  // ---- contents, on the host; waits for the device
  /// The only element. @throws UsageError for any other number of them, or for a symbolic tensor
  double item() const;
  /// All elements in row-major order, as float, double, int32_t or int64_t.
  template <class T = float>
  std::vector<T> to_vector() const;

  // ---- operators
  Tensor sum(const Axes& axes = {}, Keep keep = Keep::no) const;
  Tensor sum(std::int64_t axis, Keep keep = Keep::no) const { return sum(Axes{axis}, keep); }
  Tensor mean(const Axes& axes = {}, Keep keep = Keep::no) const;
  Tensor mean(std::int64_t axis, Keep keep = Keep::no) const { return mean(Axes{axis}, keep); }
  Tensor max(const Axes& axes = {}, Keep keep = Keep::no) const;
  Tensor max(std::int64_t axis, Keep keep = Keep::no) const { return max(Axes{axis}, keep); }
  /// int64 index of the first maximum: of all elements, or along an axis.
  Tensor argmax() const;
  Tensor argmax(std::int64_t axis) const;
  /// With vectors: [K] is a row on the left, a column on the right, and that axis is dropped.
  Tensor matmul(const Tensor& other) const;
  /// The same memory under another shape. One extent may be -1.
  Tensor reshape(const std::vector<std::int64_t>& shape) const;
  Tensor view(const std::vector<std::int64_t>& shape) const { return reshape(shape); }
  /// Swaps two axes. Copies: tensors are dense.
  Tensor transpose(int a, int b) const;
  Tensor permute(const Axes& order) const;
  Tensor t() const { return transpose(0, 1); }
  Tensor softmax(int axis) const;
  Tensor log_softmax(int axis) const;
  Tensor relu() const;
  Tensor sigmoid() const;
  Tensor tanh() const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sqrt() const;
  Tensor abs() const;
  Tensor pow(const Operand& exponent) const;
  Tensor to(DType dtype) const;
  Tensor operator-() const;

  // ---- gradients
  bool requires_grad() const { return value().wants_gradient(); }
  /// Not made by a recorded operator.
  bool is_leaf() const { return !value().node() || !value().node()->op; }
  /// Of a parameter, or another leaf, all handles see it. A temporary made of a plain Value wants gradients alone: use what is returned.
  /// @throws UsageError for integers and booleans, and for switching off what an operator made
  Tensor requires_grad_(bool wanted = true) const&;
  [[nodiscard]] Tensor requires_grad_(bool wanted = true) && { return std::as_const(*this).requires_grad_(wanted); }
  /// Of a leaf, or where retain_grad() was called: the gradients of all backward passes, added up; else undefined. That of a parameter
  /// which an optimizer holds has its place in a slab: after zero_grad() the next pass writes there, also under a handle that is kept.
  Tensor grad() const;
  /// Whether it is rows of a table whose other rows are zero, as the gradient of an embedding may be: no operator takes it.
  bool is_sparse() const;
  /// Of those rows, with repetitions: int32 or int64 [n], and float32 [n, width]. Where ranks have summed a gradient each row of the table is there,
  /// with the index -1 where none has met it. @throws UsageError for a dense tensor
  Tensor indices() const;
  Tensor values() const;
  /// The whole table; what is dense stays as it is.
  Tensor to_dense() const;
  /// Forgets the gradient; the next pass starts afresh.
  void zero_grad() const;
  /// Has backward passes keep the gradient of a tensor that is no leaf: as it is when all hooks have seen it, and after a change in place that
  /// of the tensor as it is then. @throws UsageError as register_hook
  void retain_grad() const;
  /// Adds the gradients of this tensor to the leaves that it depends on.
  /// @param gradient  of this tensor; may be left out where it has one element
  /// @throws UsageError without history, with one already released, or where a tensor that it needs was changed in place; while a graph is
  /// captured, where leaves from outside of it would get a gradient: see grad()
  void backward(const BackwardOptions& options = {}) const;
  void backward(const Tensor& gradient, const BackwardOptions& options = {}) const;
  /// Called with this tensor's gradient once it is complete, before it goes on; what it returns replaces it. A hook that holds its own tensor
  /// keeps it alive: until the hook is removed or a backward pass has released the tensor's history, at the latest until the Session ends.
  /// @throws UsageError where no gradient is wanted; in the body of a conditional or a loop, whose gradient applies operators alone again
  HookHandle register_hook(std::function<Tensor(const Tensor&)> hook) const;
  template <class F>
  requires std::is_void_v<std::invoke_result_t<F, const Tensor&>> HookHandle register_hook(F look)
  const {
    return register_hook([look](const Tensor& gradient) mutable {
      look(gradient);
      return Tensor();
    });
  }
  /// The same memory without history.
  Tensor detach() const;
  /// A differentiable copy in memory of its own.
  Tensor clone() const;

  // ---- in place: the memory is written, and every view of it sees that. Recorded for gradients as PyTorch does;
  // but a constant (zero_, fill_) leaves a tensor without history.
  /// @throws UsageError for a leaf that requires grad, or a view of one, outside a NoGrad scope; or another element type
  Tensor copy_(const Tensor& source) const;
  Tensor fill_(double value) const;
  Tensor zero_() const { return fill_(0); }
  /// this += alpha other
  Tensor add_(const Operand& other, double alpha = 1) const;
  Tensor sub_(const Operand& other, double alpha = 1) const;
  Tensor mul_(const Operand& other) const;
  Tensor div_(const Operand& other) const;

 private:
  struct State {
    Value value;
    std::uint64_t version = 0;  // of the storage, that the history stands for
    bool retains = false;
    Value retained;  // gradient, where retain_grad() asked for it
  };
  struct Retaining;
  const Value& value() const;
  void check_watched(const char* op) const;
  void keep_retaining(const std::shared_ptr<Node>& before) const;
  void check_in_place(const char* op) const;
  Tensor changed_in_place(const char* op, Tensor (*compute)(Operand, Operand), const Operand& other) const;
  Tensor overwrite(const char* op, Value contents) const;
  std::shared_ptr<State> state_;
  friend std::string to_string(const Tensor& tensor);
};

class Operand {
 public:
  Operand(const Tensor& tensor) : value_(tensor) {}
  Operand(Tensor&& tensor) : value_(std::move(tensor)) {}
  Operand(Value value) : value_(std::move(value)) {}
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T number) : number_(number) {}

  bool wants_gradient() const { return value_.wants_gradient(); }
  Operand times(double factor) const;

 private:
  friend std::pair<Value, Value> alike(Operand a, Operand b);
  Value value_;  // empty: a number
  Number number_ = 0;
};

/// Applies an operator of two tensors to operands of which at least one is a tensor.
Tensor binary(Value (*op)(Value, Value), Operand a, Operand b);
/// a / b; integers are divided as float32.
Tensor true_divide(Operand a, Operand b);

template <class T>
concept IsTensor = std::same_as<std::remove_cvref_t<T>, Tensor>;
template <class T>
concept IsOperand = IsTensor<T> || std::same_as<std::remove_cvref_t<T>, Value> || std::is_arithmetic_v<std::remove_cvref_t<T>>;
template <class A, class B>
concept WithTensor = IsOperand<A> && IsOperand<B> &&(IsTensor<A> || IsTensor<B>);

template <class A, class B>
requires WithTensor<A, B> Tensor operator+(A&& a, B&& b) { return binary(gemel::add, std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires WithTensor<A, B> Tensor operator-(A&& a, B&& b) { return binary(gemel::subtract, std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires WithTensor<A, B> Tensor operator*(A&& a, B&& b) { return binary(gemel::multiply, std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires WithTensor<A, B> Tensor operator/(A&& a, B&& b) { return true_divide(std::forward<A>(a), std::forward<B>(b)); }
/// Comparisons give booleans, element by element.
template <class A, class B>
requires WithTensor<A, B> Tensor operator==(A&& a, B&& b) { return binary(gemel::equal, std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires WithTensor<A, B> Tensor operator!=(A&& a, B&& b) { return binary(gemel::not_equal, std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires WithTensor<A, B> Tensor operator<(A&& a, B&& b) { return binary(gemel::less, std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires WithTensor<A, B> Tensor operator<=(A&& a, B&& b) { return binary(gemel::less_equal, std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires WithTensor<A, B> Tensor operator>(A&& a, B&& b) { return binary(gemel::greater, std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires WithTensor<A, B> Tensor operator>=(A&& a, B&& b) { return binary(gemel::greater_equal, std::forward<A>(a), std::forward<B>(b)); }

/// In place, as in Python.
inline const Tensor& operator+=(const Tensor& a, const Operand& b) { return a.add_(b), a; }
inline const Tensor& operator-=(const Tensor& a, const Operand& b) { return a.sub_(b), a; }
inline const Tensor& operator*=(const Tensor& a, const Operand& b) { return a.mul_(b), a; }
inline const Tensor& operator/=(const Tensor& a, const Operand& b) { return a.div_(b), a; }

Values values_of(const Tensors& tensors);
Tensors tensors_of(const Values& values);

/// As PyTorch prints it: four decimals, scientific where magnitudes differ, the middle left out above 1 000 elements.
/// Waits for the device.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace gemel::eager
