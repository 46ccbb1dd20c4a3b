// Data parallel training on ranks that are threads of this process, against one process with the same batches.
#include "frontends/distributed/data_parallel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "datasets/loading/data_loader.h"
#include "datasets/pictures/picture_dataset.h"
#include "engine/base/error.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "frontends/train/trainer.h"
#include "opencl/device/device.h"
#include "parallel/transport/clock_offset.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks/communicating_ranks.h"
#include "tests/support/temporary_folder.h"

namespace gemel::distributed {
namespace {

using parallel::Algorithm;
using parallel::CommunicationThread;
using testing::message_of;
using train::Frontend;
using List = std::vector<double>;

/// Two layers with dropout between them; the third is used where it is said so.
class DropoutNet : public nn::Module {
 public:
  bool uses_third = false;
  nn::Linear& first = add<nn::Linear>("first", 48, 24);
  nn::Linear& second = add<nn::Linear>("second", 24, 10);
  nn::Linear& third = add<nn::Linear>("third", 24, 10);

 protected:
  Value forward(Value x) override {
    const Value hidden = dropout_(relu(first(flatten_(std::move(x)))));
    return uses_third ? second(hidden) + third(hidden) : second(hidden);
  }

 private:
  nn::Flatten flatten_;
  nn::Dropout& dropout_ = add<nn::Dropout>("dropout", 0.5);
};

/// One layer normalised by its batch's statistics; the third is used where it is said so.
class NormedNet : public nn::Module {
 public:
  bool uses_third = false;
  nn::Linear& first = add<nn::Linear>("first", 48, 24);
  nn::BatchNorm2d& norm = add<nn::BatchNorm2d>("norm", 24);
  nn::Linear& second = add<nn::Linear>("second", 24, 10);
  nn::Linear& third = add<nn::Linear>("third", 24, 10);

 protected:
  Value forward(Value x) override {
    const Value hidden = relu(norm(first(flatten_(std::move(x)))));
    return uses_third ? second(hidden) + third(hidden) : second(hidden);
  }

 private:
  nn::Flatten flatten_;
};

enum class Model { net, normed, lenet };

struct ReplicasJob {
  Model model = Model::net;
  std::string optimizer = "momentum";
  double rate = 1e-3;
  Frontend frontend = Frontend::eager;
  std::int64_t batch_size = 12, samples = 40, accumulate = 1, epochs = 2;
  double clip_norm = 0;
  bool freezes_first = false;
  int uses_third = -1;  // the rank that does
  parallel::ReducerOptions reducer{};
  std::optional<Algorithm> algorithm{};
  Replicas replicas = Replicas::kept;
  bool recomputes = false;  // the layer that is normalised
  std::filesystem::path checkpoint_dir{};
  std::int64_t steps = 0;
  std::optional<parallel::horovod::Options> horovod{};

