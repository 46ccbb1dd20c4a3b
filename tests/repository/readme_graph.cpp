// The graph front end in ten lines, as README.md shows it: fits y = 2 x + 1.
#include <cstdio>

#include "engine/ops/ops.h"
#include "frontends/graph/runner.h"
#include "opencl/device/device.h"

int main() {
  const auto device = gemel::opencl::Device::open({});
  gemel::Session session(device);
  const gemel::Value x_data = session.tensor(gemel::f32({4, 1}), std::vector<double>{0, 1, 2, 3});
  const gemel::Value y_data = session.tensor(gemel::f32({4, 1}), std::vector<double>{1, 3, 5, 7});

  gemel::graph::Graph graph(session, "regression");
  const auto building = graph.as_default();
  const auto x = graph.placeholder(gemel::f32({4, 1}), "x"), y = graph.placeholder(gemel::f32({4, 1}), "y");
  const auto w = graph.variable(full(session, gemel::f32({1, 1}), 0), "w"), b = graph.variable(full(session, gemel::f32({1}), 0), "b");
  const auto loss = graph.named(mean(square(matmul(x, w) + b - y)), "loss");
  const auto g = graph.gradients(loss, {w, b});
  const auto train = graph.group("train", [&] { assign(w, w - 0.1 * g[0]), assign(b, b - 0.1 * g[1]); });
  gemel::graph::Runner runner(graph);
  double last = 0;
  for (int step = 0; step < 200; ++step) last = read(runner.run({{x, x_data}, {y, y_data}}, {loss, train})[0])[0];
  std::printf("loss %.6f, w %.3f, b %.3f\n", last, read(w)[0], read(b)[0]);
  return last < 1e-3 ? 0 : 1;
}
