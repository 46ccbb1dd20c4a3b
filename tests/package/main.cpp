// A project of its own that uses Gemel as installed: one product, computed at once and as a graph.
#include <iostream>
#include <span>
#include <vector>

#include "engine/core/session.h"
#include "engine/ops/ops.h"
#include "frontends/graph/compile.h"
#include "opencl/device/device.h"

namespace {

void print(const gemel::Value& value) {
  std::cout << to_string(value.shape());
  for (const double element : gemel::read(value)) std::cout << ' ' << element;
  std::cout << '\n';
}

}  // namespace

int main() {
  const auto device = gemel::opencl::Device::open({});
  gemel::Session session(device);
  const std::vector<double> numbers{1, 2, 3, 4};
  const gemel::Value x = session.tensor({.shape = {2, 2}}, std::span(numbers));
  print(matmul(x, x));
  auto square = gemel::graph::compile(session, [](const gemel::Values& in) { return gemel::Values{matmul(in[0], in[0])}; });
  print(square({x})[0]);
}
