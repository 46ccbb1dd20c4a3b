// Pipelines on ranks that are threads of this process, trained by a Trainer, against one process with the same batches.
#include "frontends/distributed/pipeline/pipeline.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "datasets/loading/data_loader.h"
#include "datasets/pictures/picture_dataset.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "frontends/distributed/pipeline/model_cut.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "frontends/train/trainer.h"
#include "opencl/device/device.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks/communicating_ranks.h"
#include "tests/support/temporary_folder.h"

namespace gemel::distributed {
namespace {

using parallel::CommunicationThread;
using parallel::ScheduleKind;
using testing::message_of;
using train::Frontend;
using List = std::vector<double>;
using Modules = std::vector<std::string>;

/// A chain with dropout, whose layer "shared" is used before and behind the middle.
class PipelineNet : public nn::Module {
 public:
  nn::Linear& first = add<nn::Linear>("first", 48, 24);
  nn::Linear& shared = add<nn::Linear>("shared", 24, 24);
  nn::Linear& middle = add<nn::Linear>("middle", 24, 24);
  nn::Linear& last = add<nn::Linear>("last", 24, 10);
  bool uses_twice = false;
  nn::Linear* again = nullptr;

  /// A further layer behind the middle, whose weight is that of "shared".
  void add_tied() {
    again = &add<nn::Linear>("again", 24, 24);
    tie(again->weight(), shared.weight());
  }

 protected:
  Value forward(Value x) override {
    Value y = middle(relu(shared(dropout_(relu(first(flatten_(std::move(x))))))));
    if (uses_twice) y = shared(relu(y));
    if (again) y = (*again)(relu(y));
    return last(relu(y));
  }

