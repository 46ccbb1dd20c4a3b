// The eager front end in ten lines, as README.md shows it: fits y = 2 x + 1.
#include <iostream>

#include "frontends/eager/eager.h"
#include "opencl/device/device.h"

using namespace gemel::eager;

int main() {
  const auto device = gemel::opencl::Device::open({});
  gemel::Session session(device);
  const Tensor x = tensor(session, {{0.}, {1.}, {2.}, {3.}}), y = tensor(session, {{1.}, {3.}, {5.}, {7.}});
  const Tensor w = zeros(session, {1, 1}, {.requires_grad = true}), b = zeros(session, {1}, {.requires_grad = true});
  Tensor loss;
  for (int step = 0; step < 200; ++step) {
    loss = (x.matmul(w) + b - y).pow(2).mean();
    loss.backward();
    const NoGrad no_grad(session);
    for (const Tensor& p : {w, b}) p.sub_(p.grad(), 0.1), p.zero_grad();
  }
  std::cout << "loss " << loss.item() << ", w " << w << ", b " << b << '\n';
  return loss.item() < 1e-3 ? 0 : 1;
}
