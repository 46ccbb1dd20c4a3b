// Trainer: runs of a small classifier from a program of one's own - records, validation, checkpoints, interrupts, clipping, schedules.
#include "frontends/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "engine/base/error.h"
#include "engine/base/files/folder_lock.h"
#include "engine/files/safetensors.h"
#include "engine/ops/ops.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "frontends/train/evaluation.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::train {
namespace {

using testing::message_of;
using Json = nlohmann::json;
using List = std::vector<double>;

/// Pictures of one pixel and three channels: normalised, dropped out, classified.
class Classifier : public nn::Module {
 protected:
  Value forward(Value x) override { return out_(flatten_(dropout_(norm_(std::move(x))))); }

 private:
  nn::BatchNorm2d& norm_ = add<nn::BatchNorm2d>("norm", 3);
  nn::Dropout& dropout_ = add<nn::Dropout>("dropout", 0.25);
  nn::Flatten flatten_;
  nn::Linear& out_ = add<nn::Linear>("out", 3, 2);
};

/// Ten samples in batches of four, four and two, unless others are asked for.
class Points : public datasets::BatchSource {
 public:
  std::int64_t samples() const override { return count; }
  std::int64_t batches() const override { return (count + most - 1) / most; }
  void start(std::int64_t, std::int64_t first_batch) override { batch_ = first_batch; }
  std::optional<datasets::Batch> next() override {
    if (batch_ == batches()) return std::nullopt;
    const std::int64_t first = most * batch_, size = std::min(most, count - first);
    std::vector<float> pixels;
    std::vector<std::int64_t> labels;
    for (std::int64_t i = first; i < first + size; ++i) {
      for (int c = 0; c < 3; ++c) pixels.push_back(batch_ == poisoned ? std::numeric_limits<float>::quiet_NaN() : std::sin(static_cast<float>(3 * i + c)));
      labels.push_back(i % 3 == 0);
    }
    return datasets::Batch{
        .tensors = {datasets::host_tensor<float>("images", {size, 1, 1, 3}, pixels), datasets::host_tensor<std::int64_t>("labels", {size}, labels)},
        .samples = size,
        .index = batch_++,
        .first_position = first};
  }
  std::int64_t count = 10, most = 4;  // samples, and of a batch
  std::int64_t poisoned = -1;         // the batch that holds a NaN

 private:
  std::int64_t batch_ = 0;
};

/// Interrupts after a step.
struct Interrupter : Reporter {
  std::int64_t after = 0, steps = 0;
  std::vector<std::string> said;
  void step_begins() override { ++steps; }
  void say(const std::string& line) override { said.push_back(line); }
  bool interrupted() override { return steps == after; }
};

/// All that a run is made of.
struct Bench {
  explicit Bench(const std::string& optimizer_name = "adam") {
    model.materialise(session);
    optimizer = optim::make(optimizer_name, optim::all_in_one(model.parameters()));
  }
  List state() const {
    List out;
    const ParameterSet set = model.parameters();
    for (const auto& values : {set.parameters(), set.buffers()})
      for (const NamedValue& v : values)
        for (double number : read(v.value)) out.push_back(number);
    return out;
  }
  List value(const char* name) const { return read(*model.parameters().find(name)); }
  Run run(RunLog* log = nullptr, Reporter* reporter = nullptr) { return {session, task, *optimizer, data, &validation, log, reporter}; }

