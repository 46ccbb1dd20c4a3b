// A loop of a user's own on ranks, as tests run it: a small net, samples by their numbers, one rank's side.
#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/ops/ops.h"
#include "frontends/distributed/data_parallel.h"
#include "frontends/eager/eager.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "opencl/device/device.h"

namespace gemel::testing {

using Floats = std::vector<float>;

class OwnLoopNet : public nn::Module {
 public:
  nn::Linear& first = add<nn::Linear>("first", 5, 8);
  nn::Linear& second = add<nn::Linear>("second", 8, 3);

 protected:
  Value forward(Value x) override { return second(relu(first(std::move(x)))); }
};

/// Samples [begin, end) of a set.
struct Samples {
  std::int64_t begin, end;
  std::int64_t count() const { return end - begin; }
};

/// The sum of the samples' losses.
inline eager::Tensor loss_of(Session& session, nn::Module& net, Samples s) {
  Floats x;
  std::vector<std::int64_t> y;
  for (std::int64_t i = s.begin; i < s.end; ++i) {
    for (int k = 0; k < 5; ++k) x.push_back(std::sin(static_cast<float>(7 * i + 3 * k)));
    y.push_back(i % 3);
  }
  const Value logits = net(eager::from_host(session, std::span<const float>(x), {s.count(), 5}));
  return eager::Tensor(cross_entropy(logits, eager::from_host(session, std::span<const std::int64_t>(y), {s.count()}), 0, LossReduction::sum));
}

inline std::vector<double> gradients_of(const optim::Optimizer& optimizer) {
  std::vector<double> out;
  for (const NamedValue& p : optimizer.parameters()) {
    const std::vector<double> g = read(p.value.node()->accumulated);
    out.insert(out.end(), g.begin(), g.end());
  }
  return out;
}

/// One rank's side of a loop.
template <class Net>
struct SideOf {
  Session session{opencl::Device::open({}), 3};
  Net net{};
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<distributed::DataParallel> ranks;

  explicit SideOf(parallel::CommunicationThread* communication, const distributed::DataParallelOptions& options = {}) {
    net.materialise(session);
    if (communication) {
      ranks = std::make_unique<distributed::DataParallel>(session, *communication, options);
      ranks->pack(net);
    }
    optimizer = optim::make("momentum", optim::all_in_one(net.parameters()));
    if (ranks) ranks->attach(net, *optimizer);
  }
  eager::Tensor loss(Samples s) { return loss_of(session, net, s); }
};
using Side = SideOf<OwnLoopNet>;

}  // namespace gemel::testing
