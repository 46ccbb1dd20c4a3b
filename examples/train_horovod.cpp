// A loop of one's own in Horovod's style on the ranks that mpirun starts, or on one: fits the sign of a product.
//   mpirun -np 2 train_horovod STEPS
#include <cstdio>
#include <iostream>
#include <string>

#include "frontends/distributed/horovod.h"
#include "opencl/device/device.h"
#include "parallel/transport/mpi_communicator.h"
#include "parallel/transport/thread_communicator.h"
#include "sign_of_product.h"

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
  hvd.broadcast_parameters(net, hvd.join());  // of ranks that have fewer batches than others
  const double mean = hvd.all_reduce(loss, "loss").item();
  if (hvd.rank() == 0) std::printf("loss %.4f\n", mean);
}