 private:
  nn::Flatten flatten_;
  nn::Dropout& dropout_ = add<nn::Dropout>("dropout", 0.5);
};

struct PipelineJob {
  Frontend frontend = Frontend::eager;
  Modules cuts{};
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int stages = 1, virtual_stages = 1;
  std::int64_t micro_batches = 1;
  std::string optimizer = "momentum";
  double clip_norm = 0;
  bool uses_twice = false, freezes_first = false, ties = false;
  std::int64_t batch_size = 12, samples = 40, steps = 10;
  std::filesystem::path checkpoint_dir{};
};

struct PipelineCourse {
  List losses, validation;
  std::map<std::string, std::vector<std::byte>> state;  // of rank 0, at the end
};

struct PipelineRecorder : train::Reporter {
  PipelineCourse course;
  void step_done(const train::StepReport& r) override { course.losses.push_back(r.loss); }
  void epoch_done(const train::EpochReport& r, nlohmann::ordered_json&) override { course.validation.push_back(*r.validation_loss); }
};

/// Alone where there is no communication.
PipelineCourse trained(const PipelineJob& job, CommunicationThread* communication) {
  Session session(opencl::Device::open({}), 3);
  const int ranks = communication ? communication->size() : 1, copies = communication ? ranks / job.stages : 1;
  const int copy = communication ? communication->rank() / job.stages : 0;
  const datasets::Splits data = datasets::open_dataset({.input = {3, 4, 4}, .limit = job.samples});
  datasets::DataLoader loader(*data.train, {.batch_size = job.batch_size, .seed = 7, .rank = copy, .ranks = copies, .workers = 0});
  datasets::DataLoaderOptions in_order = datasets::in_file_order(job.batch_size);
  in_order.rank = copy;
  in_order.ranks = copies;
  datasets::DataLoader validation(*data.validation, in_order);
  PipelineNet net;
  net.uses_twice = job.uses_twice;
  if (job.ties) net.add_tied();
  if (job.freezes_first) net.first.freeze();
  train::ClassificationTask task(net, 10);
  std::optional<Pipeline> pipeline;
  std::unique_ptr<optim::Optimizer> optimizer;
  const std::int64_t each = std::max<std::int64_t>(1, job.batch_size / copies / job.micro_batches);
  if (communication) {
    pipeline.emplace(session, *communication, task, Specs{f32({each, 4, 4, 3}), i64({each})},
                     PipelinePlan{.cuts = job.cuts,
                                  .shape = {job.schedule, job.stages, job.virtual_stages, static_cast<int>(job.micro_batches)},
                                  .options = {.frontend = job.frontend}});
    optimizer = optim::make(job.optimizer, pipeline->groups());
    pipeline->attach(*optimizer);
  } else {
    net.materialise(session);
    optimizer = optim::make(job.optimizer, optim::all_in_one(net.parameters()));
  }
  PipelineRecorder recorder;
  train::Run run{session, task, *optimizer, loader, &validation, nullptr, &recorder, pipeline ? &*pipeline : nullptr, pipeline ? &*pipeline : nullptr};
  train::Trainer trainer(
      run, {.steps = job.steps, .rate = 1e-3, .clip_norm = job.clip_norm, .checkpoint_dir = job.checkpoint_dir, .step = {.frontend = job.frontend}});
  if (!job.checkpoint_dir.empty()) trainer.resume();
  trainer.run();
  for (nn::StateEntry& e : pipeline ? pipeline->whole_state() : nn::state_dict(net)) recorder.course.state[e.name] = std::move(e.bytes);
  return recorder.course;
}

PipelineCourse without_pipeline(const PipelineJob& job) { return trained(job, nullptr); }

PipelineCourse through_pipeline(int ranks, const PipelineJob& job) {
  std::vector<PipelineCourse> courses(at(ranks));
  testing::run_communicating_ranks(ranks, [&](CommunicationThread& c) { courses[at(c.rank())] = trained(job, &c); });
  for (const PipelineCourse& c : courses) {
    EXPECT_EQ(c.losses, courses[0].losses);
    EXPECT_EQ(c.validation, courses[0].validation);
  }
  return courses[0];
}

void expect_same_course(const PipelineCourse& actual, const PipelineCourse& expected) {
  ASSERT_GT(expected.losses.size(), 0u);
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  ASSERT_EQ(actual.validation.size(), expected.validation.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) EXPECT_NEAR(actual.losses[i], expected.losses[i], 1e-5 * expected.losses[i]) << "step " << i + 1;
  for (std::size_t i = 0; i < expected.validation.size(); ++i) EXPECT_NEAR(actual.validation[i], expected.validation[i], 1e-5 * expected.validation[i]);
  ASSERT_EQ(actual.state.size(), expected.state.size());
  for (const auto& [name, bytes] : expected.state) {
    const auto* a = reinterpret_cast<const float*>(actual.state.at(name).data());
    const auto* b = reinterpret_cast<const float*>(bytes.data());
    for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i) ASSERT_NEAR(a[i], b[i], 1e-5) << name << " " << i;
  }
}

class PipelineInBothFrontEnds : public ::testing::TestWithParam<Frontend> {};
INSTANTIATE_TEST_SUITE_P(Each, PipelineInBothFrontEnds, ::testing::Values(Frontend::eager, Frontend::graph),
                         [](const auto& given) { return std::string(train::to_string(given.param)); });

TEST_P(PipelineInBothFrontEnds, trains_as_one_process_with_any_schedule) {
  const PipelineCourse expected = without_pipeline({});
  const Modules cuts[] = {{"middle"}, {"shared", "last"}, {"dropout", "middle", "last"}};
  struct Arrangement {
    ScheduleKind schedule;
    int stages;
    std::int64_t micro_batches;
  };
  using enum ScheduleKind;
  std::vector<Arrangement> tried{{gpipe, 3, 4}, {one_f_one_b, 2, 1}, {one_f_one_b, 4, 5}};
  if (testing::is_full_run()) {
    tried.clear();
    for (const auto schedule : {gpipe, one_f_one_b})
      for (const int stages : {2, 3, 4})
        for (const std::int64_t m : {1, 4, 5}) tried.push_back({schedule, stages, m});
  }
  for (const auto& [schedule, stages, m] : tried) {
    SCOPED_TRACE(fmt::format("{} stages, {}, {} micro-batches", stages, parallel::to_string(schedule), m));
    expect_same_course(through_pipeline(stages, {.frontend = GetParam(), .cuts = cuts[stages - 2], .schedule = schedule, .stages = stages, .micro_batches = m}),
                       expected);
  }
  const PipelineJob of_two_pieces_each{.frontend = GetParam(), .cuts = cuts[2], .schedule = interleaved, .stages = 2, .virtual_stages = 2, .micro_batches = 4};
  expect_same_course(through_pipeline(2, of_two_pieces_each), expected);
}

TEST_P(PipelineInBothFrontEnds, two_copies_of_two_stages_train_as_one_process_also_with_shards_that_are_empty) {
  for (const std::int64_t samples : {std::int64_t{40}, std::int64_t{37}}) {  // the last batch of the second has one sample
    SCOPED_TRACE(fmt::format("{} samples", samples));
    expect_same_course(through_pipeline(4, {.frontend = GetParam(), .cuts = {"middle"}, .stages = 2, .micro_batches = 3, .samples = samples}),
                       without_pipeline({.samples = samples}));
  }
}

TEST_P(PipelineInBothFrontEnds, a_layer_that_two_stages_use_has_the_sum_of_their_gradients) {
  const PipelineCourse expected = without_pipeline({.uses_twice = true});
  expect_same_course(through_pipeline(2, {.frontend = GetParam(), .cuts = {"middle"}, .stages = 2, .micro_batches = 4, .uses_twice = true}), expected);
  const PipelineJob clipped{.frontend = GetParam(), .cuts = {"middle"}, .stages = 2, .micro_batches = 4, .clip_norm = 0.1, .uses_twice = true};
  expect_same_course(through_pipeline(2, clipped), without_pipeline({.clip_norm = 0.1, .uses_twice = true}));
}

TEST(Pipeline, a_tied_weight_on_two_stages_is_saved_once_and_resumed) {
  const PipelineJob one{.ties = true};
  expect_same_course(through_pipeline(2, {.cuts = {"middle"}, .stages = 2, .micro_batches = 4, .ties = true}), without_pipeline(one));
  const testing::TemporaryFolder folder;
  through_pipeline(2, {.cuts = {"middle"}, .stages = 2, .micro_batches = 4, .ties = true, .steps = 6, .checkpoint_dir = folder.path()});
  const PipelineCourse then = through_pipeline(2, {.cuts = {"shared"}, .stages = 2, .micro_batches = 2, .ties = true, .checkpoint_dir = folder.path()});
  const PipelineCourse whole = without_pipeline(one);
  ASSERT_EQ(then.losses.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(then.losses[i], whole.losses[6 + i], 1e-5 * whole.losses[6 + i]);
}

TEST(Pipeline, interleaved_takes_a_last_batch_and_shards_that_do_not_divide) {
  const PipelineJob job{
      .cuts = {"dropout", "middle", "last"}, .schedule = ScheduleKind::interleaved, .stages = 2, .virtual_stages = 2, .micro_batches = 4, .samples = 41};
  expect_same_course(through_pipeline(2, job), without_pipeline({.samples = 41}));  // five samples are left
  expect_same_course(through_pipeline(4, job), without_pipeline({.samples = 41}));  // shards of three and two
}

TEST(Pipeline, copies_of_a_single_stage_resume_what_the_first_one_read) {
  const testing::TemporaryFolder folder;
  through_pipeline(2, {.micro_batches = 2, .steps = 6, .checkpoint_dir = folder.path()});
  const PipelineCourse then = through_pipeline(2, {.micro_batches = 2, .checkpoint_dir = folder.path()}), whole = without_pipeline({});
  ASSERT_EQ(then.losses.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(then.losses[i], whole.losses[6 + i], 1e-5 * whole.losses[6 + i]);
}

TEST_P(PipelineInBothFrontEnds, a_stage_that_has_nothing_to_train_only_computes) {
  expect_same_course(through_pipeline(2, {.frontend = GetParam(), .cuts = {"shared"}, .stages = 2, .micro_batches = 2, .freezes_first = true}),
                     without_pipeline({.freezes_first = true}));
}

TEST(Pipeline, the_norm_that_limits_gradients_is_that_of_all_stages) {
  const PipelineCourse expected = without_pipeline({.clip_norm = 0.1});
  EXPECT_NE(expected.losses, without_pipeline({}).losses) << "it limits nothing";
  expect_same_course(through_pipeline(3, {.cuts = {"shared", "last"}, .stages = 3, .micro_batches = 4, .clip_norm = 0.1}), expected);
  expect_same_course(through_pipeline(4, {.cuts = {"middle"}, .stages = 2, .micro_batches = 4, .clip_norm = 0.1}), expected);
}

TEST(Pipeline, a_checkpoint_of_any_arrangement_is_resumed_by_any_other) {
  for (const std::string optimizer : {"momentum", "adam"}) {
    PipelineJob one{.optimizer = optimizer}, three{.cuts = {"shared", "last"}, .stages = 3, .micro_batches = 4, .optimizer = optimizer},
        two{.cuts = {"middle"}, .stages = 2, .micro_batches = 2, .optimizer = optimizer};
    PipelineCourse expected = without_pipeline(one);
    expected.losses.erase(expected.losses.begin(), expected.losses.begin() + 6);
    expected.validation.erase(expected.validation.begin(), expected.validation.end() - 2);
    const testing::TemporaryFolder folder;
    for (PipelineJob* job : {&one, &three, &two}) job->checkpoint_dir = folder.path();
    three.steps = 6;  // in the middle of the second epoch
    through_pipeline(3, three);
    const testing::TemporaryFolder again;
    std::filesystem::copy(folder.path(), again.path(), std::filesystem::copy_options::recursive);
    PipelineCourse alone_then = without_pipeline(one);
    alone_then.validation.erase(alone_then.validation.begin(), alone_then.validation.end() - 2);
    expect_same_course(alone_then, expected);
    two.checkpoint_dir = again.path();
    PipelineCourse two_then = through_pipeline(4, two);
    two_then.validation.erase(two_then.validation.begin(), two_then.validation.end() - 2);
    expect_same_course(two_then, expected);
  }
}

TEST(Pipeline, ranks_that_are_no_multiple_of_the_stages_are_refused) {
  testing::run_communicating_ranks(3, [](CommunicationThread& c) {
    Session session(opencl::Device::open({}), 3);
    PipelineNet net;
    train::ClassificationTask task(net, 10);
    EXPECT_EQ(message_of<UsageError>([&] {
                Pipeline(session, c, task, {f32({2, 4, 4, 3}), i64({2})}, PipelinePlan{.cuts = Modules{"middle"}, .shape = {ScheduleKind::gpipe, 2}});
              }),
              "pipeline: 2 stages on 3 ranks; accepted: a divisor of the ranks");
  });
}

TEST(Pipeline, a_copy_whose_shard_is_empty_takes_part_in_the_norm) {
  const PipelineJob clipped{.cuts = {"middle"}, .stages = 2, .micro_batches = 3, .clip_norm = 0.1, .samples = 37};  // the last batch has one sample
  expect_same_course(through_pipeline(4, clipped), without_pipeline({.clip_norm = 0.1, .samples = 37}));
}

TEST(Pipeline, memory_for_gradients_is_of_what_it_trains) {
  testing::run_communicating_ranks(2, [](CommunicationThread& c) {
    for (const bool trains : {true, false}) {
      Session session(opencl::Device::open({}), 3);
      PipelineNet net;
      net.first.freeze();
      train::ClassificationTask task(net, 10);
      Pipeline pipeline(session, c, task, {f32({2, 4, 4, 3}), i64({2})},
                        PipelinePlan{.cuts = Modules{"middle"}, .shape = {ScheduleKind::gpipe, 2}, .trains = trains});
      const ParameterSet held = net.materialised();
      for (const NamedValue& p : held.parameters())
        EXPECT_EQ(p.value.node() && p.value.node()->slab != nullptr, trains && !p.name.starts_with("first.")) << p.name;
    }
  });
}

/// In evaluation its last layer is what a module of the first stage is in training.
class UsesAnother : public nn::Module {
 public:
  nn::Linear& first = add<nn::Linear>("first", 48, 10);
  nn::Linear& last = add<nn::Linear>("last", 10, 10);

 protected:
  Value forward(Value x) override {
    Value y = last(first(flatten_(std::move(x))));
    return training() ? y : y + sum(first.weight().value);
  }

 private:
  nn::Flatten flatten_;
};

TEST(Pipeline, an_evaluation_that_uses_what_another_stage_holds_is_refused) {
  testing::run_communicating_ranks(2, [](CommunicationThread& c) {
    Session session(opencl::Device::open({}), 3);
    UsesAnother net;
    train::ClassificationTask task(net, 10);
    const auto make = [&] {
      Pipeline(session, c, task, {f32({2, 4, 4, 3}), i64({2})}, PipelinePlan{.cuts = Modules{"last"}, .shape = {ScheduleKind::gpipe, 2}});
    };
    if (c.rank() == 0) return make();
    EXPECT_EQ(message_of<UsageError>(make),
              "pipeline: stage 1 uses 'first.weight' in evaluation alone, and in training others do; accepted: cuts that leave it to one stage");
  });
}

TEST(PipelineCosts, cover_the_whole_model_and_its_parameters) {
  const auto model = models::make("vgg16", {.classes = 10});
  train::ClassificationTask task(*model, 10);
  const PipelineCosts costs = pipeline_costs(task, {f32({2, 32, 32, 3}), i64({2})});
  ASSERT_EQ(costs.units.size(), costs.modules.size());
  EXPECT_EQ(costs.units.size(), 16u) << "layers with parameters";
  std::int64_t parameters = 0;
  for (std::size_t u = 0; u < costs.units.size(); ++u) {
    parameters += costs.units[u].parameter_bytes;
    EXPECT_EQ(costs.units[u].boundary_bytes > 0, u + 1 < costs.units.size());
  }
  EXPECT_GE(parameters, model->parameter_elements() * 4);
  EXPECT_LE(parameters, model->parameter_elements() * 4 + 32 * 4096);  // whole pages
  const auto problem = partition_problem(costs, {.shape = {ScheduleKind::one_f_one_b, 2, 1, 4}, .memory_bytes = std::int64_t{1} << 40});
  EXPECT_EQ(cut_modules(costs, parallel::partition(problem).first).size(), 1u);
}

TEST(PipelineCosts, the_same_cut_is_found_on_every_rank_from_times_that_each_measures) {
  std::vector<Modules> found(2);
  std::vector<double> seconds(2);
  testing::run_communicating_ranks(2, [&](CommunicationThread& c) {
    Session session(opencl::Device::open({}), 3);
    PipelineNet net;
    train::ClassificationTask task(net, 10);
    const Specs micro_batch{f32({3, 4, 4, 3}), i64({3})};
    PipelineMeans means{.shape = {ScheduleKind::gpipe, 2, 1, 4}, .memory_bytes = std::int64_t{1} << 30};
    const MeasuredCuts cuts = balanced_cuts(session, c, task, micro_batch, means);
    found[at(c.rank())] = cuts.modules;
    seconds[at(c.rank())] = cuts.step_s;
    means.modules = cuts.modules;
    EXPECT_EQ(balanced_cuts(session, c, task, micro_batch, means).modules, cuts.modules) << "a cut that is given stays";
    for (const Modules& wrong : {Modules{"nothing"}, {cuts.modules[0], cuts.modules[0]}}) {
      means.modules = wrong;
      EXPECT_TRUE(std::isinf(balanced_cuts(session, c, task, micro_batch, means).step_s));
    }
    Pipeline(session, c, task, micro_batch, PipelinePlan{.cuts = found[at(c.rank())], .shape = {ScheduleKind::gpipe, 2, 1, 4}});
  });
  EXPECT_EQ(found[0].size(), 1u);
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(seconds[0], seconds[1]) << "what is chosen by it is the same on all";
  EXPECT_GT(seconds[0], 0);
}

TEST(PipelineCosts, a_rank_that_has_not_the_memory_to_measure_keeps_no_other_waiting) {
  testing::run_communicating_ranks(2, [](CommunicationThread& c) {
    Session session(opencl::Device::open({.memory_limit = c.rank() == 1 ? std::int64_t{1} << 24 : 0}), 3);
    PipelineNet net;
    train::ClassificationTask task(net, 10);
    const PipelineMeans means{.shape = {ScheduleKind::gpipe, 2, 1, 4}, .memory_bytes = std::int64_t{1} << 30};
    EXPECT_THROW(balanced_cuts(session, c, task, {f32({3, 4, 4, 3}), i64({3})}, means), MemoryError);
    c.run([](parallel::Collectives& all) { all.barrier(); });
  });
}

}  // namespace
}  // namespace gemel::distributed
