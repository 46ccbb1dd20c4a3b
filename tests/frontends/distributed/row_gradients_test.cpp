// Tables whose gradients travel as rows: training on ranks that are threads of this process, against one process with the same batches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "datasets/loading/data_loader.h"
#include "datasets/texts/synthetic_texts.h"
#include "engine/base/error.h"
#include "engine/gradients/row_gradient.h"
#include "engine/ops/ops.h"
#include "frontends/distributed/data_parallel.h"
#include "frontends/eager/eager.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "frontends/train/trainer.h"
#include "opencl/device/device.h"
#include "parallel/ddp/sparse_all_reduce.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks/communicating_ranks.h"

namespace gemel::distributed {
namespace {

using parallel::CommunicationThread;
using testing::message_of;
using train::Frontend;
using List = std::vector<double>;

constexpr std::int64_t kVocabulary = 300, kWidth = 6, kLength = 4;

/// Of which samples of a batch.
enum class Part { none, second_half, all };

/// The mean of a text's words. Logits of some samples may be multiplied by a number that is made of the whole table, which makes its gradient dense.
class Words : public nn::Module {
 public:
  explicit Words(GradientForm form) : table(add<nn::Embedding>("table", kVocabulary, kWidth, std::nullopt, form)) {}
  Part uses_whole_table = Part::none;
  nn::Embedding& table;
  nn::Linear& layer = add<nn::Linear>("layer", kWidth, 2);

