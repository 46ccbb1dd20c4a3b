// Loops of one's own with uneven data, on ranks that are threads of this process: a rank that has joined, and one that has ended without.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "frontends/distributed/horovod.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks/communicating_ranks.h"
#include "tests/support/ranks/custom_training_loop.h"

namespace gemel::distributed {
namespace {

using namespace testing;
using List = std::vector<double>;
using eager::Tensor;
using parallel::CommunicationThread;
using Steps = std::vector<int>;  // [rank]

/// The samples of a rank in a step: four that no other has.
Samples samples_of(int step, int rank) { return {12 * step + 4 * rank, 12 * step + 4 * rank + 4}; }

int most(const Steps& steps) { return *std::ranges::max_element(steps); }

List parameters_of(nn::Module& net) {
  List out;
  for (const NamedValue& v : all_of(net.parameters())) {
    const List x = read(v.value);
    out.insert(out.end(), x.begin(), x.end());
  }
  return out;
}

void expect_all_near(const List& actual, const List& expected, double relative = 1e-5) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-6 + relative * std::abs(expected[i])) << "element " << i;
}

/// One process that takes the mean over the ranks that have a step.
List trained_alone(const Steps& steps) {
  Side alone(nullptr);
  for (int step = 0; step < most(steps); ++step) {
    alone.optimizer->zero_grad();
    const auto with_data = std::ranges::count_if(steps, [step](int s) { return s > step; });
    for (int r = 0; r < static_cast<int>(steps.size()); ++r)
      if (steps[at(r)] > step) (alone.loss(samples_of(step, r)) * (0.25 / static_cast<double>(with_data))).backward();
    alone.optimizer->step();
  }
  return parameters_of(alone.net);
}

int last_of(const Steps& steps) {
  int last = 0;
  for (int r = 0; r < std::ssize(steps); ++r)
    if (steps[at(r)] >= steps[at(last)]) last = r;
  return last;
}

enum class Loss { mean, sum_and_weight };

/// @return parameters of rank 0 behind join()
List trained_with_join(const Steps& steps, Loss loss, const DataParallelOptions& options = {}) {
  List out;
  run_communicating_ranks(static_cast<int>(steps.size()), [&](CommunicationThread& c) {
    Side side(&c, options);
    for (int step = 0; step < steps[at(c.rank())]; ++step) {
      side.optimizer->zero_grad();
      const Tensor sum = side.loss(samples_of(step, c.rank()));
      if (loss == Loss::mean)
        side.ranks->backward(sum * 0.25);
      else
        side.ranks->backward(sum, 4);
      side.optimizer->step();
    }
    EXPECT_EQ(side.ranks->join(), last_of(steps));
    side.ranks->check_same();
    EXPECT_EQ(side.optimizer->steps(), most(steps)) << "all have the optimizer's state of the last";
    EXPECT_EQ(side.ranks->merge({.weight = 1}).weight, static_cast<double>(steps.size())) << "behind it all take part again";
    if (c.rank() == 0) out = parameters_of(side.net);
  });
  return out;
}

TEST(DistributedJoin, means_are_over_the_ranks_that_have_data) {
  std::vector<Steps> all{{3, 1}, {1, 2, 4}};
  if (is_full_run()) all.insert(all.end(), {{2, 4}, {3, 3}, {0, 2}, {4, 0, 2}, {2, 3, 2}, {1, 4, 2, 3}});
  for (const Steps& steps : all) {
    SCOPED_TRACE(steps[0]);
    const List expected = trained_alone(steps);
    for (const Loss loss : {Loss::mean, Loss::sum_and_weight}) expect_all_near(trained_with_join(steps, loss), expected);
  }
}

TEST(DistributedJoin, holds_for_compressed_gradients) {
  const Steps steps{1, 3, 2};
  using Kind = parallel::CompressionOptions::Kind;
  for (const Kind kind : {Kind::float16, Kind::bfloat16})  // 11 and 8 bits of each gradient
    expect_all_near(trained_with_join(steps, Loss::mean, {.reducer = {.compression = {kind}}}), trained_alone(steps), kind == Kind::float16 ? 2e-2 : 1e-1);
  expect_all_near(trained_with_join(steps, Loss::mean, {.reducer = {.compression = {Kind::top_k, 1.0}}}), trained_alone(steps));
}

TEST(DistributedJoin, goes_on_for_several_epochs_and_passes_without_sums) {
  run_communicating_ranks(2, [](CommunicationThread& c) {
    Side side(&c);
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (int step = 0; step < (c.rank() == epoch % 2 ? 1 : 3); ++step) {
        side.optimizer->zero_grad();
        {
          const DataParallel::NoSync alone(*side.ranks);
          side.ranks->backward(side.loss(samples_of(2 * step, c.rank())), 4);
        }
        side.ranks->backward(side.loss(samples_of(2 * step + 1, c.rank())), 4);
        side.optimizer->step();
        side.ranks->merge({.loss = 1, .weight = 1});  // what the loop reports
      }
      EXPECT_EQ(side.ranks->join(), 1 - epoch % 2);
      side.ranks->check_same();
    }
  });
}

