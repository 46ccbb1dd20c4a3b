#include "frontends/eager/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/gradients/row_gradient.h"
#include "frontends/eager/grad.h"

namespace gemel::eager {

Tensor::Tensor(Value value) {
  if (!value) return;
  const std::uint64_t version = version_of(value);
  state_ = std::make_shared<State>(State{std::move(value), version, false, {}});
}

const Value& Tensor::value() const {
  if (!state_) throw UsageError("tensor: an undefined tensor is used; accepted: one that holds something, see defined()");
  return state_->value;
}

namespace {
/// The version of a tensor that is to have no history whatever happens to its memory.
constexpr std::uint64_t kWhatever = std::numeric_limits<std::uint64_t>::max();

void check_described(const Value& value, std::uint64_t version) {
  if (!value.storage()) return;
  const bool has_history = value.node() && value.node()->op;
  if (has_history ? version_of(value) != version : value.storage()->recorded > version)
    throw UsageError(
        fmt::format("tensor: {} was changed in place through a view or another handle, so its history no longer "
                    "describes it; accepted: changes through this tensor itself, or its detach()",
                    to_string(value.spec())));
}
}  // namespace

Tensor::operator Value() const& {
  if (!state_) return {};
  check_described(state_->value, state_->version);
  return state_->value;
}

Tensor::operator Value() && {
  if (!state_) return {};
  check_described(state_->value, state_->version);
  return state_.use_count() == 1 ? std::move(state_->value) : state_->value;
}

double Tensor::item() const {
  if (numel() != 1) throw UsageError(fmt::format("item: {} has {} elements; accepted: one", to_string(value().spec()), numel()));
  const double number = read(value())[0];  // a symbolic one is refused
  if (value().session().capturing())
    throw UsageError("item: while a graph is captured its number would be a constant there; accepted: the tensor itself, or an input");
  return number;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  std::vector<T> out(at(numel()));
  if (dtype() == DType::int64) {  // the one type that a double cannot hold
    const std::vector<std::byte> bytes = read_bytes(value());
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::int64_t element;
      std::memcpy(&element, bytes.data() + i * sizeof element, sizeof element);
      out[i] = static_cast<T>(element);
    }
    return out;
  }
  if constexpr (std::is_same_v<T, float>)
    if (dtype() == DType::float32) return read_floats(value());
  const std::vector<double> numbers = read(value());
  std::transform(numbers.begin(), numbers.end(), out.begin(), [](double x) { return static_cast<T>(x); });
  return out;
}
template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;

// ---- operands
/// Both operands as tensors, a number beside the other.
std::pair<Value, Value> alike(Operand a, Operand b) {
  if (!a.value_ && b.value_)
    std::tie(b.value_, a.value_) = gemel::alike(std::move(b.value_), a.number_);
  else if (!b.value_ && a.value_)
    std::tie(a.value_, b.value_) = gemel::alike(std::move(a.value_), b.number_);
  return {std::move(a.value_), std::move(b.value_)};
}

Operand Operand::times(double factor) const {
  Operand product = *this;
  if (value_)
    product.value_ = binary(gemel::multiply, value_, factor);
  else
    product = Operand(number_.value * factor);
  return product;
}

Tensor binary(Value (*op)(Value, Value), Operand a, Operand b) {
  auto [x, y] = alike(std::move(a), std::move(b));
  return op(std::move(x), std::move(y));
}

Tensor true_divide(Operand a, Operand b) { return binary(gemel::true_divide, std::move(a), std::move(b)); }

// ---- operators
Tensor Tensor::sum(const Axes& axes, Keep keep) const { return gemel::sum(*this, axes, keep); }
Tensor Tensor::mean(const Axes& axes, Keep keep) const { return gemel::mean(*this, axes, keep); }
Tensor Tensor::max(const Axes& axes, Keep keep) const { return gemel::max(*this, axes, keep); }
Tensor Tensor::argmax() const { return gemel::argmax(gemel::reshape(*this, std::vector<std::int64_t>{-1}), 0); }
Tensor Tensor::argmax(std::int64_t axis) const { return gemel::argmax(*this, axis); }
Tensor Tensor::reshape(const std::vector<std::int64_t>& shape) const { return gemel::reshape(*this, shape); }
Tensor Tensor::permute(const Axes& order) const { return gemel::transpose(*this, order); }
Tensor Tensor::softmax(int axis) const { return gemel::softmax(*this, axis); }
Tensor Tensor::log_softmax(int axis) const { return gemel::log_softmax(*this, axis); }
Tensor Tensor::relu() const { return gemel::relu(*this); }
Tensor Tensor::sigmoid() const { return gemel::sigmoid(*this); }
Tensor Tensor::tanh() const { return gemel::tanh(*this); }
Tensor Tensor::exp() const { return gemel::exp(*this); }
Tensor Tensor::log() const { return gemel::log(*this); }
Tensor Tensor::sqrt() const { return gemel::sqrt(*this); }
Tensor Tensor::abs() const { return gemel::abs(*this); }
Tensor Tensor::pow(const Operand& exponent) const { return binary(gemel::power, *this, exponent); }
Tensor Tensor::to(DType dtype) const { return this->dtype() == dtype ? *this : Tensor(gemel::cast(*this, dtype)); }
Tensor Tensor::operator-() const { return gemel::negate(*this); }

