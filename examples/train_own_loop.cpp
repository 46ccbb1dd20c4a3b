// A loop of one's own on the ranks that mpirun starts, or on one, in the eager front end: fits the sign of a product.
//   mpirun -np 2 train_own_loop STEPS
#include <cstdio>
#include <iostream>
#include <string>

#include "frontends/distributed/data_parallel.h"
#include "opencl/device/device.h"
#include "parallel/transport/mpi_communicator.h"
#include "parallel/transport/thread_communicator.h"
#include "sign_of_product.h"

int main(int count, char** arguments) {
  if (count != 2) return std::cerr << "usage: train_own_loop STEPS\n", 2;
  const bool on_ranks = parallel::mpi_launch().has_value();
  parallel::CommunicationThread communication(on_ranks ? parallel::mpi_communicator : [] { return std::move(parallel::thread_communicators(1)[0]); });
  Session session(opencl::Device::open({}), 1);
  Net net;
  net.materialise(session);
  distributed::DataParallel ranks(session, communication);
  ranks.pack(net);
  const auto optimizer = optim::make("adam", optim::all_in_one(net.parameters()));
  ranks.attach(net, *optimizer);  // all ranks have rank 0's parameters now
  optimizer->set_rate(0.02);
  double loss = 0;
  for (int step = 0; step < std::stoi(arguments[1]); ++step) {
    const Batch batch = batch_of(session, step, communication.rank(), communication.size());
    optimizer->zero_grad();
    const eager::Tensor mean = cross_entropy(net(batch.x), batch.y);
    ranks.backward(mean);  // the gradients of the mean over ranks
    optimizer->step();
    loss = mean.item();
  }
  ranks.join();  // of ranks that have fewer batches than others
  const double all = ranks.merge({.loss = loss, .weight = 1}).mean_loss();
  if (communication.rank() == 0) std::printf("loss %.4f\n", all);
}
