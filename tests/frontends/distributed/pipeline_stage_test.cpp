// Stages of a pipeline on ranks that are threads: the losses, outputs and gradients of one process that accumulates over the same
// micro-batches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "frontends/distributed/pipeline/stage.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "frontends/train/step.h"
#include "opencl/device/device.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/models/split_case.h"
#include "tests/support/ranks/communicating_ranks.h"

namespace gemel::distributed {
namespace {

using List = std::vector<double>;
using parallel::ScheduleKind;
using train::Frontend;

constexpr std::int64_t kStep = 3;

std::unique_ptr<nn::Module> small_net() {
  auto model = std::make_unique<nn::Sequential>();
  model->emplace<nn::Flatten>();
  model->emplace<nn::Linear>(75, 9);
  model->emplace<nn::Dropout>(0.4);
  model->emplace<nn::ReLU>();
  model->emplace<nn::Linear>(9, 8);
  model->emplace<nn::LayerNorm>(8);
  model->emplace<nn::Linear>(8, 2);
  return model;
}

/// @param sizes  samples of each
std::vector<datasets::Batch> micro_batches(const std::vector<std::int64_t>& sizes) {
  std::vector<datasets::Batch> out;
  std::int64_t first = 0;
  for (const std::int64_t n : sizes) {
    std::vector<float> pictures;
    std::vector<std::int64_t> labels;
    for (std::int64_t i = first * 75; i < (first + n) * 75; ++i) pictures.push_back(static_cast<float>(std::sin(0.1 * static_cast<double>(i))));
    for (std::int64_t i = first; i < first + n; ++i) labels.push_back(i % 2);
    out.push_back({.tensors = {datasets::host_tensor<float>("images", {n, 5, 5, 3}, pictures), datasets::host_tensor<std::int64_t>("labels", {n}, labels)},
                   .samples = n,
                   .first_position = first});
    first += n;
  }
  return out;
}

double samples_of(const std::vector<datasets::Batch>& batches) {
  double out = 0;
  for (const auto& b : batches) out += static_cast<double>(b.samples);
  return out;
}

Specs specs_of(const datasets::Batch& batch) { return {batch["images"].spec, batch["labels"].spec}; }

/// What a step gives, and the model's statistics behind it.
struct Found {
  std::vector<List> results;  // [micro-batch] its loss, then the classes found
  std::map<std::string, List> gradients, buffers;
};

List flat(const Values& values) {
  List out;
  for (const Value& v : values)
    for (const double x : read(v)) out.push_back(x);
  return out;
}

using Make = std::unique_ptr<nn::Module> (*)();

Found in_one_process(Make make, const std::vector<datasets::Batch>& batches) {
  Session session(opencl::Device::open({}), 3);
  const auto model = make();
  model->materialise(session);
  train::ClassificationTask task(*model, 2);
  const std::vector<NamedValue> named = model->parameters().trainable();
  Values sums(named.size());
  Found found;
  const float scale = static_cast<float>(1 / samples_of(batches));
  for (const auto& b : batches) {
    const Values in{session.tensor(b["images"].spec, b["images"].bytes), session.tensor(b["labels"].spec, b["labels"].bytes),
                    random_state(session, kStep, b.first_position), session.tensor(f32({}), std::as_bytes(std::span(&scale, 1)))};
    train::Differentiated part = train::differentiate(session, task, in, values_of(named));
    found.results.push_back(flat(part.results()));
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = sums[i] ? sums[i] + part.gradients[i] : part.gradients[i];
  }
  for (std::size_t i = 0; i < sums.size(); ++i) found.gradients[named[i].name] = read(sums[i]);
  const ParameterSet all = model->parameters();
  for (const NamedValue& b : all.buffers()) found.buffers[b.name] = read(b.value);
  return found;
}

struct CutModel {
  Make make;
  PipelineCuts cuts;
  ScheduleKind kind = ScheduleKind::gpipe;
  int stages = 1, virtual_stages = 1;
  StageOptions options = {};
};

/// The second of two steps: pieces and places are used again. Statistics are then those of two, so they are compared after the first.
Found in_stages(const CutModel& p, const std::vector<datasets::Batch>& batches) {
  Found found;
  std::mutex mutex;
  testing::run_communicating_ranks(p.stages, [&](parallel::CommunicationThread& c) {
    Session session(opencl::Device::open({}), 3);
    const auto model = p.make();
    train::ClassificationTask task(*model, 2);
    PipelineStage stage(session, c, task, specs_of(batches[0]), {p.cuts, {p.kind, p.stages, p.virtual_stages}, p.options});
    stage.run(batches, samples_of(batches), kStep);
    std::map<std::string, List> moved;
    const ParameterSet all = model->materialised();
    for (const NamedValue& b : all.buffers()) moved[b.name] = read(b.value);
    const auto results = stage.run(batches, samples_of(batches), kStep);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(results.micro_batches.empty(), c.rank() + 1 != p.stages);
    for (const Values& r : results.micro_batches) found.results.push_back(flat(r));
    for (std::size_t i = 0; i < stage.parameters().size(); ++i)
      EXPECT_TRUE(found.gradients.emplace(stage.parameters()[i].name, read(results.gradients[i])).second) << "on two stages";
    for (const auto& [name, values] : moved) EXPECT_TRUE(found.buffers.emplace(name, values).second) << "on two stages";
  });
  return found;
}

void expect_near(const List& a, const List& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6 * std::max(1.0, std::abs(b[i]))) << what;
}

/// Eager: the operators of one process, bit for bit. Graph: kernels are fused and round otherwise, a few units in the last place.
void expect_same(const Found& a, const Found& b, Frontend frontend, const std::string& what) {
  if (frontend == Frontend::eager) {
    EXPECT_EQ(a.results, b.results) << what;
    EXPECT_EQ(a.gradients, b.gradients) << what;
    EXPECT_EQ(a.buffers, b.buffers) << what;
    return;
  }
  ASSERT_EQ(a.results.size(), b.results.size()) << what;
  for (std::size_t k = 0; k < a.results.size(); ++k) expect_near(a.results[k], b.results[k], what);
  ASSERT_EQ(a.gradients.size(), b.gradients.size()) << what;
  for (const auto& [name, gradient] : b.gradients) expect_near(a.gradients.at(name), gradient, what + ", " + name);
  ASSERT_EQ(a.buffers.size(), b.buffers.size()) << what;
  for (const auto& [name, buffer] : b.buffers) expect_near(a.buffers.at(name), buffer, what + ", " + name);
}

using Modules = std::vector<std::string>;
const std::vector<Modules> kSmallCuts{{}, {"4"}, {"2", "5"}};
const std::vector<Modules> kResidualCuts{{}, {"1.bn"}, {"0.dropout", "1.dropout"}};  // inside of what a connection skips

class PipelineStageInBothFrontEnds : public ::testing::TestWithParam<Frontend> {
 protected:
  void expect_as_one_process(Make make, const std::vector<Modules>& cuts) {
    std::vector<std::vector<std::int64_t>> tried{{2, 2, 2, 1}};
    if (testing::is_full_run()) tried.insert(tried.end(), {{4}, {2, 2, 2, 2}});
    for (const auto& sizes : tried) {
      const auto batches = micro_batches(sizes);
      const Found whole = in_one_process(make, batches);
      for (int stages = 1; stages <= 3; ++stages) {
        const auto found = [&](ScheduleKind kind) { return in_stages({make, cuts[at(stages - 1)], kind, stages, 1, {.frontend = GetParam()}}, batches); };
        const Found gpipe = found(ScheduleKind::gpipe), one_f_one_b = found(ScheduleKind::one_f_one_b);
        const std::string what = fmt::format("{} stages, {} micro-batches, the last of {}", stages, sizes.size(), sizes.back());
        expect_same(gpipe, whole, GetParam(), what);
        EXPECT_EQ(one_f_one_b.results, gpipe.results) << what;
        EXPECT_EQ(one_f_one_b.gradients, gpipe.gradients) << what << ": no schedule changes the order of sums";
        EXPECT_EQ(one_f_one_b.buffers, gpipe.buffers) << what;
      }
    }
  }
};

TEST_P(PipelineStageInBothFrontEnds, a_net_with_dropout_computes_as_one_process_that_accumulates) { expect_as_one_process(small_net, kSmallCuts); }

TEST_P(PipelineStageInBothFrontEnds, a_residual_net_cut_inside_a_skip_computes_as_one_process_that_accumulates) {
  expect_as_one_process(testing::residual_net, kResidualCuts);
}

TEST_P(PipelineStageInBothFrontEnds, interleaved_pieces_compute_as_one_process_that_accumulates) {
  const auto batches = micro_batches({2, 2, 2, 1});
  const Found whole = in_one_process(small_net, batches);
  for (const int stages : {1, 2}) {
    const Modules cuts = stages == 1 ? Modules{"4"} : Modules{"2", "4", "6"};
    expect_same(in_stages({small_net, cuts, ScheduleKind::interleaved, stages, 2, {.frontend = GetParam()}}, batches), whole, GetParam(),
                fmt::format("{} stages", stages));
  }
}

std::unique_ptr<nn::Module> wide_net() {
  auto model = std::make_unique<nn::Sequential>();
  model->emplace<nn::Flatten>();
  model->emplace<nn::Linear>(75, 64);
  model->emplace<nn::ReLU>();
  model->emplace<nn::Linear>(64, 2);
  return model;
}

TEST_P(PipelineStageInBothFrontEnds, a_gradient_much_larger_than_its_factors_is_one_product_a_step) {
  const auto batches = micro_batches({2, 2, 2, 2});
  const CutModel two{wide_net, Modules{"2"}, ScheduleKind::one_f_one_b, 2, 1, {.frontend = GetParam()}};
  expect_same(in_stages(two, batches), in_one_process(wide_net, batches), Frontend::graph, "one sum over all rows rounds otherwise");
  testing::run_communicating_ranks(1, [&](parallel::CommunicationThread& c) {
    Session session(opencl::Device::open({}), 3);
    const auto model = wide_net();
    train::ClassificationTask task(*model, 2);
    PipelineStage stage(session, c, task, specs_of(batches[0]), {Modules{}, {ScheduleKind::gpipe, 1, 1}, {.frontend = GetParam()}});
    struct Step {
      std::vector<std::int64_t> sizes;
      int products;
    };
    const std::vector<std::int64_t> ten_of_two(10, 2);  // the factors of nine take half of the gradient's memory
    for (const auto& [sizes, products] : {Step{{2, 2, 2, 2}, 1}, Step{{4, 4}, 1}, Step{{20, 20}, 2}, Step{ten_of_two, 2}}) {
      int made = 0;  // the gradient, or a sum of it
      const auto observation = session.interpreter().observe(
          [&](const OpDef&, std::span<const Value>, std::span<const Value> out) { made += !out.empty() && out[0].elements() == 75 * 64; });
      stage.run(micro_batches(sizes), 8, kStep);
      EXPECT_EQ(made, products) << "of " << sizes.size() << " micro-batches of " << sizes[0];
    }
  });
}

TEST_P(PipelineStageInBothFrontEnds, recomputation_changes_nothing) {
  const auto batches = micro_batches({2, 2, 1});
  const Found whole = in_one_process(testing::residual_net, batches);
  expect_same(in_stages({testing::residual_net, Modules{"1.bn"}, ScheduleKind::one_f_one_b, 2, 1, {.frontend = GetParam(), .kept = Kept::inputs}}, batches),
              whole, GetParam(), "inputs alone are kept");
}

TEST_P(PipelineStageInBothFrontEnds, a_stage_that_computes_again_holds_less) {
  const auto make = [] {
    auto model = std::make_unique<nn::Sequential>();
    model->emplace<nn::Flatten>();
    model->emplace<nn::Linear>(75, 64);
    for (int i = 0; i < 6; ++i) {
      model->emplace<nn::Linear>(64, 64);
      model->emplace<nn::ReLU>();
    }
    model->emplace<nn::Linear>(64, 2);
    return model;
  };
  const auto batches = micro_batches(std::vector<std::int64_t>(8, 256));
  const auto peak = [&](Kept kept) {
    std::int64_t out = 0;
    testing::run_communicating_ranks(1, [&](parallel::CommunicationThread& c) {
      Session session(opencl::Device::open({}), 3);
      const auto model = make();
      train::ClassificationTask task(*model, 2);
      PipelineStage stage(session, c, task, specs_of(batches[0]), {Modules{}, {ScheduleKind::gpipe, 1}, {.frontend = GetParam(), .kept = kept}});
      stage.run(batches, samples_of(batches), kStep);
      out = session.device().memory().statistics().peak_in_use;
    });
    return out;
  };
  EXPECT_LT(peak(Kept::inputs), peak(Kept::all) / 2);
}

TEST_P(PipelineStageInBothFrontEnds, evaluates_micro_batches_that_training_refuses) {
  const auto trained = micro_batches({2, 2}), evaluated = micro_batches({1, 1, 2});  // one value a channel has no variance
  const auto make = [] {
    auto model = std::make_unique<nn::Sequential>();
    model->emplace<nn::AdaptiveAvgPool2d>(Pair{1, 1});
    model->emplace<nn::BatchNorm2d>(3);
    model->emplace<nn::Flatten>();
    model->emplace<nn::Linear>(3, 2);
    return model;
  };
  List alone;
  {
    Session session(opencl::Device::open({}), 3);
    const auto model = make();
    model->materialise(session);
    train::ClassificationTask task(*model, 2);
    train::Step step(session, task, nullptr);
    for (const auto& b : evaluated) alone.push_back(step.evaluate(b).get().loss);
  }
  testing::run_communicating_ranks(2, [&](parallel::CommunicationThread& c) {
    Session session(opencl::Device::open({}), 3);
    const auto model = make();
    train::ClassificationTask task(*model, 2);
    PipelineStage stage(session, c, task, specs_of(trained[0]), {Modules{"3"}, {ScheduleKind::one_f_one_b, 2}, {.frontend = GetParam()}});
    const std::vector<Values> found = stage.evaluate(evaluated);
    ASSERT_EQ(found.size(), c.rank() == 1 ? 3u : 0u);
    for (std::size_t k = 0; k < found.size(); ++k) EXPECT_NEAR(read(found[k][0])[0], alone[k], 1e-5 * std::abs(alone[k]));
  });
}

INSTANTIATE_TEST_SUITE_P(All, PipelineStageInBothFrontEnds, ::testing::Values(Frontend::eager, Frontend::graph),
                         [](const auto& frontend) { return std::string(train::to_string(frontend.param)); });

/// Fails on one stage, whose other ranks wait for it.
TEST(PipelineStage, an_error_of_one_stage_ends_the_waits_of_the_others) {
  const auto batches = micro_batches({2, 2, 2});
  std::vector<std::string> said(3);
  testing::run_communicating_ranks(3, [&](parallel::CommunicationThread& c) {
    Session session(opencl::Device::open({}), 3);
    const auto model = small_net();
    train::ClassificationTask task(*model, 2);
    PipelineStage stage(session, c, task, specs_of(batches[0]), {Modules{"2", "5"}, {ScheduleKind::one_f_one_b, 3}});
    auto mine = batches;
    if (c.rank() == 1) mine[2].tensors.clear();
    said[at(c.rank())] = testing::message_of<Error>([&] { stage.run(mine, 6, kStep); });
  });
  EXPECT_NE(said[1].find("images"), std::string::npos) << said[1];
  for (const int other : {0, 2}) EXPECT_EQ(said[at(other)], "stage 1 failed: " + said[1]);
}

std::string refused(Make make, const PipelineCuts& cuts, int stages) {
  std::string out;
  testing::run_communicating_ranks(1, [&](parallel::CommunicationThread& c) {
    Session session(opencl::Device::open({}), 3);
    const auto model = make();
    train::ClassificationTask task(*model, 2);
    out = testing::message_of<UsageError>([&] { PipelineStage(session, c, task, specs_of(micro_batches({2})[0]), {cuts, {ScheduleKind::gpipe, stages}}); });
  });
  return out;
}

TEST(PipelineStage, other_numbers_of_ranks_and_pieces_are_refused) {
  EXPECT_EQ(refused(small_net, Modules{"4"}, 2), "pipeline: 2 stages on 1 ranks; accepted: a rank for each stage");
  EXPECT_EQ(refused(small_net, Modules{"4"}, 1), "pipeline: the model is cut into 2 pieces; accepted: 1, as the schedule has");
}

}  // namespace
}  // namespace gemel::distributed
