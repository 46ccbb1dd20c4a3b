// Horovod's calls as a user's own loop makes them, on ranks that are threads of this process.
#include "frontends/distributed/horovod.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "engine/base/error.h"
#include "frontends/eager/eager.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "opencl/device/device.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks/communicating_ranks.h"

namespace gemel::distributed {
namespace {

using eager::Tensor;
using parallel::CommunicationThread;
using parallel::Reduction;
using testing::message_of;
using Floats = std::vector<float>;

/// Runs the body on ranks behind init, each with a device of its own.
void run_horovod(int ranks, const std::function<void(Horovod&, Session&)>& body) {
  testing::run_communicating_ranks(ranks, [&](CommunicationThread& communication) {
    Session session(opencl::Device::open({}), static_cast<std::uint64_t>(1 + communication.rank()));
    Horovod hvd;
    hvd.init(session, communication, {.cycle_ms = 0.2});
    body(hvd, session);
    hvd.shutdown();
  });
}
Tensor filled(Session& session, const Shape& shape, float value) {
  return eager::from_host(session, std::span<const float>(Floats(static_cast<std::size_t>(shape.elements()), value)), shape);
}

TEST(DistributedHorovod, moves_whole_tables_as_a_rank_may_leave) {
  run_horovod(2, [](Horovod& hvd, Session& session) {
    nn::Embedding table(300, 4, std::nullopt, GradientForm::rows);
    table.materialise(session);
    DistributedOptimizer optimizer(hvd, table, "sgd");
    const std::int64_t words[] = {hvd.rank(), 7};
    for (int step = 0; step < (hvd.rank() == 0 ? 2 : 1); ++step) {
      optimizer.zero_grad();
      optimizer.backward(Tensor(mean(table(eager::from_host(session, std::span<const std::int64_t>(words), {2})))));
      EXPECT_FALSE(Tensor(table.weight().tensor()).grad().is_sparse());
      optimizer.step();
    }
    EXPECT_EQ(hvd.join(), 0);
  });
}

TEST(DistributedHorovod, moves_tensors_between_ranks) {
  run_horovod(3, [](Horovod& hvd, Session& session) {
    const float r = static_cast<float>(hvd.rank());
    const Tensor mine = filled(session, {2, 3}, r);
    EXPECT_EQ(hvd.all_reduce(mine, "mean").to_vector(), Floats(6, 1));
    EXPECT_EQ(mine.to_vector(), Floats(6, r)) << "a tensor of its own";
    EXPECT_EQ(hvd.all_reduce(mine, "sum", {.reduction = Reduction::sum, .prescale = 2}).to_vector(), Floats(6, 6));
    EXPECT_EQ(hvd.broadcast(mine, 2, "root").to_vector(), Floats(6, 2));
    const Tensor rows = hvd.all_gather(filled(session, {hvd.rank(), 2}, r), "rows");
    EXPECT_EQ(rows.shape(), (Shape{3, 2}));
    EXPECT_EQ(rows.to_vector(), (Floats{1, 1, 2, 2, 2, 2}));
    EXPECT_EQ(hvd.reduce_scatter(filled(session, {7}, 1), "pieces", {.reduction = Reduction::sum}).to_vector(), Floats(hvd.rank() == 0 ? 3 : 2, 3));
    EXPECT_EQ(hvd.all_to_all(filled(session, {3}, r), {1, 1, 1}, "swap").to_vector(), (Floats{0, 1, 2}));
    auto pair = hvd.grouped_all_reduce_async({mine, filled(session, {1}, 3)}, "pair");
    EXPECT_EQ(pair[0].synchronize().to_vector(), Floats(6, 1));
    EXPECT_EQ(pair[1].synchronize().to_vector(), Floats(1, 3));
    EXPECT_EQ(hvd.broadcast_object(hvd.rank() == 1 ? "a configuration" : "", 1, "object"), "a configuration");
    EXPECT_EQ(hvd.local_size(), 3);
    EXPECT_EQ(hvd.cross_size(), 1);
    if (hvd.rank() == 0) {
      EXPECT_EQ(hvd.all_reduce(filled(session, {1}, 3), "alone").to_vector(), Floats(1, 3)) << "a mean is over the ranks that have data";
    }
    EXPECT_GE(hvd.join(), 0);
  });
}

TEST(DistributedHorovod, writes_to_memory_of_its_own_where_a_handle_is_let_go_of) {
  run_horovod(2, [](Horovod& hvd, Session& session) {
    const Floats nines(128, 9);
    if (hvd.rank() == 0) {
      const Tensor one = filled(session, {128}, 1);
      for (const char* name : {"a", "b", "c"}) (void)hvd.all_reduce_async(one, name, {.reduction = Reduction::sum});
    }
    std::vector<Floats> later(hvd.rank() == 0 ? 64 : 0, nines);  // in what was freed, where it was
    hvd.communication().run([](parallel::Collectives& c) { c.barrier(); });
    for (const char* name : {"a", "b", "c"}) {
      if (hvd.rank() == 0) break;
      EXPECT_EQ(hvd.all_reduce(filled(session, {128}, 1), name, {.reduction = Reduction::sum}).to_vector(), Floats(128, 2));
    }
    EXPECT_EQ(hvd.all_reduce(filled(session, {1}, 1), "next", {.reduction = Reduction::sum}).to_vector(), Floats(1, 2));
    for (const Floats& f : later) EXPECT_EQ(f, nines);
  });
}

TEST(DistributedHorovod, is_used_between_init_and_shutdown) {
  testing::run_communicating_ranks(2, [&](CommunicationThread& communication) {
    Session session(opencl::Device::open({}), 1);
    Horovod hvd;
    EXPECT_EQ(message_of<UsageError>([&] { hvd.rank(); }), "horovod: rank is called before init; accepted: between init and shutdown");
    EXPECT_EQ(message_of<UsageError>([&] { hvd.all_reduce(filled(session, {1}, 1), "x"); }),
              "horovod: all_reduce is called before init; accepted: between init and shutdown");
    hvd.init(session, communication, {.cycle_ms = 0.2});
    EXPECT_EQ(message_of<UsageError>([&] { hvd.init(session, communication); }), "horovod: init is called twice; accepted: once before shutdown");
    EXPECT_EQ(message_of<ShapeError>([&] { hvd.all_gather(filled(session, {}, 1), "x"); }), "horovod: x: a scalar has no rows; accepted: one axis or more");
    EXPECT_EQ(message_of<CommError>([&] { hvd.all_reduce(filled(session, {1 + hvd.rank()}, 1), "x"); }),
              "horovod: x: the shape differs: [1] on rank 0, [2] on rank 1; accepted: the same on every rank");
    hvd.shutdown();
    EXPECT_EQ(message_of<UsageError>([&] { hvd.size(); }), "horovod: size is called after shutdown; accepted: between init and shutdown");
  });
}

class HorovodNet : public nn::Module {
 public:
  nn::Linear& first = add<nn::Linear>("first", 4, 8);
  nn::Linear& second = add<nn::Linear>("second", 8, 3);