/// A rank that leaves in the midst of a step of several passes gives none of it.
TEST(DistributedJoin, leaves_out_passes_that_were_not_summed) {
  const List expected = trained_alone({1, 2});
  run_communicating_ranks(2, [&](CommunicationThread& c) {
    Side side(&c);
    for (int step = 0; step < 1 + c.rank(); ++step) {
      side.optimizer->zero_grad();
      side.ranks->backward(side.loss(samples_of(step, c.rank())) * 0.25);
      side.optimizer->step();
    }
    if (c.rank() == 0) {
      const DataParallel::NoSync alone(*side.ranks);
      side.ranks->backward(side.loss({50, 54}));
    }
    side.ranks->join();
    expect_all_near(parameters_of(side.net), expected);
  });
}

/// Zeros of a rank that has joined are no use of a parameter.
TEST(DistributedJoin, leaves_parameters_that_no_rank_with_data_uses) {
  run_communicating_ranks(2, [&](CommunicationThread& c) {
    Side side(&c);
    for (int step = 0; step < 1 + c.rank(); ++step) {
      side.optimizer->zero_grad();
      side.ranks->backward(step == 0 ? side.loss(samples_of(step, c.rank())) : Tensor(mean(side.net.first.parameters().parameters()[0].value)));
      const auto gradient_of = [&](const char* name) { return side.net.parameters().find(name)->node()->accumulated; };
      EXPECT_EQ(bool(gradient_of("second.weight")), step == 0);
      if (step == 1) {
        EXPECT_NEAR(read(gradient_of("first.weight"))[0], 1.0 / 40, 1e-7) << "of its 40 elements";
      }
    }
    EXPECT_EQ(side.ranks->join(), 1);
  });
}

class NormNet : public nn::Module {
 public:
  nn::Linear& first = add<nn::Linear>("first", 5, 8);
  nn::BatchNorm2d& norm = add<nn::BatchNorm2d>("norm", 8);
  nn::Linear& second = add<nn::Linear>("second", 8, 3);

 protected:
  Value forward(Value x) override {
    const std::int64_t n = x.shape()[0];
    return second(reshape(relu(norm(reshape(first(std::move(x)), {n, 1, 1, 8}))), {n, 8}));
  }
};

TEST(DistributedJoin, takes_statistics_over_the_samples_that_there_are) {
  const Steps steps{1, 3, 2};
  SideOf<NormNet> alone(nullptr);
  for (int step = 0; step < most(steps); ++step) {
    alone.optimizer->zero_grad();
    // One batch of all that have data: the samples of the ranks that have joined lie at its ends.
    const Samples all = step == 0 ? Samples{0, 12} : step == 1 ? Samples{16, 24} : Samples{28, 32};
    (loss_of(alone.session, alone.net, all) * (1.0 / static_cast<double>(all.count()))).backward();
    alone.optimizer->step();
  }
  run_communicating_ranks(3, [&](CommunicationThread& c) {
    SideOf<NormNet> side(&c, {.norm = NormOver::batch});
    for (int step = 0; step < steps[at(c.rank())]; ++step) {
      side.optimizer->zero_grad();
      side.ranks->backward(side.loss(samples_of(step, c.rank())), 4);
      side.optimizer->step();
    }
    EXPECT_EQ(side.ranks->join(), 1);
    expect_all_near(parameters_of(side.net), parameters_of(alone.net), 1e-4);  // and running statistics
  });
}

class TableNet : public nn::Module {
 public:
  nn::Embedding& table = add<nn::Embedding>("table", 300, 4, std::nullopt, GradientForm::rows);

 protected:
  Value forward(Value indices) override { return mean(table(std::move(indices))); }
};

TEST(DistributedJoin, holds_for_gradients_that_are_rows) {
  const auto loss = [](SideOf<TableNet>& side, int step, int rank) {
    const std::int64_t words[] = {10 * rank + step, 7};
    return Tensor(side.net(eager::from_host(side.session, std::span<const std::int64_t>(words), {2})));
  };
  const auto made = [](CommunicationThread* c) {
    auto side = std::make_unique<SideOf<TableNet>>(nullptr);
    side->optimizer.reset();
    side->net.materialise(side->session);
    if (c) {
      side->ranks = std::make_unique<DataParallel>(side->session, *c);
      side->ranks->pack(side->net);
    }
    side->optimizer = optim::make("sgd", optim::all_in_one(side->net.parameters()));
    if (c) side->ranks->attach(side->net, *side->optimizer);
    return side;
  };
  const auto alone = made(nullptr);
  for (int step = 0; step < 3; ++step) {
    alone->optimizer->zero_grad();
    if (step < 1) (loss(*alone, step, 0) * 0.5).backward();
    (loss(*alone, step, 1) * (step < 1 ? 0.5 : 1.0)).backward();
    alone->optimizer->step();
  }
  run_communicating_ranks(2, [&](CommunicationThread& c) {
    const auto side = made(&c);
    for (int step = 0; step < (c.rank() == 0 ? 1 : 3); ++step) {
      side->optimizer->zero_grad();
      side->ranks->backward(loss(*side, step, c.rank()));
      side->optimizer->step();
    }
    EXPECT_EQ(side->ranks->join(), 1);
    expect_all_near(parameters_of(side->net), parameters_of(alone->net));
  });
}

