// Tensor: PyTorch's tensor over the engine's values. A Tensor is a shared handle: copies are the same tensor, as names in Python, and a change of one changes
// all. It converts to and from gemel::Value, so that modules, optimizers and every function of engine/ops/ops.h take and return Tensors.
// Functions that make tensors take a Session; results are in the session of their inputs. There is no default session. Using a tensor after its Session has
// ended is an error, even to read it: keep the Session as long as its tensors, or read their numbers before.
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

/// Options of a backward pass, which by default releases the history.
struct BackwardOptions {
  bool retain_graph = false;                               // keep the history for another pass
  bool create_graph = false;                               // record the pass, so that gradients can be differentiated; also keeps the history
  std::function<void(const Node& leaf)> accumulated = {};  // called when grad() of a leaf has the pass's gradient
};

/// Removes a tensor's hook.
class HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<Node> node, std::weak_ptr<const GradientHook> hook) : node_(std::move(node)), hook_(std::move(hook)) {}
  /// Has no effect when called again, or when the history is gone.
  void remove();

 private:
  std::weak_ptr<Node> node_;
  std::weak_ptr<const GradientHook> hook_;
};

/// An operand that is a tensor, or a scalar that becomes one by gemel::alike.
class Operand;

class Tensor {
 public:
  /// An undefined tensor, as grad() returns if there is no gradient.
  Tensor() = default;
  Tensor(Value value);
  /// @throws UsageError if the history no longer describes the contents, which were changed in place through a view or another handle. Tensors of detach() have
  ///   no history and can always be used
  operator Value() const&;
  operator Value() &&;
  bool defined() const { return state_ != nullptr; }

  // ---- properties
  const Shape& shape() const { return value().shape(); }
  std::int64_t dim() const { return value().shape().rank(); }
  /// Extent of an axis; negative axes count from the end.
  std::int64_t size(int axis) const { return value().shape().dim(axis); }
  std::int64_t numel() const { return value().elements(); }
  DType dtype() const { return value().dtype(); }
  Session& session() const { return value().session(); }

  // ---- contents on the host; waits for the device
  /// The only element.
  /// @throws UsageError for another number of elements, or for a symbolic tensor
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
  /// Index (int64) of the first maximum, of all elements or along an axis.
  Tensor argmax() const;
  Tensor argmax(std::int64_t axis) const;
  /// Matrix product. A vector [K] is a row on the left and a column on the right; the result does not have its axis.
  Tensor matmul(const Tensor& other) const;
  /// Returns the same memory under another shape. One extent may be -1.
  Tensor reshape(const std::vector<std::int64_t>& shape) const;
  Tensor view(const std::vector<std::int64_t>& shape) const { return reshape(shape); }
  /// Swaps two axes. Copies, for tensors are dense.
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
  /// True if no recorded operator made the tensor.
  bool is_leaf() const { return !value().node() || !value().node()->op; }
  /// Changes the flag of a parameter or another leaf for all handles. For a temporary made of a plain Value it has an effect only on the returned tensor.
  /// @throws UsageError for integers and booleans, and for turning it off for an operator's result
  Tensor requires_grad_(bool wanted = true) const&;
  [[nodiscard]] Tensor requires_grad_(bool wanted = true) && { return std::as_const(*this).requires_grad_(wanted); }
  /// Returns the sum of the gradients of all backward passes, for a leaf or after retain_grad(); else undefined. The gradient of an optimizer's parameter has
  /// its place in a slab: after zero_grad() the next pass writes there, which also changes handles to it.
  Tensor grad() const;
  /// True if the gradient is a row gradient, of which only some rows are stored and the others are zero, as for an embedding. No operator takes it.
  bool is_sparse() const;
  /// Rows that are stored, with repetitions: int32 or int64 [n], and their values, float32 [n, width]. A gradient that was summed over ranks has all rows of
  /// the table, with index -1 for rows that no rank has.
  /// @throws UsageError for a dense tensor
  Tensor indices() const;
  Tensor values() const;
  /// Returns the full table of a row gradient; a dense tensor is returned as it is.
  Tensor to_dense() const;
  /// Clears the gradient; the next pass starts anew.
  void zero_grad() const;
  /// Makes backward passes keep the gradient of a tensor that is not a leaf, after all its hooks; after an in-place change that of the changed tensor.
  /// @throws UsageError as register_hook
  void retain_grad() const;
  /// Adds the gradients of this tensor to grad() of the leaves that it depends on.
  /// @param gradient  of this tensor; optional if it has one element
  /// @throws UsageError if there is no history, or it was released, or a tensor that it needs was changed in place; while a graph is captured, if leaves from
  ///   outside of it would get a gradient: see grad()
  void backward(const BackwardOptions& options = {}) const;
  void backward(const Tensor& gradient, const BackwardOptions& options = {}) const;
  /// Registers a hook for this tensor's complete gradient; what it returns replaces the gradient. A hook that holds its own tensor keeps it alive until the
  /// hook is removed or a backward pass has released the tensor's history, and until the Session ends at the latest.
  /// @throws UsageError if no gradient is wanted; in the body of a conditional or a loop, whose gradient repeats operators alone
  HookHandle register_hook(std::function<Tensor(const Tensor&)> hook) const;
  template <class F>
  requires std::is_void_v<std::invoke_result_t<F, const Tensor&>> HookHandle register_hook(F look)
  const {
    return register_hook([look](const Tensor& gradient) mutable {
      look(gradient);
      return Tensor();
    });
  }
  /// Returns the same memory without history.
  Tensor detach() const;
  /// Returns a differentiable copy in its own memory.
  Tensor clone() const;

  // ---- in place: changes the memory, also for every view of it. Changes are recorded for gradients as in PyTorch, but a constant (zero_, fill_) leaves a
  // tensor without history.
  /// @throws UsageError for a leaf that requires grad, or a view of one, outside a NoGrad scope; for another element type
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
    std::uint64_t version = 0;  // of the storage, for which the history holds
    bool retains = false;
    Value retained;  // gradient, if retain_grad() was called
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
  Value value_;  // empty: a scalar
  Number number_ = 0;
};

/// Applies an operator to two operands, at least one of which is a tensor.
Tensor binary(Value (*op)(Value, Value), Operand a, Operand b);
/// Divides a / b; integers are divided as float32.
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
/// Comparisons return booleans for each element.
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

/// In-place operators, as in Python.
inline const Tensor& operator+=(const Tensor& a, const Operand& b) { return a.add_(b), a; }
inline const Tensor& operator-=(const Tensor& a, const Operand& b) { return a.sub_(b), a; }
inline const Tensor& operator*=(const Tensor& a, const Operand& b) { return a.mul_(b), a; }
inline const Tensor& operator/=(const Tensor& a, const Operand& b) { return a.div_(b), a; }

Values values_of(const Tensors& tensors);
Tensors tensors_of(const Values& values);

/// Prints as PyTorch: four decimals, scientific notation if magnitudes differ much, only the edges above 1 000 elements.
/// Waits for the device.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace gemel::eager
