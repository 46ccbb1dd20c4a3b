// Options of `gemel train` by what they do to losses, rates and weights.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "engine/core/session.h"
#include "engine/files/safetensors.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/nn/state/state_dict.h"
#include "tests/support/device/test_device.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

using Weights = std::map<std::string, std::vector<float>>;

class Options : public CommandLine {
 protected:
  /// The float32 weights after a run with these options. @param told  receives what it said
  Weights weights_after(Words arguments, Outcome* told = nullptr) {
    arguments.insert(arguments.end(), {"--save", in_folder("w.safetensors")});
    const Outcome o = run(arguments);
    EXPECT_EQ(o.status, 0) << o.err;
    if (told) *told = o;
    const SafetensorsFile file(folder() / "w.safetensors");
    Weights out;
    for (const NamedTensor& t : file.tensors())
      if (t.spec.dtype == DType::float32) std::memcpy((out[t.name] = std::vector<float>(t.data.size() / 4)).data(), t.data.data(), t.data.size());
    return out;
  }
  static std::vector<std::string> changed(const Weights& before, const Weights& after) {
    std::vector<std::string> out;
    for (const auto& [name, numbers] : before)
      if (after.at(name) != numbers) out.push_back(name);
    return out;
  }
  std::vector<double> rates(const std::string& log) const {
    std::vector<double> out;
    for (const Json& e : events(log))
      if (e["event"] == "step") out.push_back(e["lr"]);
    return out;
  }
};

TEST_F(Options, a_frozen_backbone_trains_the_last_layer_only) {
  const Weights before = weights_after(training({"--steps", "1", "--lr", "0"}));
  EXPECT_EQ(changed(before, weights_after(training({"--steps", "1"}))).size(), before.size());
  EXPECT_EQ(changed(before, weights_after(training({"--steps", "2", "--freeze-backbone"}))), (Words{"fc3.bias", "fc3.weight"}));
}

TEST_F(Options, frozen_normalisation_trains_by_running_statistics_and_is_part_of_what_a_run_is) {
  for (const char* frontend : is_full_run() ? std::vector{"eager", "graph"} : std::vector{"eager"}) {
    // Of 5 samples one is left for the last batch: too few for statistics of its own.
    const auto resnet = [&](const Words& more) {
      Words arguments{"train", "--limit", "5", "--batch-size", "4", "--eval-every", "0", "--frontend", frontend};
      arguments.insert(arguments.end(), more.begin(), more.end());
      return arguments;
    };
    const std::string folder = in_folder(frontend);
    const Weights whole = weights_after(resnet({"--freeze-norm", "--checkpoint-dir", folder, "--checkpoint-every", "1"}));
    const auto all = [&whole](const char* name, float number) { return std::ranges::all_of(whole.at(name), [number](float x) { return x == number; }); };
    EXPECT_TRUE(all("bn1.running_mean", 0)) << frontend;
    EXPECT_TRUE(all("bn1.running_var", 1)) << frontend;
    EXPECT_FALSE(all("bn1.weight", 1)) << frontend;
    EXPECT_FALSE(all("bn1.bias", 0)) << frontend;
    EXPECT_EQ(weights_after(resnet({"--freeze-norm", "--resume", folder + "/checkpoint-1.safetensors"})), whole) << frontend;
  }
  const Outcome other =
      run({"train", "--limit", "8", "--batch-size", "4", "--eval-every", "0", "--epochs", "2", "--resume", in_folder("eager/checkpoint-2.safetensors")});
  EXPECT_NE(other.err.find("frozen normalisation was 'on', is now 'off'"), std::string::npos) << other.err;
}

