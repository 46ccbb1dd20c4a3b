// A model on the ranks that mpirun starts, or on one: each trains its shard of every batch, and the losses are the same.
//   mpirun -np 2 train_data_parallel EPOCHS
#include <cstdio>
#include <iostream>
#include <string>

#include "datasets/loading/data_loader.h"
#include "datasets/pictures/picture_dataset.h"
#include "frontends/distributed/data_parallel.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/train/trainer.h"
#include "opencl/device/device.h"
#include "parallel/transport/mpi_communicator.h"
#include "parallel/transport/thread_communicator.h"

using namespace gemel;

struct Printer : train::Reporter {
  void epoch_done(const train::EpochReport& report, nlohmann::ordered_json&) override { std::printf("epoch %d: loss %.4f\n", int(report.epoch), report.loss); }
};

int main(int count, char** arguments) {
  if (count != 2) return std::cerr << "usage: train_data_parallel EPOCHS\n", 2;
  const bool on_ranks = parallel::mpi_launch().has_value();
  parallel::CommunicationThread communication(on_ranks ? parallel::mpi_communicator : [] { return std::move(parallel::thread_communicators(1)[0]); });
  Session session(opencl::Device::open({}), 1);
  const datasets::Splits data = datasets::open_dataset({.input = Shape{3, 16, 16}, .limit = 48});
  datasets::DataLoader loader(*data.train, {.batch_size = 16, .rank = communication.rank(), .ranks = communication.size()});
  const auto model = models::make("perceptron", {.classes = 10, .channels = 3}, session);
  train::ClassificationTask task(*model, 10);
  distributed::DataParallel ranks(session, communication);
  ranks.pack(task, {f32({16, 16, 16, 3}), i64({16})});
  const auto optimizer = optim::make("momentum", optim::all_in_one(model->parameters()));
  ranks.attach(*model, *optimizer);
  Printer printer;
  train::Run run{session, task, *optimizer, loader};
  run.ranks = &ranks;
  if (communication.rank() == 0) run.reporter = &printer;
  train::Trainer(run, {.epochs = std::stoll(arguments[1])}).run();
}
