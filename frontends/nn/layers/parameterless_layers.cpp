#include "frontends/nn/layers/parameterless_layers.h"

#include <fmt/format.h>

#include "engine/base/error.h"

namespace gemel::nn {
namespace {

std::string window_text(const char* kind, const Window& w) {
  std::string text = fmt::format("{}({}x{}, stride {}x{}", kind, w.kernel[0], w.kernel[1], w.stride[0], w.stride[1]);
  if (w.padding != Pair{0, 0}) text += fmt::format(", padding {}x{}", w.padding[0], w.padding[1]);
  return text + ")";
}

}  // namespace

Window square_window(std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  const std::int64_t step = stride ? stride : kernel;
  return {.kernel = {kernel, kernel}, .stride = {step, step}, .padding = {padding, padding}};
}

std::string MaxPool2d::describe() const { return window_text("MaxPool2d", window_); }
std::string AvgPool2d::describe() const { return window_text("AvgPool2d", window_); }
std::string AdaptiveAvgPool2d::describe() const { return fmt::format("AdaptiveAvgPool2d({}x{})", extents_[0], extents_[1]); }

Dropout::Dropout(double rate) : rate_(rate) {
  if (!(rate >= 0 && rate <= 1)) throw UsageError(fmt::format("Dropout: rate {} is out of range; accepted: 0 to 1", rate));
}

std::string Dropout::describe() const { return fmt::format("Dropout({})", rate_); }

Value Dropout::forward(Value x) { return training() && rate_ > 0 ? dropout(std::move(x), rate_) : x; }

Value Flatten::forward(Value x) {
  const Shape shape = x.shape();
  if (shape.empty()) throw ShapeError(fmt::format("{}: x is []; accepted: one axis or more", *x.session().scope()));
  if (shape.rank() == 4 && shape[1] * shape[2] != 1) x = transpose(std::move(x), {0, 3, 1, 2});
  return reshape(std::move(x), Shape{shape[0], shape.product(1, shape.rank())});
}

}  // namespace gemel::nn
