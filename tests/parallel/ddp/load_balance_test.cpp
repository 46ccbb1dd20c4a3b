// Shares of a batch by rate: the split itself, what is learnt from steps, and training on ranks whose rates are simulated by sleeping.
#include "parallel/ddp/load_balance.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <thread>

#include "datasets/loading/data_loader.h"
#include "datasets/loading/shard.h"
#include "datasets/pictures/picture_dataset.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"
#include "frontends/distributed/data_parallel.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "frontends/train/trainer.h"
#include "opencl/device/device.h"
#include "tests/support/device/test_device.h"
#include "tests/support/ranks/communicating_ranks.h"

namespace gemel::parallel {
namespace {

using Shares = std::vector<std::int64_t>;
using List = std::vector<double>;

double step_of(const Shares& shares, const List& seconds) {
  double out = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) out = std::max(out, static_cast<double>(shares[r]) * seconds[r]);
  return out;
}

/// Of every split in whole samples.
double best_step(std::int64_t samples, const List& seconds, std::int64_t least) {
  double best = 1e300;
  Shares shares(seconds.size(), least);
  const std::function<void(std::size_t, std::int64_t)> each = [&](std::size_t r, std::int64_t left) {
    if (r + 1 == shares.size()) {
      shares[r] = left;
      best = std::min(best, step_of(shares, seconds));
      return;
    }
    for (shares[r] = least; left - shares[r] >= least * std::ssize(shares) - least * static_cast<std::int64_t>(r + 1); ++shares[r])
      each(r + 1, left - shares[r]);
  };
  each(0, samples);
  return best;
}

TEST(LoadBalancer, splits_whole_samples_so_that_no_split_is_done_sooner) {
  for (const List& seconds : {List{1, 1}, List{1, 2}, List{1, 5}, List{1, 20}, List{3, 1, 2}, List{1, 1, 50}, List{0.7, 1.3, 2.9}})
    for (const std::int64_t samples : {3, 7, 12, 13, 40})
      for (const std::int64_t least : {0, 1}) {
        const Shares shares = split_by_time(samples, seconds, least);
        std::int64_t all = 0;
        for (const std::int64_t s : shares) {
          EXPECT_GE(s, least);
          all += s;
        }
        EXPECT_EQ(all, samples);
        EXPECT_DOUBLE_EQ(step_of(shares, seconds), best_step(samples, seconds, least)) << fmt::format("{} samples, {} ranks", samples, seconds.size());
      }
  EXPECT_EQ(split_by_time(12, List{1, 20}, 0), (Shares{12, 0})) << "one sample would take longer than all the others";
}

/// Steps of ranks that take so long for a sample, and each so much more. @return seconds of each
struct Simulated {
  LoadBalancer balance;
  List step(const List& seconds) {
    List out;
    std::vector<LoadBalancer::Seen> seen;
    for (std::size_t r = 0; r < seconds.size(); ++r) seen.push_back({balance.shares()[r], static_cast<double>(balance.shares()[r]) * seconds[r]});
    for (const LoadBalancer::Seen& s : seen) out.push_back(s.seconds);
    (void)balance.saw(seen);
    return out;
  }
};

TEST(LoadBalancer, finds_the_best_split_in_a_few_steps_and_follows_a_rate_that_changes) {
  Simulated job{LoadBalancer(2, 64, {})};
  EXPECT_EQ(job.balance.shares(), (Shares{32, 32}));
  for (int i = 0; i < 4; ++i) job.step({1, 3});
  EXPECT_EQ(job.balance.shares(), (Shares{48, 16}));
  for (int i = 0; i < 3; ++i) job.step({1, 3});
  for (int i = 0; i < 2; ++i) job.step({3, 1});
  EXPECT_EQ(job.balance.shares(), (Shares{16, 48})) << "in one change, since each new number of samples builds kernels";
}

TEST(LoadBalancer, stays_as_it_is_where_short_steps_vary) {
  Simulated job{LoadBalancer(2, 32, {})};
  PhiloxStream draws(1, 0);
  const auto about = [&] { return 1e-4 * (1 + 0.01 * static_cast<double>(draws.below(40))); };  // up to 40 % more
  for (int i = 0; i < 100; ++i) job.step({about(), about()});
  int changes = 0;
  for (int i = 0; i < 500; ++i) {
    const Shares before = job.balance.shares();
    job.step({about(), about()});
    changes += before != job.balance.shares();
  }
  EXPECT_LE(changes, 2);
  EXPECT_LE(step_of(job.balance.shares(), {1, 1}), 18);
}

TEST(LoadBalancer, one_slow_step_changes_nothing) {
  Simulated job{LoadBalancer(2, 64, {})};
  for (int i = 0; i < 50; ++i) job.step({1, i % 5 == 4 ? 3.0 : 1.0});
  EXPECT_EQ(job.balance.shares(), (Shares{32, 32}));
}

TEST(LoadBalancer, learns_where_every_other_batch_is_a_smaller_one_that_is_shared_evenly) {
  LoadBalancer balance(2, 64, {});
  const auto step = [&](const Shares& samples) {
    std::vector<LoadBalancer::Seen> seen;
    for (std::size_t r = 0; r < 2; ++r) seen.push_back({samples[r], static_cast<double>(samples[r]) * (r == 0 ? 1 : 20)});
    (void)balance.saw(seen);
  };
  for (int i = 0; i < 4; ++i) {
    step(balance.shares());
    step({4, 4});
  }
  EXPECT_LE(step_of(balance.shares(), {1, 20}), 1.1 * best_step(64, {1, 20}, 0));
  for (int i = 0; i < 120 && balance.shares()[1] == 0; ++i) {
    step(balance.shares());
    step({4, 4});
  }
  EXPECT_GT(balance.shares()[1], 0) << "the even shares of small batches are no trial";
}

TEST(LoadBalancer, stays_as_it_is_where_rates_vary_by_little) {
  Simulated job{LoadBalancer(2, 64, {})};
  for (int i = 0; i < 50; ++i) job.step({1 + 0.03 * (i % 2), 1.02});
  EXPECT_EQ(job.balance.shares(), (Shares{32, 32}));
}

TEST(LoadBalancer, a_rank_that_lengthens_the_step_gets_nothing_and_is_tried_again_later) {
  Simulated job{LoadBalancer(2, 8, {})};
  for (int i = 0; i < 6; ++i) job.step({1, 20});
  EXPECT_EQ(job.balance.shares(), (Shares{8, 0}));
  for (int i = 0; i < 120; ++i) job.step({1, 1});  // it has recovered
  EXPECT_LE(step_of(job.balance.shares(), {1, 1}), 5);
  Simulated normed{LoadBalancer(2, 8, {.least = 1})};
  for (int i = 0; i < 6; ++i) normed.step({1, 20});
  EXPECT_EQ(normed.balance.shares(), (Shares{7, 1})) << "where each rank needs one";
}

TEST(LoadBalancer, a_rank_that_is_tried_again_gets_a_sample_of_each_micro_batch) {
  constexpr std::int64_t kMicroBatches = 8;
  LoadBalancer balance(2, 64, {.of_trial = kMicroBatches});
  double slower = 50;
  const auto step = [&] {
    std::vector<LoadBalancer::Seen> seen;
    for (int r = 0; r < 2; ++r) {
      std::int64_t samples = 0;
      for (const datasets::SampleRun& run : datasets::shard_of(64, kMicroBatches, r, 2, balance.shares())) samples += run.count;
      seen.push_back({samples, static_cast<double>(samples) * (r == 0 ? 1 : slower)});
    }
    (void)balance.saw(seen);
  };
  for (int i = 0; i < 6; ++i) step();
  ASSERT_LT(balance.shares()[1], 4) << "a share that rounds to no sample of a micro-batch";
  slower = 1;
  for (int i = 0; i < 120; ++i) step();
  EXPECT_EQ(balance.shares(), (Shares{32, 32}));
}

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class Net : public nn::Module {
 public:
  nn::Linear& first = add<nn::Linear>("first", 48, 8);
  nn::Dropout& dropout = add<nn::Dropout>("dropout", 0.5);
  nn::Linear& second = add<nn::Linear>("second", 8, 10);

 protected:
  Value forward(Value x) override { return second(dropout(relu(first(flatten_(std::move(x)))))); }

 private:
  nn::Flatten flatten_;
};

/// Sleeps for each sample, as a slow device would take.
class SlowTask : public train::ClassificationTask {
 public:
  SlowTask(nn::Module& module, std::function<std::chrono::microseconds()> for_a_sample)
      : ClassificationTask(module, 10), for_a_sample_(std::move(for_a_sample)) {}
  train::Outcome forward(const train::Inputs& batch) override {
    std::this_thread::sleep_for(for_a_sample_() * batch["images"].shape()[0]);
    return ClassificationTask::forward(batch);
  }

