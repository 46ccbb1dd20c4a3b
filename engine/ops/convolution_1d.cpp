// Convolution along time: that of pictures of height 1.
#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel {

Value conv1d(Value x, Value w, const Convolution1d& c) {
  check_rank("conv1d", "x", x.spec(), 3);
  check_rank("conv1d", "w", w.spec(), 3);
  const Shape in = x.shape(), filters = w.shape();
  const Convolution flat{.stride = {1, c.stride}, .padding = {0, c.padding}, .dilation = {1, c.dilation}, .groups = c.groups};
  const Value y = conv2d(reshape(std::move(x), Shape{in[0], 1, in[1], in[2]}), reshape(std::move(w), Shape{1, filters[0], filters[1], filters[2]}), flat);
  return reshape(y, Shape{in[0], y.shape()[2], filters[2]});
}

}  // namespace gemel
