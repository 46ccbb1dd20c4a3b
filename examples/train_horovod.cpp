// A loop of one's own in Horovod's style on the ranks that mpirun starts, or on one: fits the sign of a product.
//   mpirun -np 2 train_horovod STEPS
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "frontends/distributed/horovod.h"
#include "frontends/eager/eager.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/functions.h"
#include "frontends/nn/layers.h"
#include "opencl/device.h"
#include "parallel/mpi_communicator.h"
#include "parallel/thread_communicator.h"

using namespace gemel;

struct Net : nn::Module {
  nn::Linear& hidden = add<nn::Linear>("hidden", 2, 16);
  nn::Linear& output = add<nn::Linear>("output", 16, 2);
  Value forward(Value x) override { return output(relu(hidden(std::move(x)))); }
};

struct Batch {
  eager::Tensor x, y;
};

/// Each rank's samples of a step: the ranks take them in turn.
Batch batch_of(Session& session, int step, int rank, int ranks) {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (int i = rank; i < 48; i += ranks) {
    const float a = float((37 * (i + 48 * step)) % 11 - 5), b = float((53 * (i + 48 * step)) % 13 - 6);
    x.insert(x.end(), {a, b});
    y.push_back(a * b > 0);
  }
  const auto n = std::int64_t(y.size());
  return {eager::from_host(session, std::span<const float>(x), {n, 2}), eager::from_host(session, std::span<const std::int64_t>(y), {n})};
}

int main(int count, char** arguments) {
  if (count != 2) return std::cerr << "usage: train_horovod STEPS\n", 2;
  const bool on_ranks = parallel::mpi_launch().has_value();
  parallel::CommunicationThread communication(on_ranks ? parallel::mpi_communicator : [] { return std::move(parallel::thread_communicators(1)[0]); });
  Session session(opencl::Device::open({}), 1);
  Net net;
  net.materialise(session);
  distributed::Horovod hvd;
  hvd.init(session, communication);
  distributed::DistributedOptimizer optimizer(hvd, net, "adam");  // all ranks have rank 0's parameters now
  optimizer.optimizer().set_rate(0.02);
  eager::Tensor loss;
  for (int step = 0; step < std::stoi(arguments[1]); ++step) {
    const Batch batch = batch_of(session, step, hvd.rank(), hvd.size());
    optimizer.zero_grad();
    loss = cross_entropy(net(batch.x), batch.y);
    optimizer.backward(loss);  // gradients are reduced while it computes
    optimizer.step();
  }
  const double mean = hvd.all_reduce(loss, "loss").item();
  if (hvd.rank() == 0) std::printf("loss %.4f\n", mean);
}