 protected:
  Value forward(Value x) override { return second(relu(first(std::move(x)))); }
};

/// The samples of a pass, of `passes` in each of some steps.
struct PassSamples {
  Tensor x, y;
};
PassSamples samples_of(Session& session, int pass, int rank, int ranks) {
  Floats x;
  std::vector<std::int64_t> y;
  for (int i = rank; i < 12; i += ranks) {
    for (int k = 0; k < 4; ++k) x.push_back(static_cast<float>((7 * i + 3 * k + 5 * pass) % 11) / 5 - 1);
    y.push_back((i + pass) % 3);
  }
  const auto n = std::ssize(y);
  return {eager::from_host(session, std::span<const float>(x), {n, 4}), eager::from_host(session, std::span<const std::int64_t>(y), {n})};
}

/// Parameters after some steps. @param whole  a factor of the gradients
Floats trained_alone(int passes, double whole) {
  Session session(opencl::Device::open({}), 1);
  HorovodNet net;
  net.materialise(session);
  const auto optimizer = optim::make("momentum", optim::all_in_one(net.parameters()));
  optimizer->set_rate(0.05);
  for (int pass = 0; pass < 4 * passes; ++pass) {
    if (pass % passes == 0) optimizer->zero_grad();
    const PassSamples s = samples_of(session, pass, 0, 1);
    eager::backward({cross_entropy(net(s.x), s.y) * whole});
    if (pass % passes == passes - 1) optimizer->step();
  }
  return Tensor(net.first.parameters().parameters()[0].value).to_vector();
}

Floats trained_on(int ranks, const DistributedOptimizerOptions& options) {
  Floats out;
  run_horovod(ranks, [&](Horovod& hvd, Session& session) {
    HorovodNet net;
    net.materialise(session);  // of another seed on every rank: rank 0's count
    DistributedOptimizer optimizer(hvd, net, "momentum", options);
    optimizer.optimizer().set_rate(0.05);
    for (int pass = 0; pass < 4 * options.backward_passes_per_step; ++pass) {
      if (pass % options.backward_passes_per_step == 0) optimizer.zero_grad();
      const PassSamples s = samples_of(session, pass, hvd.rank(), hvd.size());
      optimizer.backward(cross_entropy(net(s.x), s.y));
      if (pass % options.backward_passes_per_step == options.backward_passes_per_step - 1) optimizer.step();
    }
    const Floats mine = Tensor(net.first.parameters().parameters()[0].value).to_vector();
    if (hvd.rank() == 0) out = mine;
  });
  return out;
}

void expect_near(const Floats& actual, const Floats& expected, double relative) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], relative * (1 + std::abs(expected[i])));
}