TEST_F(Options, recomputed_blocks_give_the_same_weights_also_where_a_run_goes_on_with_them) {
  for (const char* frontend : is_full_run() ? std::vector{"eager", "graph"} : std::vector{"graph"}) {
    const auto resnet = [&](const Words& more) {
      Words arguments{"train", "--limit", "8", "--batch-size", "4", "--steps", "2", "--eval-every", "0", "--frontend", frontend};
      arguments.insert(arguments.end(), more.begin(), more.end());
      return arguments;
    };
    const Weights kept = weights_after(resnet({"--checkpoint-dir", in_folder("c"), "--checkpoint-every", "1"}));
    EXPECT_EQ(weights_after(resnet({"--recompute", "blocks"})), kept) << frontend;
    const Words on = resnet({"--recompute", "blocks", "--resume", in_folder("c/checkpoint-1.safetensors")});
    Outcome o;
    EXPECT_EQ(weights_after(on, &o), kept) << frontend;
    EXPECT_NE(o.err.find("resume: going on after step 1"), std::string::npos) << o.err;
    EXPECT_EQ(o.err.find("resume: warning"), std::string::npos) << o.err;
  }
}

TEST_F(Options, recomputed_blocks_need_less_memory) {
  const auto arena_bytes = [&](const char* recompute) {
    const Outcome o = run({"summary", "--model", "resnet50", "--input", "3x224x224", "--batch-size", "8", "--json", "--recompute", recompute});
    EXPECT_EQ(o.status, 0) << o.err;
    return Json::parse(o.out)["arena_bytes"].get<std::int64_t>();
  };
  EXPECT_LT(arena_bytes("blocks"), arena_bytes("none") / 2);
}

TEST_F(Options, products_by_clblast_train_as_by_our_own_kernels) {
  if (!is_full_run()) GTEST_SKIP() << "with --full: CLBlast's kernels take long to compile on a CPU";
  for (const std::string gemm : {"clblast", "native"})
    for (const std::string frontend : {"eager", "graph"}) {
      const Outcome o = run(training({"--gemm", gemm, "--frontend", frontend, "--epochs", "2", "--log-dir", in_folder(gemm + frontend)}),
                            [] { ::setenv("GEMEL_VERBOSE", "dispatch", 1); });
      ASSERT_EQ(o.status, 0) << o.err;
      EXPECT_EQ(o.err.find(" -> clblast ") != std::string::npos, gemm == "clblast") << o.err;
    }
  // Sums in another order differ by some last places of 6e-8, which steps carry on and let grow.
  for (const std::string frontend : {"eager", "graph"}) {
    const auto by_clblast = losses("clblast" + frontend), by_ours = losses("native" + frontend);
    ASSERT_EQ(by_clblast.size(), 10u);
    ASSERT_EQ(by_ours.size(), 10u);
    for (std::size_t i = 0; i < by_ours.size(); ++i) EXPECT_NEAR(by_clblast[i], by_ours[i], 1e-4 * by_ours[i]) << frontend << ", step " << i + 1;
  }
}

