// A user's own loop on ranks that are threads of this process: gradients against those of one process with all samples.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks/communicating_ranks.h"
#include "tests/support/ranks/custom_training_loop.h"

namespace gemel::distributed {
namespace {

using namespace testing;
using List = std::vector<double>;
using eager::Tensor;
using parallel::CommunicationThread;

void expect_near_all(const List& actual, const List& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-6 + 1e-5 * std::abs(expected[i])) << "element " << i;
}

/// Gradients of one process after passes over these samples, each of the mean loss.
List mean_gradients(const std::vector<Samples>& passes) {
  Side alone(nullptr);
  for (const Samples& s : passes) (alone.loss(s) * (1.0 / static_cast<double>(s.count()))).backward();
  return gradients_of(*alone.optimizer);
}

TEST(DistributedBackward, gives_every_rank_the_gradients_of_the_mean_of_the_losses) {
  const List expected = mean_gradients({{0, 12}});
  run_communicating_ranks(3, [&](CommunicationThread& c) {
    Side side(&c);
    side.ranks->backward(side.loss({4 * c.rank(), 4 * c.rank() + 4}) * 0.25);
    expect_near_all(gradients_of(*side.optimizer), expected);
  });
}

TEST(DistributedBackward, sums_gradients_behind_the_pass_where_statistics_are_over_the_batch) {
  run_communicating_ranks(2, [&](CommunicationThread& communication) {
    Side side(&communication, {.norm = NormOver::batch});
    side.ranks->backward(side.loss({3 * communication.rank(), 3 * communication.rank() + 3}) * (1.0 / 3));
    expect_near_all(gradients_of(*side.optimizer), mean_gradients({{0, 6}}));
  });
}

TEST(DistributedBackward, adds_to_gradients_that_are_there_as_in_one_process) {
  const List expected = mean_gradients({{0, 8}, {8, 16}});
  run_communicating_ranks(2, [&](CommunicationThread& c) {
    Side side(&c);
    for (const std::int64_t begin : {0, 8}) side.ranks->backward(side.loss({begin + 4 * c.rank(), begin + 4 * c.rank() + 4}) * 0.25);
    expect_near_all(gradients_of(*side.optimizer), expected);
  });
}

TEST(DistributedBackward, adds_up_without_communication_under_no_sync) {
  const List expected = mean_gradients({{0, 8}, {8, 16}});
  run_communicating_ranks(2, [&](CommunicationThread& c) {
    Side side(&c);
    {
      const DataParallel::NoSync no_sync(*side.ranks);
      side.ranks->backward(side.loss({4 * c.rank(), 4 * c.rank() + 4}) * 0.25);
      Side alone(nullptr);
      (alone.loss({4 * c.rank(), 4 * c.rank() + 4}) * 0.25).backward();
      expect_near_all(gradients_of(*side.optimizer), gradients_of(*alone.optimizer));
    }
    side.ranks->backward(side.loss({8 + 4 * c.rank(), 12 + 4 * c.rank()}) * 0.25);
    expect_near_all(gradients_of(*side.optimizer), expected);
  });
}

TEST(DistributedBackward, of_sums_and_weights_is_exact_for_shards_of_any_length) {
  const List expected = mean_gradients({{0, 9}});
  const Samples shards[3][2] = {{{0, 1}, {1, 5}}, {{5, 7}, {7, 9}}, {{9, 9}, {9, 9}}};  // rank 2 has none
  run_communicating_ranks(3, [&](CommunicationThread& c) {
    Side side(&c);
    const auto pass = [&](const Samples& s) {
      if (s.count() > 0)
        side.ranks->backward(side.loss(s), static_cast<double>(s.count()));
      else
        side.ranks->backward({}, 0);
    };
    for (int step = 0; step < 2; ++step) {
      side.optimizer->zero_grad();
      {
        const DataParallel::NoSync no_sync(*side.ranks);
        pass(shards[c.rank()][0]);
      }
      pass(shards[c.rank()][1]);
      expect_near_all(gradients_of(*side.optimizer), expected);
    }
  });
}

TEST(DistributedBackward, of_masked_samples_and_after_a_step_that_was_given_up_counts_what_is_there) {
  const List expected = mean_gradients({{0, 8}});
  run_communicating_ranks(2, [&](CommunicationThread& c) {
    Side side(&c);
    {
      const DataParallel::NoSync no_sync(*side.ranks);
      side.ranks->backward(side.loss({0, 3}), 3);
    }
    side.optimizer->zero_grad();  // given up
    {
      const DataParallel::NoSync no_sync(*side.ranks);
      side.ranks->backward(side.loss({8, 9}) * 0.0, 0);  // all masked
    }
    side.ranks->backward(side.loss({4 * c.rank(), 4 * c.rank() + 4}), 4);
    expect_near_all(gradients_of(*side.optimizer), expected);
  });
}

TEST(DistributedBackward, tells_in_a_later_step_what_ended_the_communication) {
  std::vector<std::string> said(2);
  const auto run = [&](CommunicationThread& c) {
    Side side(&c, {.reducer = {.check_finite = true}});
    for (int step = 0; step < 1000; ++step) {
      side.optimizer->zero_grad();
      const double factor = c.rank() == 1 ? std::numeric_limits<double>::infinity() : 1;
      side.ranks->backward(side.loss({0, 4}) * factor);
      gradients_of(*side.optimizer);  // waits
    }
  };
  EXPECT_THROW(run_communicating_ranks(2,
                                       [&](CommunicationThread& c) {
                                         try {
                                           run(c);
                                         } catch (const Error& e) {
                                           said[at(c.rank())] = e.what();
                                           throw;
                                         }
                                       }),
               CommError);
  EXPECT_EQ(said[0], "rank 1 failed");
  EXPECT_NE(said[1].find("ranks: the gradient of "), std::string::npos) << said[1];
  EXPECT_NE(said[1].find(" on rank 1 (localhost); accepted: finite numbers"), std::string::npos) << said[1];
}

TEST(DistributedBackward, trains_alike_on_all_ranks_from_rank_0s_parameters) {
  Side alone(nullptr);
  for (int step = 0; step < 5; ++step) {
    alone.optimizer->zero_grad();
    (alone.loss({0, 9}) * (1.0 / 9)).backward();
    alone.optimizer->step();
  }
  run_communicating_ranks(2, [&](CommunicationThread& c) {
    Side side(&c);
    for (int step = 0; step < 5; ++step) {
      side.optimizer->zero_grad();
      side.ranks->backward(side.loss(c.rank() == 0 ? Samples{0, 5} : Samples{5, 9}), c.rank() == 0 ? 5 : 4);
      side.optimizer->step();
    }
    side.ranks->check_same();
    for (const char* name : {"first.weight", "second.bias"}) expect_near_all(read(*side.net.parameters().find(name)), read(*alone.net.parameters().find(name)));
  });
}

TEST(DistributedBackward, leaves_what_is_frozen_and_what_no_rank_used) {
  run_communicating_ranks(2, [&](CommunicationThread& c) {
    Side side(&c);
    side.net.first.freeze();
    side.ranks->backward(side.loss({4 * c.rank(), 4 * c.rank() + 4}));
    EXPECT_FALSE(side.net.parameters().find("first.weight")->node()->accumulated);
    EXPECT_TRUE(side.net.parameters().find("second.weight")->node()->accumulated);
    side.optimizer->zero_grad();
    side.ranks->backward({}, 0);
    EXPECT_FALSE(side.net.parameters().find("second.weight")->node()->accumulated);
  });
}

TEST(DistributedBackward, says_what_it_does_not_take) {
  run_communicating_ranks(2, [&](CommunicationThread& c) {
    Side side(&c);
    const auto loss = [&] { return side.loss({0, 2}); };
    EXPECT_EQ(message_of<UsageError>([&] { side.ranks->backward(loss(), -1); }), "backward: the weight is -1; accepted: 0 or more");
    side.ranks->backward(loss());
    EXPECT_EQ(message_of<UsageError>([&] { side.ranks->backward(loss(), 2); }),
              "backward: grad() holds gradients of an earlier step, which were divided by its weight; accepted: zero_grad() before a step's first pass");
    side.optimizer->zero_grad();
    const DataParallel::NoSync no_sync(*side.ranks);
    side.ranks->backward(loss(), 2);
    EXPECT_EQ(message_of<UsageError>([&] { side.ranks->backward(loss()); }),
              "backward: the loss has no weight, and that of a pass under NoSync had one; accepted: a weight in every pass of a step, or in none");
    Side copied(&c, {.replicas = Replicas::copied_each_step});
    EXPECT_EQ(message_of<UsageError>([&] {
                copied.ranks->backward(copied.loss({0, 2}));
              }),
              "backward: replicas are copied in each step; accepted: a Trainer, or replicas that are kept");
  });
}

/// What a checkpoint of ranks under top-k keeps, and what other ranks make of it.
TEST(RanksState, goes_on_with_residuals_on_other_ranks_and_with_limits_on_the_same) {
  const parallel::Limits limits{{{0, parallel::Algorithm::tree}, {12345, parallel::Algorithm::ring}}, 777};
  const DataParallelOptions options{.reducer = {.compression = {parallel::CompressionOptions::Kind::top_k, 0.1}}};
  train::RunState saved{.step = 5};
  run_communicating_ranks(3, [&](CommunicationThread& c) {
    Side side(&c, options);
    c.run([&](parallel::Collectives& all) {
      all.set_limits(limits);
      for (float& x : side.ranks->reducer().residual(0)) x = static_cast<float>(1 + c.rank());
    });
    auto state = side.ranks->state();
    if (c.rank() == 0)
      saved.ranks = std::move(state);
    else
      EXPECT_TRUE(state.tensors.empty());
  });
  EXPECT_EQ(saved.ranks.tensors.size(), 4u) << "two weights, two biases";
  for (const int ranks : {1, 2, 3})
    run_communicating_ranks(ranks, [&](CommunicationThread& c) {
      Side side(&c, options);
      train::RunState state = c.rank() == 0 ? saved : train::RunState();
      side.ranks->join_state(side.net, *side.optimizer, state);
      EXPECT_EQ(state.step, 5);
      c.run([&](parallel::Collectives& all) {
        EXPECT_EQ(all.limits() == limits, ranks == 3) << ranks << " ranks";
        const float expected = ranks == 1 ? 1 + 2 + 3 : ranks == 2 && c.rank() == 0 ? 1 + 3 : static_cast<float>(1 + c.rank());
        for (const float x : side.ranks->reducer().residual(0)) EXPECT_EQ(x, expected) << ranks << " ranks, rank " << c.rank();
      });
    });
}

}  // namespace
}  // namespace gemel::distributed