TEST(DistributedHorovod, an_optimizer_of_all_ranks_moves_parameters_as_one_of_all_samples) {
  for (const int ranks : {1, 2, 3}) expect_near(trained_on(ranks, {}), trained_alone(1, 1), 1e-6);
  expect_near(trained_on(2, {.backward_passes_per_step = 3}), trained_alone(3, 1), 1e-6);
  expect_near(trained_on(2, {.op = Reduction::sum}), trained_alone(1, 2), 1e-6);
  expect_near(trained_on(2, {.prescale = 0.5, .postscale = 3}), trained_alone(1, 1.5), 1e-6);
  expect_near(trained_on(2, {.compression = WireFormat::fp16}), trained_alone(1, 1), 1e-3);  // gradients rounded to 11 bits
}

TEST(DistributedHorovod, an_optimizer_refuses_passes_that_are_missing_or_too_many) {
  run_horovod(1, [](Horovod& hvd, Session& session) {
    HorovodNet net;
    net.materialise(session);
    EXPECT_EQ(message_of<UsageError>([&] { DistributedOptimizer(hvd, net, "sgd", {.op = Reduction::max}); }),
              "horovod: gradients become their max; accepted: mean, sum");
    EXPECT_EQ(message_of<UsageError>([&] { DistributedOptimizer(hvd, net, "sgd", {.backward_passes_per_step = 0}); }),
              "horovod: 0 backward passes a step; accepted: one or more");
    DistributedOptimizer optimizer(hvd, net, "sgd", {.backward_passes_per_step = 2});
    const PassSamples s = samples_of(session, 0, 0, 1);
    optimizer.backward(cross_entropy(net(s.x), s.y));
    EXPECT_EQ(message_of<UsageError>([&] { optimizer.step(); }), "horovod: step() comes behind 1 of 2 backward passes; accepted: all of them");
    optimizer.backward(cross_entropy(net(s.x), s.y));
    EXPECT_EQ(message_of<UsageError>([&] { optimizer.backward(cross_entropy(net(s.x), s.y)); }),
              "horovod: a backward pass comes behind the 2 of a step; accepted: step() first, or more backward_passes_per_step");
  });
}

TEST(DistributedHorovod, an_optimizer_refuses_what_comes_after_shutdown) {
  testing::run_communicating_ranks(2, [&](CommunicationThread& communication) {
    Session session(opencl::Device::open({}), 1);
    Horovod hvd;
    hvd.init(session, communication, {.cycle_ms = 0.2});
    HorovodNet net;
    net.materialise(session);
    DistributedOptimizer optimizer(hvd, net, "sgd");
    const PassSamples s = samples_of(session, 0, 0, 1);
    optimizer.backward(cross_entropy(net(s.x), s.y));
    optimizer.step();
    const eager::Tensor one = filled(session, {4}, 1);
    Horovod::Handle before = hvd.reduce_scatter_async(one, "x", {.reduction = Reduction::sum});
    hvd.communication().run([](parallel::Collectives& c) { c.barrier(); });
    while (!before.poll()) std::this_thread::yield();
    hvd.shutdown();
    EXPECT_FALSE(hvd.is_initialized());
    EXPECT_EQ(before.synchronize().to_vector(), Floats(2, 2)) << "its result is there";
    EXPECT_EQ(message_of<UsageError>([&] { optimizer.backward(cross_entropy(net(s.x), s.y)); }),
              "horovod: backward is called after shutdown; accepted: between init and shutdown");
  });
}

TEST(DistributedHorovod, gives_all_ranks_the_roots_parameters_and_optimizer_state) {
  run_horovod(2, [](Horovod& hvd, Session& session) {
    HorovodNet net;
    net.materialise(session);
    const auto optimizer = optim::make("adam", optim::all_in_one(net.parameters()));
    if (hvd.rank() == 1) {
      const PassSamples s = samples_of(session, 0, 0, 1);
      eager::backward({cross_entropy(net(s.x), s.y)});
      optimizer->step();
    }
    hvd.broadcast_parameters(net, 1);
    hvd.broadcast_optimizer_state(*optimizer, 1);
    EXPECT_EQ(optimizer->steps(), 1);
    EXPECT_EQ(optimizer->parameter_steps(), std::vector<std::int64_t>(4, 1));
    const ParameterSet set = net.parameters();
    std::vector<NamedValue> values(set.parameters().begin(), set.parameters().end());
    values.insert(values.end(), optimizer->state().begin(), optimizer->state().end());
    for (const NamedValue& v : values) {
      const Floats both = hvd.all_gather(Tensor(v.value), "all." + v.name).to_vector();
      EXPECT_TRUE(std::equal(both.begin(), both.begin() + std::ssize(both) / 2, both.begin() + std::ssize(both) / 2)) << v.name;
    }
  });
}

}  // namespace
}  // namespace gemel::distributed