Tensor Tensor::matmul(const Tensor& other) const {
  Value a = *this, b = other;
  const bool row = dim() == 1, column = other.dim() == 1;
  if (row) a = gemel::reshape(a, Shape{1, a.elements()});
  if (column) b = gemel::reshape(b, Shape{b.elements(), 1});
  Value y = gemel::matmul(std::move(a), std::move(b));
  if (!row && !column) return y;
  Shape kept;
  const Shape& made = y.shape();
  for (int k = 0; k < made.rank(); ++k)
    if (!(row && k == made.rank() - 2) && !(column && k == made.rank() - 1)) kept.push_back(made[k]);
  return gemel::reshape(std::move(y), kept);
}

Tensor Tensor::transpose(int a, int b) const {
  Axes order(at(dim()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[at(checked_axis("transpose", "x", shape(), a))], order[at(checked_axis("transpose", "x", shape(), b))]);
  return gemel::transpose(*this, order);
}

// ---- gradients
Tensor Tensor::requires_grad_(bool wanted) const& {
  if (wanted == requires_grad()) return *this;
  if (wanted && !is_floating(dtype()))
    throw UsageError(fmt::format("requires_grad_: {} cannot have a gradient; accepted: a floating type", to_string(value().spec())));
  if (!is_leaf())
    throw UsageError(fmt::format("requires_grad_: {} was made by {}, only leaf tensors can be switched off; accepted: detach()", to_string(value().spec()),
                                 value().node()->op->name));
  if (value().node())
    set_wants_gradient(value(), wanted);
  else
    state_->value = leaf(state_->value);
  return *this;
}

Tensor Tensor::grad() const {
  const Value& x = value();
  if (state_->retains) return state_->retained;
  return requires_grad() && is_leaf() ? Tensor(x.node()->accumulated) : Tensor();
}

bool Tensor::is_sparse() const { return row_values(value()) != nullptr; }

namespace {
const RowValues& checked_rows(const char* op, const Value& value) {
  const RowValues* rows = row_values(value);
  if (!rows) throw UsageError(fmt::format("{}: {} is dense; accepted: a gradient of rows, see is_sparse()", op, to_string(value.spec())));
  return *rows;
}
}  // namespace

Tensor Tensor::indices() const { return checked_rows("indices", value()).indices; }
Tensor Tensor::values() const { return checked_rows("values", value()).values; }
Tensor Tensor::to_dense() const { return gemel::to_dense(*this); }

void Tensor::zero_grad() const {
  if (requires_grad() && is_leaf()) value().node()->accumulated = {};
  state_->retained = {};
}

/// The hook of retain_grad: behind all others of the tensor.
struct Tensor::Retaining {
  std::weak_ptr<State> state;
  Value operator()(const Value& gradient) const {
    if (const auto kept = state.lock()) add_to(kept->retained, gemel::copy(gradient));
    return {};
  }
};

void Tensor::check_watched(const char* op) const {
  if (!requires_grad()) throw UsageError(fmt::format("{}: the tensor does not require grad; accepted: one that does", op));
  if (session().trace().differentiates_by_replay())
    throw UsageError(
        fmt::format("{}: hooks are not called where a body is applied again from its capture (a conditional, a loop, a pipeline); accepted: "
                    "before or after it, on what it is given or gives",
                    op));
}

void Tensor::retain_grad() const {
  check_watched("retain_grad");
  if (is_leaf() || state_->retains) return;
  state_->retains = true;
  keep_retaining({});
}

/// The tensor's history is another than `before`: its gradient is kept there.
void Tensor::keep_retaining(const std::shared_ptr<Node>& before) const {
  if (before)
    std::erase_if(before->hooks, [&](const auto& entry) {
      const auto* retaining = entry.second->template target<Retaining>();
      return retaining && retaining->state.lock() == state_;
    });
  const Value& x = value();
  if (x.node()) x.node()->hooks.emplace_back(x.output(), std::make_shared<const GradientHook>(Retaining{state_}));
}

void Tensor::backward(const BackwardOptions& options) const { eager::backward({*this}, {}, options); }
void Tensor::backward(const Tensor& gradient, const BackwardOptions& options) const { eager::backward({*this}, {gradient}, options); }

HookHandle Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  check_watched("register_hook");
  auto call = std::make_shared<const GradientHook>([hook = std::move(hook)](const Value& gradient) -> Value {
    const Value replaced = hook(gradient);
    if (replaced && replaced.spec() != gradient.spec())
      throw ShapeError(fmt::format("register_hook: the hook gave {} for a gradient {}; accepted: an equal shape and type", to_string(replaced.spec()),
                                   to_string(gradient.spec())));
    return replaced;
  });
  HookHandle handle(value().node(), call);
  auto& hooks = value().node()->hooks;
  const auto behind = std::ranges::find_if(hooks, [](const auto& entry) { return entry.second->template target<Retaining>() != nullptr; });
  hooks.emplace(behind, value().output(), std::move(call));
  session().release_at_end(value().node());
  return handle;
}

void HookHandle::remove() {
  const auto node = node_.lock();
  const auto hook = hook_.lock();
  if (node && hook) std::erase_if(node->hooks, [&](const auto& entry) { return entry.second == hook; });
}

Tensor Tensor::detach() const {
  Tensor out = value().detached();
  out.state_->version = kWhatever;
  return out;
}
Tensor Tensor::clone() const { return gemel::copy(*this); }

Values values_of(const Tensors& tensors) { return {tensors.begin(), tensors.end()}; }
Tensors tensors_of(const Values& values) { return {values.begin(), values.end()}; }

}  // namespace gemel::eager