TEST(DistributedJoin, a_rank_that_ends_without_it_is_named_with_the_steps_of_both) {
  std::atomic<int> told = 0;
  run_communicating_ranks(3, [&](CommunicationThread& c) {
    Side side(&c);
    for (int step = 0; step < (c.rank() == 2 ? 2 : 4); ++step) {
      try {
        side.optimizer->zero_grad();
        side.ranks->backward(side.loss(samples_of(step, c.rank())) * 0.25);
        side.optimizer->step();
        side.ranks->merge({.weight = 1});  // what the step's mean loss is taken from
      } catch (const CommError& e) {
        EXPECT_STREQ(e.what(),
                     "all-reduce of the gradients of second.bias ... first.weight: rank 2 of 3 on localhost has ended (after step 2); this rank is at step 3; "
                     "accepted: join() for uneven loops");
        ++told;
        return;
      }
    }
  });
  EXPECT_EQ(told, 2);
}

TEST(DistributedJoin, what_ended_the_last_step_is_told_at_the_end) {
  ::testing::internal::CaptureStderr();
  run_communicating_ranks(2, [&](CommunicationThread& c) {
    Side side(&c);
    for (int step = 0; step < 1 + c.rank(); ++step) {
      side.optimizer->zero_grad();
      side.ranks->backward(side.loss(samples_of(step, c.rank())) * 0.25);
      side.optimizer->step();
    }
  });
  EXPECT_NE(::testing::internal::GetCapturedStderr().find(
                "rank 0 of 2 on localhost has ended (after step 1); this rank is at step 2; accepted: join() for uneven loops\n"),
            std::string::npos);
}

TEST(DistributedJoin, is_refused_where_it_has_nothing_to_join) {
  run_communicating_ranks(1, [](CommunicationThread& c) {
    Session session(opencl::Device::open({}), 1);
    DataParallel ranks(session, c);
    EXPECT_EQ(message_of<UsageError>([&] { ranks.join(); }), "join: no model is attached; accepted: behind attach()");
    Side alone(&c);
    EXPECT_EQ(alone.ranks->join(), 0);
    parallel::horovod::NamedCollectives cycles(c, {.cycle_ms = 0.2});
    DataParallel in_cycles(session, c, {.horovod = &cycles});
    EXPECT_EQ(message_of<UsageError>([&] { in_cycles.join(); }), "join: Horovod carries the gradients; accepted: its own join()");
  });
}

/// @return rank 0's parameters behind join() and a broadcast of the last one's
List trained_by_horovod(const Steps& steps, const DistributedOptimizerOptions& options, bool joins = true) {
  List out;
  run_communicating_ranks(static_cast<int>(steps.size()), [&](CommunicationThread& c) {
    Session session(opencl::Device::open({}), 3);
    Horovod hvd;
    hvd.init(session, c, {.cycle_ms = 0.2});
    OwnLoopNet net;
    net.materialise(session);
    DistributedOptimizer optimizer(hvd, net, "momentum", options);
    for (int step = 0; step < steps[at(c.rank())]; ++step) {
      optimizer.zero_grad();
      optimizer.backward(loss_of(session, net, samples_of(step, c.rank())) * 0.25);
      optimizer.step();
    }
    if (joins) {
      const int last = hvd.join();
      EXPECT_EQ(steps[at(last)], most(steps));
      hvd.broadcast_parameters(net, last);
    }
    if (c.rank() == 0) out = parameters_of(net);
    hvd.shutdown();
  });
  return out;
}

TEST(HorovodJoin, means_are_over_the_ranks_that_have_data) {
  std::vector<Steps> all{{3, 1}, {1, 2, 4}};
  if (is_full_run()) all.insert(all.end(), {{2, 4}, {2, 2}, {3, 0, 2}});
  for (const Steps& steps : all) {
    SCOPED_TRACE(steps[0]);
    expect_all_near(trained_by_horovod(steps, {}), trained_alone(steps));
    expect_all_near(trained_by_horovod(steps, {.compression = WireFormat::fp16}), trained_alone(steps), 2e-2);  // 11 bits of each gradient
  }
}

TEST(HorovodJoin, a_rank_that_ends_without_it_is_named_with_the_steps_of_both) {
  ::testing::internal::CaptureStderr();
  trained_by_horovod({1, 2}, {}, false);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(": rank 0 of 2 on localhost has ended (after step 1); this rank is at step 2; accepted: join() for uneven loops\n"), std::string::npos)
      << said;
}

}  // namespace
}  // namespace gemel::distributed