  Session session{testing::shared_test_device()};
  Classifier model;
  ClassificationTask task{model, 2};
  std::unique_ptr<optim::Optimizer> optimizer;
  Points data, validation;
};

class Training : public ::testing::Test {
 protected:
  std::vector<Json> events(const char* name = nullptr) const {
    std::vector<Json> out;
    std::ifstream in(folder / "run.jsonl");
    for (std::string line; std::getline(in, line);)
      if (Json e = Json::parse(line); !name || e["event"] == name) out.push_back(std::move(e));
    return out;
  }
  std::string path() const { return folder.path().string(); }
  testing::TemporaryFolder folder;
};

class TrainingOf : public Training, public ::testing::WithParamInterface<Frontend> {};
INSTANTIATE_TEST_SUITE_P(, TrainingOf, ::testing::Values(Frontend::eager, Frontend::graph), [](const auto& i) { return std::string(to_string(i.param)); });

TEST_F(Training, a_programs_record_is_whole_and_validation_comes_every_so_many_epochs) {
  Bench b;
  RunLog log(path(), {{"argv", {"own"}}});
  EXPECT_EQ(Trainer(b.run(&log), {.epochs = 4, .eval_every = 2}).run(), Trainer::End::done);
  const auto all = events();
  ASSERT_EQ(all.size(), 1u + 4 * (3 + 1) + 1);
  const Json& start = all.front();
  EXPECT_EQ(start["event"], "start");
  EXPECT_EQ(start["argv"], Json({"own"}));
  EXPECT_EQ(start["model"], "Module");
  EXPECT_EQ(start["parameters"], b.model.parameter_elements());
  EXPECT_EQ(start["ranks"], 1);
  for (const char* key : {"version", "device"}) EXPECT_TRUE(start.contains(key)) << key;
  EXPECT_FALSE(start.contains("resumed_from"));
  for (const Json& e : events("epoch")) EXPECT_EQ(e.contains("val_loss"), e["epoch"].get<int>() % 2 == 0) << e;
  EXPECT_EQ(all.back()["event"], "end");
  EXPECT_EQ(all.back()["status"], "ok");
  EXPECT_GT(all.back()["seconds"].get<double>(), 0);
}

TEST_F(Training, a_run_within_a_run_ends_on_record_with_the_outer_one) {
  Bench b;
  RunLog log(path());
  log.begin();
  Trainer(b.run(&log), {}).run();
  EXPECT_TRUE(events("end").empty());
  log.end("failed");
  ASSERT_EQ(events("end").size(), 1u);
  EXPECT_EQ(events("end")[0]["status"], "failed");
}

TEST_P(TrainingOf, a_loss_that_is_not_finite_ends_the_run_and_names_the_step) {
  Bench b;
  b.data.poisoned = 1;
  RunLog log(path());
  Trainer trainer(b.run(&log), {.step = {.frontend = GetParam()}});
  EXPECT_EQ(message_of<Error>([&] { trainer.run(); }), "train: the loss of step 2 is nan");
  EXPECT_EQ(events().back()["status"], "failed");
}

TEST_P(TrainingOf, an_interrupted_run_goes_on_bit_for_bit) {
  const TrainerOptions options{.epochs = 3, .rate = 0.01, .checkpoint_dir = folder.path(), .step = {.frontend = GetParam()}};
  TrainerOptions without = options;
  without.checkpoint_dir.clear();
  Bench whole;
  Trainer(whole.run(), without).run();

  Bench first;
  Interrupter interrupter;
  interrupter.after = 5;
  {
    RunLog log(path());
    EXPECT_EQ(Trainer(first.run(&log, &interrupter), options).run(), Trainer::End::interrupted);
    EXPECT_EQ(events().back()["status"], "interrupted");
  }
  Bench second;
  RunLog log(path());
  Interrupter silent;
  Trainer trainer(second.run(&log, &silent), options);
  const auto file = trainer.resume();
  ASSERT_TRUE(file);
  EXPECT_TRUE(silent.said.empty()) << silent.said[0];
  EXPECT_EQ(trainer.state().step, 5);
  EXPECT_EQ(trainer.run(), Trainer::End::done);
  EXPECT_EQ(second.state(), whole.state());
  ASSERT_EQ(events("start").size(), 2u);
  EXPECT_EQ(events("start")[1]["resumed_from"], file->string());
  EXPECT_EQ(events("step").size(), 9u);
}

TEST_F(Training, a_checkpoint_folder_that_a_living_run_writes_into_is_refused_and_free_after_it) {
  const TrainerOptions options{.epochs = 1, .checkpoint_dir = folder.path()};
  Bench b;
  Trainer trainer(b.run(), options);
  {
    const FolderLock other(folder.path(), kCheckpoint);
    const std::string refused = "checkpoint: " + folder.path().string() + " is in use by another run, process ";
    EXPECT_EQ(message_of<DataError>([&] { trainer.run(); }).rfind(refused, 0), 0u);
    EXPECT_EQ(message_of<DataError>([&] { Trainer(b.run(), options); }).rfind(refused, 0), 0u);
    EXPECT_EQ(trainer.state().step, 0);
  }
  EXPECT_EQ(trainer.run(), Trainer::End::done);
  const FolderLock next(folder.path(), kCheckpoint);
}

TEST_F(Training, a_checkpoint_of_another_optimizer_is_refused) {
  const TrainerOptions options{.checkpoint_dir = folder.path()};
  Bench adam;
  Trainer(adam.run(), options).run();
  Bench momentum("momentum");
  Trainer trainer(momentum.run(), options);
  EXPECT_THROW(trainer.resume(), DataError);
}

TEST_F(Training, a_checkpoint_of_more_batches_than_an_epoch_has_is_refused_by_name) {
  const TrainerOptions options{.checkpoint_dir = folder.path()};
  Bench before, after;
  Interrupter after_two;
  after_two.after = 2;
  ASSERT_EQ(Trainer(before.run(nullptr, &after_two), options).run(), Trainer::End::interrupted);
  const auto file = folder / "checkpoint-2.safetensors";
  const auto with_batch = [&](const char* batch) {
    const SafetensorsFile good(file);
    FileMetadata metadata = good.metadata();
    metadata["batch"] = batch;
    metadata.erase("checksum");
    metadata["checksum"] = checksum_of(good.tensors(), metadata);
    write_safetensors(file, good.tensors(), metadata);
  };
  Trainer trainer(after.run(), options);
  with_batch("4");
  EXPECT_EQ(message_of<DataError>([&] { trainer.resume(); }),
            "checkpoint: " + file.string() + " has '4' for 'batch' in its metadata; accepted: whole numbers, 0..3, of an epoch's batches");
  with_batch("3");
  EXPECT_TRUE(trainer.resume()) << "as an interrupt in the validation leaves it";
}

TEST_F(Training, what_differs_from_the_checkpoint_is_told) {
  Bench before;
  Trainer(before.run(), {.rate = 0.5, .checkpoint_dir = folder.path()}).run();
  Bench after;
  Interrupter told;
  Trainer trainer(after.run(nullptr, &told), {.rate = 0.25, .checkpoint_dir = folder.path(), .step = {.frontend = Frontend::graph}});
  trainer.resume();
  EXPECT_EQ(told.said, (std::vector<std::string>{"resume: warning: learning rate was '0.5', is now '0.25'; the run goes on with the new one",
                                                 "resume: warning: front end was 'eager', is now 'graph'; results may differ in the last bits"}));
}

/// What resuming a run of other data says, line by line; the error's text where it is refused.
std::vector<std::string> told_of(const Points& data, const TrainerOptions& options, const RunIdentity& identity = {}) {
  Bench b;
  b.data = data;
  Interrupter told;
  Trainer trainer(b.run(nullptr, &told), options, identity);
  try {
    trainer.resume();
  } catch (const DataError& e) {
    told.said.push_back(e.what());
  }
  return told.said;
}

TEST_F(Training, data_of_another_size_is_told_between_epochs_and_refused_in_the_middle_of_one) {
  const TrainerOptions options{.checkpoint_dir = folder.path()};
  Points more, smaller;
  more.count = 11;
  smaller.most = 2;
  {
    Bench b;
    Trainer(b.run(), options, {{kBatchSize, "4", Bearing::sample_order}}).run();
    EXPECT_EQ(told_of(smaller, options, {{kBatchSize, "2", Bearing::sample_order}}),
              std::vector<std::string>{"resume: warning: batch size was '4', is now '2'; the run goes on with the new one"})
        << "and not of the number of batches too";
  }
  Bench whole, cut;
  Trainer(whole.run(), options).run();
  EXPECT_EQ(told_of(more, options), std::vector<std::string>{"resume: warning: samples was '10', is now '11'; the run goes on with the new one"});
  EXPECT_EQ(told_of(smaller, options), std::vector<std::string>{"resume: warning: number of batches was '3', is now '5'; the run goes on with the new one"});
  Interrupter after_two;
  after_two.after = 2;
  EXPECT_EQ(Trainer(cut.run(nullptr, &after_two), options).run(), Trainer::End::interrupted);
  const auto refused = told_of(smaller, options);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_NE(refused[0].find("resume: number of batches was '3', is now '5' in the middle of an epoch"), std::string::npos) << refused[0];
}

TEST_F(Training, of_an_optimizer_that_had_stepped_before_is_resumed_from_its_checkpoint) {
  Bench first;
  Trainer(first.run(), {.epochs = 1}).run();
  ASSERT_EQ(first.optimizer->steps(), 3);
  const TrainerOptions options{.epochs = 1, .checkpoint_dir = folder.path()};
  Trainer(first.run(), options).run();  // its own steps begin at 1
  Bench second;
  Trainer again(second.run(), options);
  ASSERT_TRUE(again.resume());
  EXPECT_EQ(again.state().step, 3);
  EXPECT_EQ(second.optimizer->steps(), 6);
  EXPECT_EQ(second.state(), first.state());
}

/// Counts a metric that is no number.
struct Miscounting : ClassificationTask {
  using ClassificationTask::ClassificationTask;
  List count(const datasets::Batch&, std::span<const List>) const override { return {std::nan("")}; }
};

TEST_F(Training, with_a_metric_that_is_no_number_saves_nothing_and_says_why) {
  Bench bench;
  Miscounting task(bench.model, 2);
  const train::Run wrong{bench.session, task, *bench.optimizer, bench.data};
  EXPECT_EQ(message_of<Error>([&] { Trainer(wrong, {.steps = 1, .checkpoint_dir = folder.path()}).run(); }),
            "checkpoint: the metrics' sums are not finite after step 1: nothing is saved; accepted: a task whose counts are finite");
}

TEST_F(Training, a_checkpoint_written_over_another_runs_is_the_runs_own) {
  const TrainerOptions options{.epochs = 3, .checkpoint_dir = folder.path()};
  Bench before, after;
  Trainer(before.run(), options).run();
  const auto steps = [&] {
    std::set<std::string> out;
    for (const auto& file : checkpoints_in(folder.path())) out.insert(file.stem().string());
    return out;
  };
  ASSERT_EQ(steps(), (std::set<std::string>{"checkpoint-6", "checkpoint-9"}));
  TrainerOptions longer = options;
  longer.epochs = 4;
  Trainer(after.run(), longer).run();
  EXPECT_EQ(steps(), (std::set<std::string>{"checkpoint-12", "checkpoint-9"}));
}

TEST_P(TrainingOf, gradients_are_clipped_by_their_common_norm) {
  Bench b("sgd");
  const List before = b.state();
  Trainer(b.run(), {.steps = 1, .rate = 1, .clip_norm = 0.01, .step = {.frontend = GetParam()}}).run();
  const List after = b.state();
  double squares = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(b.model.parameter_elements()); ++i) squares += (after[i] - before[i]) * (after[i] - before[i]);
  EXPECT_NEAR(std::sqrt(squares), 0.01, 1e-6);  // differences of float32 numbers near 1
}