  Shape input() const { return model == Model::lenet ? Shape{3, 32, 32} : Shape{3, 4, 4}; }
};

std::unique_ptr<nn::Module> made(const ReplicasJob& job, Session& session, int rank) {
  if (job.model == Model::lenet) return models::make("lenet", {.classes = 10}, session);
  if (job.model == Model::normed) {
    auto net = std::make_unique<NormedNet>();
    if (job.recomputes) net->norm.set_recompute(nn::Recompute::yes);
    net->uses_third = job.uses_third == rank;
    net->materialise(session);
    return net;
  }
  auto net = std::make_unique<DropoutNet>();
  net->uses_third = job.uses_third == rank;
  net->materialise(session);
  if (job.freezes_first) net->first.freeze();
  return net;
}

/// What a run came to.
struct ReplicasCourse {
  List losses;                        // of each step
  List validation;                    // of each epoch
  List metrics;                       // of each epoch's validation
  std::vector<std::byte> parameters;  // of rank 0, at the end
  std::vector<float> buffers;         // likewise
};

struct ReplicasRecorder : train::Reporter {
  ReplicasCourse course;
  void step_done(const train::StepReport& r) override { course.losses.push_back(r.loss); }
  void epoch_done(const train::EpochReport& r, nlohmann::ordered_json&) override {
    course.validation.push_back(*r.validation_loss);
    course.metrics.push_back(r.validation_metrics[0].value);
  }
};

/// Each rank has a device of its own: a queue that one of them holds back holds no other.
std::shared_ptr<opencl::Device> own_device() { return opencl::Device::open({}); }

/// The whole job of one rank; alone where there is no communication.
ReplicasCourse trained(const ReplicasJob& job, CommunicationThread* communication) {
  Session session(own_device(), 3);
  const int rank = communication ? communication->rank() : 0, ranks = communication ? communication->size() : 1;
  const datasets::Splits data = datasets::open_dataset({.input = job.input(), .limit = job.samples});
  datasets::DataLoader loader(*data.train,
                              {.batch_size = job.batch_size, .seed = 7, .rank = rank, .ranks = ranks, .micro_batches = job.accumulate, .workers = 0});
  datasets::DataLoaderOptions in_order = datasets::in_file_order(job.batch_size);
  in_order.rank = rank;
  in_order.ranks = ranks;
  datasets::DataLoader validation(*data.validation, in_order);
  const auto model = made(job, session, rank);
  train::ClassificationTask task(*model, 10);
  const Shape picture = job.input();
  const Specs inputs{f32({job.batch_size, picture[1], picture[2], picture[0]}), i64({job.batch_size})};
  std::unique_ptr<parallel::horovod::NamedCollectives> horovod;
  std::optional<DataParallel> shared;
  if (communication) {
    if (job.horovod) horovod = std::make_unique<parallel::horovod::NamedCollectives>(*communication, *job.horovod);
    shared.emplace(session, *communication,
                   DataParallelOptions{.reducer = job.reducer, .replicas = job.replicas, .norm = NormOver::batch, .horovod = horovod.get()});
    shared->pack(task, inputs);
  } else {
    train::pack_parameters(session, task, inputs);
  }
  const auto optimizer = optim::make(job.optimizer, optim::all_in_one(model->parameters()));
  if (shared) shared->attach(*model, *optimizer);
  ReplicasRecorder recorder;
  train::Run run{session, task, *optimizer, loader, &validation, nullptr, &recorder, shared ? &*shared : nullptr};
  train::TrainerOptions options{.epochs = job.epochs,
                                .steps = job.steps,
                                .rate = job.rate,
                                .clip_norm = job.clip_norm,
                                .checkpoint_dir = job.checkpoint_dir,
                                .step = {.frontend = job.frontend, .accumulate = job.accumulate}};
  train::Trainer trainer(run, options);
  if (!job.checkpoint_dir.empty()) trainer.resume();
  trainer.run();
  if (shared) {
    shared->join_model();
    shared->check_same();
  }
  const ParameterSet state = model->parameters();
  for (const NamedValue& p : state.parameters()) {
    const auto bytes = read_bytes(p.value);
    recorder.course.parameters.insert(recorder.course.parameters.end(), bytes.begin(), bytes.end());
  }
  for (const NamedValue& b : state.buffers())
    if (b.value.dtype() == DType::float32) {
      const auto numbers = read(b.value);
      recorder.course.buffers.insert(recorder.course.buffers.end(), numbers.begin(), numbers.end());
    }
  return recorder.course;
}

ReplicasCourse alone(const ReplicasJob& job) { return trained(job, nullptr); }

/// What rank 0 saw; all must have seen the same losses.
ReplicasCourse on_ranks(int ranks, const ReplicasJob& job, std::vector<std::string> hosts = {}) {
  std::vector<ReplicasCourse> courses(static_cast<std::size_t>(ranks));
  testing::run_communicating_ranks(
      ranks, [&](CommunicationThread& c) { courses[static_cast<std::size_t>(c.rank())] = trained(job, &c); }, std::move(hosts), job.algorithm);
  for (const ReplicasCourse& c : courses) {
    EXPECT_EQ(c.losses, courses[0].losses);
    EXPECT_EQ(c.validation, courses[0].validation);
    EXPECT_EQ(c.parameters, courses[0].parameters);
  }
  return courses[0];
}

/// Sums of float32 in another order: 1e-5 of a loss after some steps of momentum at 1e-3, ten times as much with Adam, whose first steps
/// depend on the sign of each gradient alone.
void expect_same_course(const ReplicasCourse& actual, const ReplicasCourse& expected, double relative = 1e-5) {
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  ASSERT_GT(expected.losses.size(), 0u);
  for (std::size_t i = 0; i < expected.losses.size(); ++i) EXPECT_NEAR(actual.losses[i], expected.losses[i], relative * expected.losses[i]) << "step " << i + 1;
  ASSERT_EQ(actual.validation.size(), expected.validation.size());
  for (std::size_t i = 0; i < expected.validation.size(); ++i) EXPECT_NEAR(actual.validation[i], expected.validation[i], relative * expected.validation[i]);
}

constexpr const char* kFull = "with --full";

class DataParallelInBothFrontEnds : public ::testing::TestWithParam<Frontend> {};
INSTANTIATE_TEST_SUITE_P(Each, DataParallelInBothFrontEnds, ::testing::Values(Frontend::eager, Frontend::graph),
                         [](const auto& given) { return std::string(train::to_string(given.param)); });

TEST_P(DataParallelInBothFrontEnds, trains_as_one_process_on_any_number_of_ranks) {
  const ReplicasJob job{.frontend = GetParam()};
  const ReplicasCourse expected = alone(job);
  for (const int ranks : testing::is_full_run() ? std::vector{1, 2, 3, 4} : std::vector{1, 3}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    const ReplicasCourse shared = on_ranks(ranks, job);
    expect_same_course(shared, expected);
    EXPECT_EQ(shared.metrics, expected.metrics);
  }
}

TEST_P(DataParallelInBothFrontEnds, trains_convolutions_as_one_process) {
  const ReplicasJob job{.model = Model::lenet, .frontend = GetParam(), .samples = 24, .epochs = 1};
  expect_same_course(on_ranks(2, job), alone(job));
}

TEST_P(DataParallelInBothFrontEnds, trains_as_one_process_with_shards_that_are_empty) {
  const ReplicasJob job{.frontend = GetParam(), .batch_size = 13, .samples = 28};  // batches of 13, 13 and 2
  expect_same_course(on_ranks(3, job), alone(job));
}

TEST_P(DataParallelInBothFrontEnds, clips_and_accumulates_as_one_process) {
  const ReplicasJob job{.frontend = GetParam(), .batch_size = 7, .samples = 14, .accumulate = 3, .clip_norm = 0.1};
  expect_same_course(on_ranks(3, job), alone(job));
}

TEST_P(DataParallelInBothFrontEnds, trains_what_is_not_frozen) {
  const ReplicasJob job{.frontend = GetParam(), .freezes_first = true};
  expect_same_course(on_ranks(2, job), alone(job));
}

TEST_P(DataParallelInBothFrontEnds, normalises_over_the_whole_batch) {
  ReplicasJob job{.model = Model::normed, .frontend = GetParam(), .batch_size = 13, .samples = 42};  // shards of 5, 4 and 4, of 1 each in the last batch
  const ReplicasCourse expected = alone(job);
  for (const bool recomputes : testing::is_full_run() ? std::vector{false, true} : std::vector{GetParam() == Frontend::graph}) {
    job.recomputes = recomputes;
    const ReplicasCourse shared = on_ranks(3, job);
    expect_same_course(shared, expected);
    ASSERT_EQ(shared.buffers.size(), expected.buffers.size());
    for (std::size_t i = 0; i < expected.buffers.size(); ++i) EXPECT_NEAR(shared.buffers[i], expected.buffers[i], 1e-5 * (1 + std::abs(expected.buffers[i])));
  }
}

TEST_P(DataParallelInBothFrontEnds, trains_as_one_process_where_rank_0_alone_updates) {
  ReplicasJob job{.optimizer = "adam", .frontend = GetParam(), .batch_size = 13, .samples = 28, .replicas = Replicas::copied_each_step};  // an empty shard
  expect_same_course(on_ranks(3, job), alone(job), 1e-4);
  job.optimizer = "momentum";
  job.accumulate = 2;
  job.clip_norm = 0.1;
  expect_same_course(on_ranks(2, job), alone(job));
}

TEST_P(DataParallelInBothFrontEnds, trains_in_horovods_cycles_as_one_process) {
  const parallel::horovod::Options quick{.cycle_ms = 0.2};
  ReplicasJob job{.frontend = GetParam()};
  const ReplicasCourse expected = alone(job);
  job.horovod = quick;
  for (const int ranks : testing::is_full_run() ? std::vector{1, 2, 4} : std::vector{4}) expect_same_course(on_ranks(ranks, job), expected);
  job.horovod->fusion_bytes = 0;
  expect_same_course(on_ranks(3, job), expected);
  ReplicasJob all{.model = Model::normed, .frontend = GetParam(), .accumulate = 2, .clip_norm = 0.05};
  const ReplicasCourse cut = alone(all);
  all.horovod = quick;
  expect_same_course(on_ranks(2, all), cut);
}

TEST_P(DataParallelInBothFrontEnds, trains_with_adam) {
  if (!testing::is_full_run()) GTEST_SKIP() << kFull;
  const ReplicasJob job{.optimizer = "adam", .frontend = GetParam()};
  expect_same_course(on_ranks(2, job), alone(job), 1e-4);
}

TEST(DataParallel, a_parameter_that_one_rank_uses_is_updated_on_all) {
  const ReplicasJob job{.uses_third = 1};
  const ReplicasCourse unused = on_ranks(2, {}), used = on_ranks(2, job);  // where the ranks' parameters are compared
  EXPECT_NE(used.parameters, unused.parameters);
  ReplicasJob normed{.model = Model::normed, .uses_third = 1};  // what normalises communicates in the backward pass, too
  normed.reducer.buckets = {1, 1};
  EXPECT_NE(on_ranks(2, normed).parameters, on_ranks(2, {.model = Model::normed}).parameters);
  ReplicasJob captured = job;
  captured.frontend = Frontend::graph;
  EXPECT_EQ(message_of<UsageError>([&] { on_ranks(2, captured); }),
            "ranks: third.weight has a gradient on another rank and none on this one, in a captured step; accepted: the eager front end");
}

TEST(DataParallel, a_gradient_that_is_not_finite_is_named_with_its_parameter_and_rank) {
  ReplicasJob job{.rate = 1e30};
  job.reducer.check_finite = true;
  const std::string message = message_of<Error>([&] { on_ranks(2, job); });
  EXPECT_NE(message.find("ranks: the gradient of "), std::string::npos) << message;
  EXPECT_NE(message.find("(localhost); accepted: finite numbers"), std::string::npos) << message;
}

TEST(DataParallel, in_horovods_cycles_updates_what_one_rank_uses_and_names_what_is_not_finite) {
  ReplicasJob job{.uses_third = 1};
  job.horovod = parallel::horovod::Options{.cycle_ms = 0.2};
  ReplicasJob none;
  none.horovod = job.horovod;
  EXPECT_NE(on_ranks(2, job).parameters, on_ranks(2, none).parameters);
  job.frontend = Frontend::graph;
  EXPECT_EQ(message_of<UsageError>([&] { on_ranks(2, job); }),
            "ranks: third.weight has a gradient on another rank and none on this one, in a captured step; accepted: the eager front end");
  ReplicasJob grows{.rate = 1e30};
  grows.horovod = job.horovod;
  grows.reducer.check_finite = true;
  const std::string message = message_of<Error>([&] { on_ranks(2, grows); });
  EXPECT_NE(message.find("ranks: the gradient of "), std::string::npos) << message;
}

TEST(DataParallel, in_horovods_cycles_has_the_same_bits_with_two_bytes_on_the_wire_in_both_front_ends) {
  ReplicasJob job{.algorithm = Algorithm::tree};
  job.horovod = parallel::horovod::Options{.cycle_ms = 0.2};
  job.reducer.compression.kind = parallel::CompressionOptions::Kind::float16;
  const ReplicasCourse eager = on_ranks(2, job);
  job.frontend = Frontend::graph;
  EXPECT_EQ(on_ranks(2, job).parameters, eager.parameters);
  expect_same_course(eager, alone({}), 1e-3);  // of gradients that float16 rounds
}

TEST(DataParallel, has_the_same_bits_in_both_front_ends_and_for_every_bucket_size) {
  ReplicasJob job{.algorithm = Algorithm::tree};
  const ReplicasCourse expected = on_ranks(3, job);
  for (const Frontend frontend : {Frontend::eager, Frontend::graph})
    for (const std::int64_t bytes : testing::is_full_run() ? std::vector<std::int64_t>{1, 10'000, 25 << 20} : std::vector<std::int64_t>{10'000, 25 << 20}) {
      job.frontend = frontend;
      job.reducer.buckets = {bytes, bytes};
      const ReplicasCourse course = on_ranks(3, job);
      EXPECT_EQ(course.losses, expected.losses) << train::to_string(frontend) << " " << bytes;
      EXPECT_EQ(course.parameters, expected.parameters);
    }
}

TEST(DataParallel, trains_as_one_process_across_machines_by_each_algorithm) {
  if (!testing::is_full_run()) GTEST_SKIP() << kFull;
  ReplicasJob job{.samples = 24, .epochs = 1};
  const ReplicasCourse expected = alone(job);
  for (const Algorithm a : {Algorithm::ring, Algorithm::tree, Algorithm::hierarchical}) {
    job.algorithm = a;
    expect_same_course(on_ranks(3, job, {"a", "a", "b"}), expected);
  }
}

TEST(DataParallel, trains_with_gradients_that_travel_in_two_bytes) {
  if (!testing::is_full_run()) GTEST_SKIP() << kFull;
  ReplicasJob job{.samples = 24, .epochs = 1};
  const ReplicasCourse expected = alone(job);
  // A gradient's relative error of 2^-9 moves a weight by 2^-9 of a step of 1e-3 or less.
  using Kind = parallel::CompressionOptions::Kind;
  for (const Kind kind : {Kind::float16, Kind::bfloat16}) {
    job.reducer.compression.kind = kind;
    const ReplicasCourse course = on_ranks(2, job);
    expect_same_course(course, expected, 1e-4);
    EXPECT_NE(course.parameters, expected.parameters);
  }
}

TEST(DataParallel, that_sends_the_largest_gradients_goes_on_as_if_it_had_not_stopped) {
  const testing::TemporaryFolder folder;
  ReplicasJob job{.samples = 36, .epochs = 0, .steps = 6};
  const ReplicasCourse exact = alone(job);
  job.reducer.compression = {parallel::CompressionOptions::Kind::top_k, 0.05};
  const ReplicasCourse whole = on_ranks(2, job);
  expect_same_course(whole, exact, 0.05);
  EXPECT_NE(whole.parameters, exact.parameters);
  job.checkpoint_dir = folder.path();
  job.steps = 4;
  List losses = on_ranks(2, job).losses;
  job.steps = 6;
  const ReplicasCourse rest = on_ranks(2, job);
  losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
  EXPECT_EQ(losses, whole.losses);
  EXPECT_EQ(rest.parameters, whole.parameters);
}

TEST(DataParallel, that_sends_all_gradients_as_the_largest_trains_as_one_process) {
  ReplicasJob job{.samples = 24, .epochs = 1};
  const ReplicasCourse expected = alone(job);
  job.reducer.compression = {parallel::CompressionOptions::Kind::top_k, 1};
  expect_same_course(on_ranks(3, job), expected);
}

TEST(DataParallel, goes_on_from_a_checkpoint_with_another_number_of_ranks) {
  const testing::TemporaryFolder folder;
  ReplicasJob job{.samples = 36, .epochs = 0, .checkpoint_dir = folder.path(), .steps = 4};
  const ReplicasCourse first = on_ranks(2, job);
  job.steps = 6;
  const ReplicasCourse rest = on_ranks(3, job);
  ReplicasJob whole = job;
  whole.checkpoint_dir.clear();
  const ReplicasCourse expected = alone(whole);
  List losses = first.losses;
  losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
  ASSERT_EQ(losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected.losses[i], 1e-5 * expected.losses[i]);
}

TEST(DataParallel, clocks_of_other_machines_are_brought_to_rank_0s) {
  std::vector<std::int64_t> leads(3, -1);
  testing::run_communicating_ranks(3,
                                   [&](CommunicationThread& c) {
                                     leads[static_cast<std::size_t>(c.rank())] =
                                         c.run([](parallel::Collectives& all) { return parallel::clock_lead_ns(all.communicator()); });
                                   },
                                   {"a", "a", "b"});
  EXPECT_EQ(leads[0], 0);
  EXPECT_EQ(leads[1], 0);
  EXPECT_NE(leads[2], -1);
  EXPECT_LT(std::abs(leads[2]), 50'000'000) << "one clock, and messages that scheduling may delay";
}

TEST(DataParallel, ranks_that_differ_are_listed) {
  std::vector<std::string> messages(3);
  testing::run_communicating_ranks(3, [&](CommunicationThread& c) {
    messages[static_cast<std::size_t>(c.rank())] = message_of<CommError>([&] {
      std::vector<Setting> settings{{"seed", "1"}, {"model", c.rank() == 1 ? "vgg16" : "lenet"}};
      if (c.rank() == 2) settings.push_back({"extra", "on"});
      require_same(c, settings);
    });
  });
  for (const std::string& m : messages)
    EXPECT_EQ(m,
              "ranks: they do not run the same; accepted: on every rank the same value of\n  model:\n    ranks 0, 2: lenet\n    rank 1: vgg16\n"
              "  extra:\n    rank 2: on\n    2 of 3 ranks: none");
}

}  // namespace
}  // namespace gemel::distributed