TEST_F(Options, products_have_the_precision_that_is_asked_for_where_the_device_has_matrix_units) {
  const std::string warning = "warning: --precision tf32: the device has no matrix units for it; products are float32\n";
  const auto inferred = [&](const Words& more, const char* device) {
    Words arguments{"bench", "infer",    "--model", "lenet",     "--batch-size",   "2", "--frontend", "eager", "--runs",
                    "1",     "--warmup", "1",       "--log-dir", in_folder(device)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome o = run(arguments, [device] {
      ::setenv("GEMEL_VERBOSE", "dispatch", 1);
      ::setenv("GEMEL_PRETEND", device, 1);
    });
    EXPECT_EQ(o.status, 0) << o.err;
    return o.err;
  };
  const auto precision = [&](const char* device) { return Json::parse(read_text(in_folder(device) + "/summary.json"))["device"]["precision"]; };
  if (test_device().profile().is_emulator || !test_device().profile().is_cpu()) GTEST_SKIP() << "a CPU pretends";
  const std::string without = inferred({"--precision", "tf32"}, "");
  EXPECT_NE(without.find(warning), std::string::npos) << without;
  EXPECT_EQ(precision(""), "float32");
  const std::string with = inferred({"--precision", "tf32"}, "gpu:units=2,tf32=1");
  EXPECT_EQ(with.find("warning: --precision"), std::string::npos) << with;
  for (const std::string op : {"conv2d", "matmul"})
    EXPECT_TRUE(std::ranges::any_of(lines_of(with), [&](const std::string& line) {
      return line.starts_with("dispatch: " + op) && line.find(" -> matrix_units (ranked)") != std::string::npos;
    })) << with;
  EXPECT_EQ(precision("gpu:units=2,tf32=1"), "tf32");
  EXPECT_EQ(inferred({}, "gpu:units=2,tf32=1").find(" -> matrix_units"), std::string::npos) << "in float32 it was measured nowhere";
  EXPECT_EQ(precision("gpu:units=2,tf32=1"), "float32");
}

TEST_F(Options, inceptions_auxiliary_classifier_trains_too) {
  const Weights after = weights_after(
      {"train", "--model", "inception_v3", "--input", "3x299x299", "--batch-size", "2", "--limit", "2", "--eval-every", "0", "--freeze-backbone"});
  const auto session = Session::reference(1);
  const auto model = models::make("inception_v3", {.classes = 10}, *session);
  Weights before;
  for (const auto& e : nn::state_dict(*model))
    if (e.spec.dtype == DType::float32) std::memcpy((before[e.name] = std::vector<float>(e.bytes.size() / 4)).data(), e.bytes.data(), e.bytes.size());
  EXPECT_EQ(changed(before, after), (Words{"AuxLogits.fc.bias", "AuxLogits.fc.weight", "fc.bias", "fc.weight"}));
}

TEST_F(Options, a_clipped_gradient_has_the_norm_asked_for) {
  const Weights before = weights_after(training({"--steps", "1", "--lr", "0"}));
  const auto step_length = [&](const char* norm) {
    const Weights after = weights_after(training({"--steps", "1", "--optimizer", "sgd", "--lr", "1", "--clip-norm", norm}));
    double sum = 0;
    for (const auto& [name, numbers] : before)
      for (std::size_t i = 0; i < numbers.size(); ++i) sum += std::pow(double{after.at(name)[i]} - double{numbers[i]}, 2);
    return std::sqrt(sum);
  };
  EXPECT_NEAR(step_length("0.01"), 0.01, 1e-5) << "float32 weights of size 0.1 round each of 62 006 differences by up to 4e-9";
  const double free = step_length("0");
  EXPECT_GT(free, 0.02) << "or it clips nothing";
  EXPECT_DOUBLE_EQ(step_length("1000"), free);
}

TEST_F(Options, schedules_give_each_steps_rate) {
  const Words short_epochs{"train", "--model",     "lenet", "--limit",     "2",    "--batch-size", "2", "--lr",
                           "0.5",   "--optimizer", "sgd",   "--clip-norm", "0.01", "--eval-every", "0"};
  const auto rates_of = [&](const std::string& name, const Words& more) {
    Words arguments = short_epochs;
    arguments.insert(arguments.end(), {"--lr-schedule", name, "--log-dir", in_folder(name)});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome o = run(arguments);
    EXPECT_EQ(o.status, 0) << o.err;
    return rates(name);
  };
  EXPECT_EQ(rates_of("constant", {"--steps", "3"}), std::vector<double>(3, 0.5));
  const auto stepped = rates_of("step", {"--epochs", "31"});
  ASSERT_EQ(stepped.size(), 31u);
  EXPECT_EQ(stepped[29], 0.5);
  EXPECT_DOUBLE_EQ(stepped[30], 0.05);
  const auto cosine = rates_of("cosine", {"--steps", "4"});
  ASSERT_EQ(cosine.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(cosine[static_cast<std::size_t>(i)], 0.25 * (1 + std::cos(std::numbers::pi * i / 4)));
}

TEST_F(Options, synthetic_pictures_are_what_a_small_model_takes) {
  const std::string weights = in_folder("w.safetensors");
  const Outcome o = run({"train", "--model", "perceptron", "--limit", "8", "--save", weights});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(run({"eval", "--model", "perceptron", "--limit", "8", "--weights", weights}).status, 0);
  expect_refused({"train", "--model", "perceptron", "--limit", "8", "--input", "3x32x32"}, 1, "perceptron: x is [8, 32, 32, 3]; accepted: [N, 16, 16, 3]");
  expect_refused({"eval", "--model", "lenet", "--weights", weights, "--dataset", "cifar10"}, 2, "--data: no data path was given for --dataset cifar10");
}

TEST_F(Options, classes_reach_the_synthetic_data) {
  const Outcome o = run(training({"--steps", "1", "--classes", "5", "--save", in_folder("w.safetensors")}));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("40 samples, 5 classes"), std::string::npos) << o.err;
  EXPECT_EQ(run({"eval", "--model", "lenet", "--classes", "5", "--limit", "8", "--weights", in_folder("w.safetensors")}).status, 0);
  expect_refused({"eval", "--model", "lenet", "--limit", "8", "--weights", in_folder("w.safetensors")}, 1, "fc3.bias is float32 [5], accepted: float32 [10]");
}

TEST_F(Options, dropout_of_everything_is_accepted) {
  const Outcome o = run({"train", "--model", "alexnet", "--input", "3x64x64", "--batch-size", "2", "--limit", "2", "--eval-every", "0", "--dropout", "1",
                         "--log-dir", in_folder("log")});
  ASSERT_EQ(o.status, 0) << o.err;
  // Behind the last dropout all pictures look alike: the last layer sees its own bias only, so that the loss is near ln 10.
  EXPECT_NEAR(losses("log").at(0), std::log(10.0), 0.1) << "the bias is uniform within 1 / sqrt(4096)";
}

TEST_F(Options, an_operator_is_described_by_name) {
  const Outcome o = run({"ops", "softmax"});
  EXPECT_EQ(o.status, 0) << o.err;
  for (const char* text : {"softmax(x) -> y\n", "  axis: integer, ", "  gradient: keeps y\n", "  variant "})
    EXPECT_NE(o.out.find(text), std::string::npos) << text << "\n" << o.out;
}

TEST_F(Options, a_function_is_described_by_name_and_marked_in_the_list) {
  const Outcome o = run({"ops", "conv1d"}), all = run({"ops"});
  EXPECT_EQ(o.status, 0) << o.err;
  for (const char* text : {"conv1d(x, w) -> y\n", "  stride: integer, ", "  composed of operators"})
    EXPECT_NE(o.out.find(text), std::string::npos) << text << "\n" << o.out;
  EXPECT_NE(all.out.find("w [R, C / groups, K]. Composed of operators.\n"), std::string::npos) << all.out;
}

/// A model with batch normalisation and dropout, on augmented pictures: six steps in two epochs.
class Deterministic : public Options {
 protected:
  Words with(const Words& more) const {
    Words out{"train", "--model", "mobilenet_v2", "--limit", "24", "--batch-size", "8", "--augment", "standard", "--eval-every", "0"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
};

TEST_F(Deterministic, eager_graph_and_resumed_runs_give_the_same_bytes) {
  const auto bytes_after = [this](const Words& more) {
    Words arguments = with(more);
    arguments.insert(arguments.end(), {"--save", in_folder("w.safetensors")});
    const Outcome o = run(arguments);
    EXPECT_EQ(o.status, 0) << o.err;
    return read_text(folder() / "w.safetensors");
  };
  const std::string whole = bytes_after({"--epochs", "2"});
  EXPECT_TRUE(whole == bytes_after({"--epochs", "2", "--frontend", "graph", "--graph-passes", "none"})) << "the front ends differ";
  EXPECT_FALSE(whole == bytes_after({"--epochs", "2", "--seed", "2"})) << "or the comparison sees nothing";
  for (const std::string frontend : {"eager", "graph"}) {
    const Words options{"--frontend", frontend, "--graph-passes", "none", "--checkpoint-dir", in_folder(frontend)};
    Words first = options, second = options;
    first.insert(first.end(), {"--steps", "4"});  // in the middle of the second epoch
    ASSERT_EQ(run(with(first)).status, 0);
    second.insert(second.end(), {"--epochs", "2", "--resume", in_folder(frontend + "/checkpoint-4.safetensors")});
    EXPECT_TRUE(whole == bytes_after(second)) << "resumed, " << frontend;
  }
}

}  // namespace
}  // namespace gemel::testing