 private:
  std::function<std::chrono::microseconds()> for_a_sample_;
};

struct Recorder : train::Reporter {
  List losses;
  std::vector<Clock::time_point> begins;
  void step_begins() override { begins.push_back(Clock::now()); }
  void step_done(const train::StepReport& r) override { losses.push_back(r.loss); }
};

constexpr std::int64_t kBatch = 24;

/// @param for_a_sample  [rank] at a step
Recorder trained(int ranks, std::int64_t steps, const std::function<std::chrono::microseconds(int rank, std::size_t step)>& for_a_sample) {
  std::vector<Recorder> recorders(at(ranks));
  testing::run_communicating_ranks(ranks, [&](CommunicationThread& c) {
    Session session(opencl::Device::open({}), 3);
    Recorder& recorder = recorders[at(c.rank())];
    const datasets::Splits data = datasets::open_dataset({.input = {3, 4, 4}, .limit = 490});
    datasets::DataLoader loader(*data.train, {.batch_size = kBatch, .seed = 7, .rank = c.rank(), .ranks = c.size(), .prefetch = 2});
    Net net;
    net.materialise(session);
    SlowTask task(net, [&] { return for_a_sample(c.rank(), recorder.begins.size()); });
    distributed::DataParallel shared(
        session, c, {.balance = distributed::Balancing{.batch = kBatch, .changed = [&](const LoadBalancer& balance) { loader.share(balance.shares()); }}});
    shared.pack(net);
    const auto optimizer = optim::make("momentum", optim::all_in_one(net.parameters()));
    shared.attach(net, *optimizer);
    train::Trainer(train::Run{session, task, *optimizer, loader, nullptr, nullptr, &recorder, &shared}, {.steps = steps, .rate = 1e-3}).run();
  });
  return recorders[0];
}

double median_step(const Recorder& r, std::size_t from) {
  List seconds;
  for (std::size_t i = from; i + 1 < r.begins.size(); ++i) seconds.push_back(std::chrono::duration<double>(r.begins[i + 1] - r.begins[i]).count());
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

#ifdef __SANITIZE_THREAD__
constexpr bool kIsTimed = false;  // its checks take longer than the sleeping
#else
constexpr bool kIsTimed = true;
#endif

TEST(LoadBalancer, trains_in_the_time_of_the_best_split_and_to_the_losses_of_one_process) {
  constexpr auto kQuick = 2000us;  // for a sample
  const auto best_of = [&](double slower) { return 1e-6 * static_cast<double>(kQuick.count()) * best_step(kBatch, {1, slower}, 0); };
  const Recorder alone = trained(1, 30, [](int, std::size_t) { return 0us; });
  // Once of five times, beyond what a step takes that does not sleep: what else runs on the machine only lengthens steps.
  const auto expect_in_time = [&](double best, std::size_t from, const std::function<Recorder()>& train) {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; kIsTimed && i < 5 && least > 1.1 * best; ++i) {
      const double own = median_step(trained(2, 30, [](int, std::size_t) { return 0us; }), 15);
      least = std::min(least, median_step(train(), from) - own);
    }
    EXPECT_LE(kIsTimed ? least : 0, 1.1 * best);
  };
  for (const int slower : testing::is_full_run() ? std::vector{1, 2, 5, 20} : std::vector{2, 20}) {
    SCOPED_TRACE(fmt::format("1:{}", slower));
    Recorder job;
    const auto train = [&] { return job = trained(2, 30, [&](int rank, std::size_t) { return rank == 1 ? slower * kQuick : kQuick; }); };
    expect_in_time(best_of(slower), 15, train);
    if (!kIsTimed) train();
    ASSERT_EQ(job.losses.size(), alone.losses.size());
    for (std::size_t i = 0; i < alone.losses.size(); ++i) EXPECT_NEAR(job.losses[i], alone.losses[i], 1e-5 * alone.losses[i]) << "step " << i + 1;
  }
  SCOPED_TRACE("the other rank is the slow one from step 21 on");
  expect_in_time(best_of(4), 36, [&] { return trained(2, 50, [&](int rank, std::size_t step) { return (rank == 1) == (step > 20) ? 4 * kQuick : kQuick; }); });
}

}  // namespace
}  // namespace gemel::parallel