 protected:
  Values forward_values(Values in) override {
    const Value logits = layer(mean(table(in[0]), {1}));
    if (uses_whole_table == Part::none) return {logits};
    const Value factor = mean(square(table.weight().tensor()));
    if (uses_whole_table == Part::all) return {logits * factor};
    const std::int64_t half = logits.shape()[0] / 2;
    return {concatenate({slice(logits, {0, 0}, {half, 2}), slice(logits, {half, 0}, {2 * half, 2}) * factor}, 0)};
  }
};

struct RowsJob {
  GradientForm form = GradientForm::dense;
  std::string optimizer = "adam";
  Frontend frontend = Frontend::eager;
  std::int64_t batch_size = 8, samples = 20, accumulate = 1, epochs = 2;
  double clip_norm = 0;
  bool second_half_uses_table = false;
  parallel::ReducerOptions reducer{};
  Replicas replicas = Replicas::kept;
  std::optional<parallel::horovod::Options> horovod{};
};

struct RowsCourse {
  List losses, parameters, slots;
  bool table_in_a_bucket = false;
};

struct LossRecorder : train::Reporter {
  List losses;
  void step_done(const train::StepReport& r) override { losses.push_back(r.loss); }
};

RowsCourse trained(const RowsJob& job, CommunicationThread* communication) {
  Session session(opencl::Device::open({}), 3);
  const int rank = communication ? communication->rank() : 0, ranks = communication ? communication->size() : 1;
  const datasets::TextSplits data = datasets::synthetic_texts({.vocabulary = kVocabulary, .length = kLength, .samples = job.samples});
  datasets::DataLoader loader(*data.train,
                              {.batch_size = job.batch_size, .seed = 7, .rank = rank, .ranks = ranks, .micro_batches = job.accumulate, .workers = 0});
  Words model(job.form);
  if (job.second_half_uses_table) model.uses_whole_table = ranks == 1 ? Part::second_half : rank == 1 ? Part::all : Part::none;
  model.materialise(session);
  train::ClassificationTask task(model, 2, {.tensors = {"ids", "types"}});
  const Specs inputs{i64({job.batch_size, kLength}), i64({job.batch_size, kLength}), i64({job.batch_size})};
  std::unique_ptr<parallel::horovod::NamedCollectives> horovod;
  std::optional<DataParallel> shared;
  if (communication) {
    if (job.horovod) horovod = std::make_unique<parallel::horovod::NamedCollectives>(*communication, *job.horovod);
    shared.emplace(session, *communication, DataParallelOptions{.reducer = job.reducer, .replicas = job.replicas, .horovod = horovod.get()});
    shared->pack(task, inputs);
  } else {
    train::pack_parameters(session, task, inputs);
  }
  const auto optimizer = optim::make(job.optimizer, optim::no_decay_on_rows(optim::all_in_one(model.parameters())));
  if (shared) shared->attach(model, *optimizer);
  LossRecorder recorder;
  train::Trainer trainer({session, task, *optimizer, loader, nullptr, nullptr, &recorder, shared ? &*shared : nullptr},
                         {.epochs = job.epochs, .rate = 1e-2, .clip_norm = job.clip_norm, .step = {.frontend = job.frontend, .accumulate = job.accumulate}});
  trainer.run();
  RowsCourse out{recorder.losses, {}, {}};
  if (shared) {
    shared->join_model();
    shared->check_same();
    for (const parallel::Bucket& b : shared->reducer().buckets())
      for (const std::size_t p : b.parameters) out.table_in_a_bucket |= optimizer->parameters()[p].name == "table.weight";
  }
  const auto append = [](List& to, const Value& v) { std::ranges::copy(read(v), std::back_inserter(to)); };
  for (const NamedValue& p : model.parameters().parameters()) append(out.parameters, p.value);
  for (const NamedValue& s : optimizer->state())
    if (s.name.ends_with("table.weight")) append(out.slots, s.value);
  return out;
}

RowsCourse rows_alone(const RowsJob& job) { return trained(job, nullptr); }

RowsCourse rows_on_ranks(int ranks, const RowsJob& job) {
  std::vector<RowsCourse> courses(static_cast<std::size_t>(ranks));
  testing::run_communicating_ranks(ranks, [&](CommunicationThread& c) { courses[static_cast<std::size_t>(c.rank())] = trained(job, &c); });
  for (const RowsCourse& c : courses)
    if (job.replicas == Replicas::kept) {
      EXPECT_EQ(c.parameters, courses[0].parameters);
    }
  return courses[0];
}

/// Sums of float32 in another order: 1e-5 of a loss, as for dense gradients; weights after ten steps of Adam, each as long as the rate 1e-2
/// whatever the gradient's size, differ by 1e-2 of a step.
void expect_same(const RowsCourse& actual, const RowsCourse& expected) {
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) EXPECT_NEAR(actual.losses[i], expected.losses[i], 1e-5 * expected.losses[i]) << "step " << i + 1;
  for (std::size_t i = 0; i < expected.parameters.size(); ++i) ASSERT_NEAR(actual.parameters[i], expected.parameters[i], 1e-4) << i;
  ASSERT_EQ(actual.slots.size(), expected.slots.size());
  for (std::size_t i = 0; i < expected.slots.size(); ++i) ASSERT_NEAR(actual.slots[i], expected.slots[i], 1e-6) << i;
}

class RowsOfRanks : public ::testing::TestWithParam<std::tuple<Frontend, GradientForm>> {
 protected:
  RowsJob job() const { return {.form = std::get<1>(GetParam()), .frontend = std::get<0>(GetParam())}; }
};
INSTANTIATE_TEST_SUITE_P(Each, RowsOfRanks,
                         ::testing::Combine(::testing::Values(Frontend::eager, Frontend::graph), ::testing::Values(GradientForm::dense, GradientForm::rows)),
                         [](const auto& given) {
                           return fmt::format("{}_{}", train::to_string(std::get<0>(given.param)),
                                              std::get<1>(given.param) == GradientForm::rows ? "moves_rows" : "moves_all");
                         });

TEST_P(RowsOfRanks, a_table_travels_as_rows_and_is_trained_as_by_one_process) {
  const RowsCourse expected = rows_alone(job()), shared = rows_on_ranks(3, job());
  EXPECT_FALSE(shared.table_in_a_bucket);
  expect_same(shared, expected);
}

TEST_P(RowsOfRanks, shards_that_are_empty_give_no_rows) {
  RowsJob job = this->job();
  job.batch_size = 9;  // batches of 9, 9 and 2
  expect_same(rows_on_ranks(3, job), rows_alone(job));
}

TEST_P(RowsOfRanks, micro_batches_and_clipping_are_those_of_one_process) {
  RowsJob job = this->job();
  job.accumulate = 2;
  job.clip_norm = 0.05;
  expect_same(rows_on_ranks(2, job), rows_alone(job));
}

TEST_P(RowsOfRanks, horovods_cycles_carry_rows) {
  RowsJob job = this->job();
  const RowsCourse expected = rows_alone(job);
  job.horovod = parallel::horovod::Options{.cycle_ms = 0.2};
  const RowsCourse shared = rows_on_ranks(2, job);
  EXPECT_FALSE(shared.table_in_a_bucket);
  expect_same(shared, expected);
}

TEST_P(RowsOfRanks, rank_0_alone_may_update) {
  RowsJob job = this->job();
  const RowsCourse expected = rows_alone(job);
  job.replicas = Replicas::copied_each_step;
  expect_same(rows_on_ranks(2, job), expected);
}

TEST(RowsOfRanksOnce, tables_of_fewer_rows_than_are_looked_up_are_reduced_whole) {
  RowsJob job;
  job.batch_size = 100;  // 400 of 300 rows
  job.samples = 100;
  EXPECT_TRUE(rows_on_ranks(2, job).table_in_a_bucket);
}

TEST(RowsOfRanksOnce, a_second_sum_without_zero_grad_is_refused) {
  testing::run_communicating_ranks(1, [](CommunicationThread& c) {
    Session session(opencl::Device::open({}), 3);
    Words model(GradientForm::rows);
    model.materialise(session);
    DataParallel shared(session, c);
    shared.pack(model);
    const auto optimizer = optim::make("sgd", optim::all_in_one(model.parameters()));
    shared.attach(model, *optimizer);
    const std::int64_t words[] = {5};
    const auto backward = [&] { shared.backward(eager::Tensor(sum(model.table(eager::from_host(session, std::span<const std::int64_t>(words), {1}))))); };
    backward();
    EXPECT_EQ(message_of<UsageError>(backward),
              "backward: grad() of table.weight holds the rows of an earlier step; accepted: zero_grad() before a step's first pass");
    optimizer->zero_grad();
    backward();
  });
}

TEST(RowsOfRanksOnce, compressed_gradients_are_reduced_whole) {
  RowsJob job;
  job.reducer.compression.kind = parallel::CompressionOptions::Kind::float16;
  EXPECT_TRUE(rows_on_ranks(2, job).table_in_a_bucket);
}

TEST(RowsOfRanksOnce, a_table_that_one_rank_uses_otherwise_is_summed_whole) {
  const RowsJob job{.optimizer = "sgd", .second_half_uses_table = true};  // of batches of 8, 8 and 4: the shards of rank 1
  const RowsCourse shared = rows_on_ranks(2, job);
  EXPECT_FALSE(shared.table_in_a_bucket);
  expect_same(shared, rows_alone(job));
}

TEST(RowsOfRanksOnce, a_gradient_that_is_not_finite_is_named) {
  RowsJob job{.optimizer = "sgd"};
  job.reducer.check_finite = true;
  EXPECT_NO_THROW(rows_on_ranks(2, job));
  testing::run_communicating_ranks(1, [](CommunicationThread& c) {
    Session session(opencl::Device::open({}), 3);
    Words model(GradientForm::rows);
    model.materialise(session);
    DataParallel shared(session, c, {.reducer = {.check_finite = true}});
    shared.pack(model);
    const auto optimizer = optim::make("sgd", optim::all_in_one(model.parameters()));
    shared.attach(model, *optimizer);
    const std::int64_t words[] = {5, 7};
    const eager::Tensor loss(sum(sqrt(model.table(eager::from_host(session, std::span<const std::int64_t>(words), {2})) - 1e9)));
    const std::string message = message_of<Error>([&] {
      for (int k = 0; k < 3; ++k) {  // a later step tells
        optimizer->zero_grad();
        shared.backward(k == 0 ? loss : eager::Tensor(sum(model.table.weight().tensor())), 1.0);
        read(model.layer.parameters().parameters()[0].value);
      }
    });
    EXPECT_NE(message.find("ranks: the gradient of table.weight has "), std::string::npos) << message;
  });
}

TEST(RowsOfRanksOnce, factors_of_gradients_and_tables_that_move_rows_alone_exclude_each_other) {
  testing::run_communicating_ranks(1, [](CommunicationThread& c) {
    Session session(opencl::Device::open({}), 3);
    Words model(GradientForm::rows);
    model.materialise(session);
    parallel::horovod::NamedCollectives horovod(c, {});
    DataParallel shared(session, c, {.horovod = &horovod, .prescale = 0.5});
    shared.pack(model);
    const auto optimizer = optim::make("sgd", optim::all_in_one(model.parameters()));
    EXPECT_EQ(message_of<UsageError>([&] { shared.attach(model, *optimizer); }),
              "ranks: the gradient of table.weight is rows, and gradients are scaled by 0.5 and 1; accepted: factors of 1");
  });
}

TEST(RowsOfRanksOnce, a_users_own_loop_moves_the_rows_that_some_rank_meets) {
  std::vector<List> tables(2);
  testing::run_communicating_ranks(2, [&](CommunicationThread& c) {
    Session session(opencl::Device::open({}), 3);
    Words model(GradientForm::rows);
    model.materialise(session);
    DataParallel shared(session, c);
    shared.pack(model);
    const auto optimizer = optim::make("sgd", optim::all_in_one(model.parameters()));
    shared.attach(model, *optimizer);
    optimizer->set_rate(1);
    const List before = read(model.table.weight().tensor());
    const std::int64_t words[] = {c.rank(), 7};
    shared.backward(eager::Tensor(sum(model.table(eager::from_host(session, std::span<const std::int64_t>(words), {2})))), 1.0);
    EXPECT_TRUE(eager::Tensor(model.table.weight().tensor()).grad().is_sparse());
    optimizer->step();
    List after = read(model.table.weight().tensor());
    for (std::size_t i = 0; i < after.size(); ++i) after[i] -= before[i];
    tables[static_cast<std::size_t>(c.rank())] = after;
  });
  EXPECT_EQ(tables[0], tables[1]);
  for (std::int64_t row = 0; row < kVocabulary; ++row)  // half of the sum of all: row 7 is met by both
    EXPECT_NEAR(tables[0][static_cast<std::size_t>(row * kWidth)], row == 7 ? -1 : row < 2 ? -0.5 : 0, 1e-6) << row;
}

TEST(RowsOfRanksOnce, rows_add_up_in_the_order_of_ranks) {
  testing::run_communicating_ranks(3, [](CommunicationThread& c) {
    c.run([](parallel::Collectives& all) {
      const int rank = all.rank();
      std::vector<float> table(4 * 2, 9.0f);
      parallel::RowsGiven mine{{1, rank, 4, -1}, {1e8f * static_cast<float>(rank - 1), 1, 2, 3, 5, 5, 5, 5}};  // rows 4 and -1 are none
      const auto met = parallel::sum_over_ranks(all, mine, {table, 4, 2});
      EXPECT_EQ(met, (std::vector<std::int64_t>{0, 1, 2, -1}));
      EXPECT_EQ(table, (std::vector<float>{2, 3, 1e8f + (-1e8f + 0 + 2), 6, 2, 3, 0, 0}));
      if (rank == 1) mine = {.all = true};
      table.assign(table.size(), 1);
      EXPECT_EQ(parallel::sum_over_ranks(all, mine, {table, 4, 2}), (std::vector<std::int64_t>{0, 1, 2, 3}));
      // Rank 1's table of ones, and the rows of the two others, in whatever order an all-reduce adds.
      const std::vector<float> expected{1 + 2, 1 + 3, 1 + (-1e8f + 1e8f), 1 + 1 + 1, 1 + 2, 1 + 3, 1, 1};
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(table[i], expected[i], i == 2 ? 8 : 0) << i;  // the distance of numbers at 1e8
    });
  });
}

}  // namespace
}  // namespace gemel::distributed