TEST_P(TrainingOf, the_rate_follows_its_schedule) {
  Bench b;
  RunLog log(path());
  Trainer(b.run(&log), {.steps = 4, .rate = 0.1, .schedule = optim::Schedule::cosine, .step = {.frontend = GetParam()}}).run();
  const auto steps = events("step");
  ASSERT_EQ(steps.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(steps[i]["lr"].get<double>(), 0.05 * (1 + std::cos(std::acos(-1.0) * static_cast<double>(i) / 4)), 1e-12);
}

TEST_F(Training, eager_and_graph_give_the_same_bits) {
  for (const std::int64_t accumulate : {1, 2}) {
    Bench eager, graph;
    Trainer(eager.run(), {.steps = 2, .clip_norm = 0.5, .step = {Frontend::eager, parse_passes("none"), accumulate}}).run();
    Trainer(graph.run(), {.steps = 2, .clip_norm = 0.5, .step = {Frontend::graph, parse_passes("none"), accumulate}}).run();
    EXPECT_EQ(eager.state(), graph.state()) << accumulate;
  }
}

TEST_F(Training, micro_batches_train_as_the_whole_batch) {
  Bench whole("sgd"), cut("sgd");
  for (Bench* b : {&whole, &cut}) b->model.freeze_norm();  // a micro-batch has statistics of its own
  Trainer(whole.run(), {.epochs = 2, .rate = 0.1}).run();
  Trainer(cut.run(), {.epochs = 2, .rate = 0.1, .step = {.accumulate = 3}}).run();
  const List a = whole.state(), b = cut.state();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << i;  // sums in another order
}

TEST_F(Training, an_epochs_means_weigh_an_uneven_last_batch_by_its_samples) {
  Bench b;
  RunLog log(path());
  Trainer(b.run(&log), {.rate = 0}).run();
  const auto steps = events("step");
  ASSERT_EQ(steps.size(), 3u);
  const auto loss = [&](std::size_t i) { return steps[i]["loss"].get<double>(); };
  const Json epoch = events("epoch").at(0);
  EXPECT_NEAR(epoch["train_loss"].get<double>(), (4 * loss(0) + 4 * loss(1) + 2 * loss(2)) / 10, 1e-12);
  Step evaluation(b.session, b.task, nullptr);
  const Sums sums = evaluate(evaluation, b.validation);
  EXPECT_EQ(sums.samples, 10);
  EXPECT_EQ(epoch["val_loss"].get<double>(), sums.mean_loss());
  EXPECT_EQ(epoch["val_accuracy"].get<double>(), b.task.metrics(sums)[0].value);
}

TEST_P(TrainingOf, frozen_normalisation_trains_but_keeps_its_statistics) {
  const TrainerOptions options{.epochs = 2, .rate = 0.1, .checkpoint_dir = folder.path(), .step = {.frontend = GetParam()}};
  Bench b, moving;
  Trainer(moving.run(), {.rate = 0.1}).run();
  EXPECT_NE(moving.value("norm.running_mean"), List(3, 0.0));
  b.model.freeze_norm();
  TrainerOptions half = options;
  half.epochs = 1;
  Trainer(b.run(), half).run();
  EXPECT_EQ(b.value("norm.running_mean"), List(3, 0.0));
  EXPECT_EQ(b.value("norm.running_var"), List(3, 1.0));
  EXPECT_EQ(b.value("norm.num_batches_tracked"), List{0});
  EXPECT_NE(b.value("norm.weight"), List(3, 1.0));
  EXPECT_NE(b.value("norm.bias"), List(3, 0.0));

  Bench resumed, whole;
  resumed.model.freeze_norm();
  whole.model.freeze_norm();
  Trainer trainer(resumed.run(), options);
  trainer.resume();
  trainer.run();
  Trainer(whole.run(), {.epochs = 2, .rate = 0.1, .step = {.frontend = GetParam()}}).run();
  EXPECT_EQ(resumed.state(), whole.state());
}

TEST_P(TrainingOf, normalisation_thawed_after_compilation_moves_again) {
  Bench b;
  Step step(b.session, b.task, b.optimizer.get(), {.frontend = GetParam()});
  b.data.start(0, 0);
  const datasets::Batch batch = *b.data.next();
  b.model.freeze_norm();
  step.train(batch, 0.1, 1).get();
  EXPECT_EQ(b.value("norm.num_batches_tracked"), List{0});
  b.model.unfreeze_norm();
  step.train(batch, 0.1, 2).get();
  EXPECT_EQ(b.value("norm.num_batches_tracked"), List{1});
}

}  // namespace
}  // namespace gemel::train
