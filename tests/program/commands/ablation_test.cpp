// The switches of ablation studies: what they change, what they leave alike to the bit, and where they are refused.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>

#include "opencl/program/tuning_table.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

class Ablation : public CommandLine {
 protected:
  Outcome told_of_dispatch(const Words& words) {
    return run(words, [this] {
      ::setenv("GEMEL_CACHE_DIR", in_folder("cache").c_str(), 1);
      ::setenv("GEMEL_VERBOSE", "dispatch", 1);
    });
  }
  /// Lines of an operator, with its epilogues.
  static Words choices(const Outcome& o, const std::string& op) {
    Words out;
    for (const std::string& line : lines_of(o.err))
      if (line.starts_with("dispatch: " + op + " ") || line.starts_with("dispatch: " + op + "+")) out.push_back(line);
    return out;
  }
  static Words lstm(const Words& more) {
    return joined({"train", "--model", "lstm_classifier", "--config", "tiny", "--max-length", "4", "--limit", "24", "--batch-size", "8", "--dropout", "0",
                   "--eval-every", "0", "--optimizer", "sgd", "--lr", "0.1"},
                  more);
  }
  static Words bench(const Words& more) {
    return joined({"bench", "train", "--model", "lenet", "--input", "1x32x32", "--batch-size", "4", "--runs", "1", "--warmup", "1"}, more);
  }
  Json results(const Words& words) {
    const Outcome o = run(joined(words, {"--json", in_folder("b.json")}));
    EXPECT_EQ(o.status, 0) << o.err;
    return Json::parse(read_text(folder() / "b.json"))["benchmarks"];
  }
};

TEST_F(Ablation, a_variant_that_is_asked_for_computes_its_operator_wherever_it_is_asked) {
  for (const char* frontend : {"eager", "graph"}) {
    const Outcome o = told_of_dispatch(training({"--steps", "1", "--frontend", frontend, "--variant", "conv2d=direct", "--variant=matmul=columns"}));
    ASSERT_EQ(o.status, 0) << o.err;
    for (const auto& [op, variant] : {std::pair{"conv2d", "direct"}, {"matmul", "columns"}}) {
      const Words lines = choices(o, op);
      EXPECT_GE(lines.size(), 2u) << o.err;
      for (const std::string& line : lines) EXPECT_NE(line.find(fmt::format(" -> {} (asked for)", variant)), std::string::npos) << line;
    }
    for (const std::string& line : choices(o, "conv2d_weight_gradient")) EXPECT_NE(line.find("(ranked)"), std::string::npos) << line;
  }
}

TEST_F(Ablation, a_variant_that_declines_ends_the_run_with_its_reason) {
  for (const char* frontend : {"eager", "graph"})
    expect_refused(training({"--steps", "1", "--frontend", frontend, "--variant", "conv2d=winograd"}), 2,
                   "conv2d: variant 'winograd' is asked for of float32 [8, 32, 32, 3], float32 [5, 5, 3, 6] stride=[1, 1], padding=[0, 0], dilation=[1, 1], "
                   "groups=1; it declines: ");
  const std::string before =
      "matmul: variant 'few_rows' is asked for of float32 [40, 400], float32 [400, 120] transpose_a=false, transpose_b=false; it declines: ";
  expect_refused({"bench", "infer", "--model", "lenet", "--input", "3x32x32", "--batch-size", "40", "--variant", "matmul=few_rows"}, 2, before);
}

TEST_F(Ablation, a_variant_of_an_operator_that_is_never_computed_is_told) {
  const std::string warning = "warning: --variant lstm=steps had no effect: lstm was not computed";
  const Words asked{"--variant", "lstm=steps", "--variant", "matmul=columns"};
  for (const Words& words : {training({"--steps", "1"}), bench({})}) {
    const Outcome o = run(joined(words, asked));
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_NE((o.out + o.err).find(warning), std::string::npos) << o.out << o.err;
    EXPECT_EQ((o.out + o.err).find("--variant matmul=columns had no effect"), std::string::npos) << o.out << o.err;
  }
}

TEST_F(Ablation, operators_and_variants_that_are_unknown_are_refused_before_any_work) {
  const auto refused = [&](const std::string& given, const std::string& why) {
    for (const Words& command : {Words{"train"}, Words{"eval", "--model", "lenet", "--weights", "none"}, Words{"bench", "train"},
                                 Words{"infer", "--model", "lenet", "--weights", "none", "--input", "none"}}) {
      const Outcome o = run(joined(command, {"--variant", given}));
      EXPECT_EQ(o.status, 2) << o.err;
      EXPECT_TRUE(o.err.starts_with("gemel: --variant: " + why)) << o.err;
    }
  };
  refused("conv2=direct", "operator 'conv2' is unknown, did you mean 'conv2d'?; accepted: those with variants, which `gemel ops` lists");
  refused("reshape=direct", "operator 'reshape' is without variants");
  refused("conv2d=windograd", "conv2d has no variant 'windograd', did you mean 'winograd'?; accepted: rows, ");
  refused("conv2d=", "conv2d has no variant ''; accepted: rows, ");
  refused("conv2d", "'conv2d' is given; accepted: OPERATOR=VARIANT, as `gemel ops` and `gemel ops OPERATOR` list them");
  expect_refused({"train", "--variant", "conv2d=direct", "--variant", "conv2d=gemm"}, 2,
                 "--variant: conv2d is given 'direct' and 'gemm'; accepted: one variant of each operator");
}

TEST_F(Ablation, without_its_table_a_device_chooses_as_if_nothing_had_been_measured) {
  const Outcome forgotten = told_of_dispatch({"tune", "--forget"});
  const Words lines = lines_of(forgotten.err);
  const auto line = std::ranges::find_if(lines, [](const std::string& l) { return l.starts_with("table: "); });
  ASSERT_NE(line, lines.end()) << forgotten.err;
  opencl::TuningTable table;
  table.set("conv2d float32 [8, 32, 32, 3], float32 [5, 5, 3, 6] stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1", "direct");
  std::ofstream(line->substr(7)) << table.text();
  for (const std::string tuning : {"on", "off"}) {
    const Outcome o = told_of_dispatch(training({"--steps", "1", "--tuning", tuning, "--log-dir", in_folder(tuning)}));
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(o.err.find("(tuned)") != std::string::npos, tuning == "on") << o.err;
    EXPECT_EQ(events(tuning).front()["device"]["tuning"] == "none", tuning == "off");
  }
}

TEST_F(Ablation, graphs_give_the_same_bits_without_a_memory_plan_and_without_recorded_launches) {
  const auto trained = [&](const Words& more) {
    const Outcome o = run(joined({"train", "--model", "lenet", "--batch-size", "8", "--limit", "40", "--frontend", "graph", "--steps", "3", "--accumulate", "3",
                                  "--save", in_folder("w")},
                                 more));
    EXPECT_EQ(o.status, 0) << o.err;
    return read_text(folder() / "w");
  };
  const std::string usual = trained({});
  EXPECT_TRUE(trained({"--memory-plan", "off"}) == usual);
  EXPECT_TRUE(trained({"--recorded-launches", "off"}) == usual);
  EXPECT_TRUE(trained({"--memory-plan", "off", "--recorded-launches", "off"}) == usual);
  for (const Words& words : {training({}), Words{"bench", "train"}, {"eval", "--model", "lenet", "--weights", "none"}})
    for (const char* option : {"memory-plan", "recorded-launches"})
      expect_refused(joined(words, {fmt::format("--{}", option), "off"}), 2, fmt::format("--{}: off is given with --frontend eager, which ", option));
}

TEST_F(Ablation, an_lstm_in_steps_trains_as_the_fused_one) {
  for (const std::string form : {"fused", "steps"}) {
    const Outcome o = told_of_dispatch(lstm({"--steps", "1", "--lstm", form}));
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(choices(o, "lstm").empty(), form == "steps") << o.err;
  }
  for (const std::string frontend : {"eager", "graph"}) {
    for (const std::string form : {"fused", "steps"})
      ASSERT_EQ(run(lstm({"--steps", "6", "--frontend", frontend, "--lstm", form, "--log-dir", in_folder(form + frontend)})).status, 0);
    const auto fused = losses("fused" + frontend), steps = losses("steps" + frontend);
    ASSERT_EQ(fused.size(), 6u);
    ASSERT_EQ(steps.size(), 6u);
    // Sums in another order and other sigmoids differ by some last places of 6e-8, which four steps of an LSTM and six of training carry on.
    for (std::size_t i = 0; i < fused.size(); ++i) EXPECT_NEAR(steps[i], fused[i], 1e-5 * fused[i]) << frontend << ", step " << i + 1;
  }
  expect_refused({"train", "--model", "bert", "--config", "tiny", "--lstm", "steps"}, 2,
                 "--lstm: steps is given with --model bert, which has no LSTM; accepted: fused, or another model: lstm_classifier");
  expect_refused({"bench", "infer", "--model", "lenet", "--lstm", "steps"}, 2, "--lstm: it is given with --model lenet, which takes pictures; accepted: ");
  expect_refused(lstm({"--lstm", "step"}), 2, "--lstm: 'step' is not accepted");
}

TEST_F(Ablation, a_model_is_evaluated_and_asked_with_the_same_switches) {
  ASSERT_EQ(run(lstm({"--steps", "1", "--save", in_folder("w.safetensors")})).status, 0);
  const Words model{"--model", "lstm_classifier", "--config", "tiny", "--weights", in_folder("w.safetensors"), "--frontend", "graph"};
  const Words off{"--lstm", "steps", "--memory-plan", "off", "--recorded-launches", "off", "--tuning", "off", "--variant", "matmul=columns"};
  const auto loss = [&](const Words& more) {
    const Outcome o = run(joined(joined({"eval", "--max-length", "8", "--limit", "24"}, model), more));
    EXPECT_EQ(o.status, 0) << o.err;
    return number_after(o.out, "loss ");
  };
  EXPECT_NEAR(loss(off), loss({}), 2e-6) << "six digits are printed, float32 rounds in the seventh";
  std::ofstream(folder() / "x.npy", std::ios::binary) << std::string("\x93NUMPY\x01\0", 8) << std::string("\x46\0", 2)
                                                      << fmt::format("{:<69}\n", "{'descr': '<i8', 'fortran_order': False, 'shape': (1, 1), }")
                                                      << std::string("\x05\0\0\0\0\0\0\0", 8);
  const Outcome o = run(joined(joined({"infer", "--input", in_folder("x.npy"), "--output", in_folder("y.npy")}, model), off));
  EXPECT_EQ(o.status, 0) << o.err;
}

TEST_F(Ablation, the_switches_of_a_run_are_part_of_what_it_is) {
  ASSERT_EQ(run(lstm({"--epochs", "1", "--checkpoint-dir", in_folder("c")})).status, 0);
  const auto resumed = [&](const Words& more) {
    return run(lstm(joined({"--epochs", "2", "--frontend", "eager", "--resume", in_folder("c/checkpoint-3.safetensors")}, more))).err;
  };
  EXPECT_EQ(resumed({}).find("resume: warning"), std::string::npos);
  const std::string changed = resumed({"--lstm", "steps", "--variant", "matmul=columns", "--tuning", "off"});
  EXPECT_NE(changed.find("LSTM was 'fused', is now 'steps'; results may differ in the last bits"), std::string::npos) << changed;
  EXPECT_NE(changed.find("variants was 'none', is now 'matmul=columns'; results may differ in the last bits"), std::string::npos) << changed;
  const std::string graph = resumed({"--frontend=graph", "--memory-plan", "off", "--recorded-launches", "off"});
  EXPECT_EQ(graph.find("memory plan"), std::string::npos) << "the same bits: nothing to warn of\n" << graph;
}

TEST_F(Ablation, of_a_spec_is_the_same_run) {
  const Words line = lstm({"--frontend", "graph", "--variant", "matmul=columns", "--variant", "concatenate=rows", "--tuning", "off", "--lstm", "steps",
                           "--memory-plan", "off", "--recorded-launches", "off", "--print-spec"});
  const Outcome o = run(line);
  ASSERT_EQ(o.status, 0) << o.err;
  const Json spec = Json::parse(o.out);
  EXPECT_EQ(spec["variant"], (Json{"matmul=columns", "concatenate=rows"}));
  for (const char* off : {"tuning", "memory-plan", "recorded-launches"}) EXPECT_EQ(spec[off], "off") << off;
  EXPECT_EQ(spec["lstm"], "steps");
  EXPECT_EQ(Json::parse(run({"train", "--spec", spec.dump(), "--print-spec"}).out), spec);
  EXPECT_EQ(Json::parse(run({"train", "--spec", spec.dump(), "--variant", "matmul=parts", "--print-spec"}).out)["variant"], Json{"matmul=parts"});
  EXPECT_EQ(Json::parse(run({"train", "--print-spec"}).out)["variant"], Json::array());
}

TEST_F(Ablation, bench_has_a_case_for_each_value_of_a_switch) {
  Json spec{{"command", "bench train"}, {"model", "lenet"}, {"input", "1x32x32"}, {"batch-size", 4}, {"frontend", "graph"}, {"runs", 1}, {"warmup", 1}};
  const auto cases_of = [&](const char* key, const Json& values) {
    Json asked = spec;
    asked[key] = values;
    return results({"bench", "--spec", asked.dump()});
  };
  const std::string name = "train/lenet/4/1x32x32/graph";
  const Json planned = cases_of("memory-plan", {"on", "off"});
  ASSERT_EQ(planned.size(), 2u);
  EXPECT_EQ(planned[0]["name"], name);
  EXPECT_EQ(planned[1]["name"], name + "/memory-plan:off");
  EXPECT_GT(planned[1]["planned_bytes"], planned[0]["planned_bytes"]);
  EXPECT_GT(planned[0]["least_planned_bytes"], 0);
  EXPECT_LE(planned[1]["least_planned_bytes"], planned[0]["least_planned_bytes"]) << "without the device's alignment";
  const Json by_variant = cases_of("variant", Json::parse(R"([[], "matmul=columns", ["matmul=columns", "conv2d=direct"]])"));
  ASSERT_EQ(by_variant.size(), 3u);
  EXPECT_EQ(by_variant[0]["name"], name);
  EXPECT_EQ(by_variant[1]["name"], name + "/variant:matmul=columns");
  EXPECT_EQ(by_variant[2]["name"], name + "/variant:matmul=columns/variant:conv2d=direct");
  EXPECT_EQ(cases_of("variant", Json::parse(R"(["matmul=columns", "conv2d=direct"])")).size(), 1u) << "a list is one case's";
  const Json alone = results({"bench", "--spec", by_variant[2]["spec"].dump()});
  EXPECT_EQ(alone[0]["name"], by_variant[2]["name"]);
  EXPECT_EQ(cases_of("recorded-launches", {"off", "on"})[0]["name"], name + "/recorded-launches:off");
  EXPECT_EQ(results(bench({"--frontend", "eager", "--tuning", "off"}))[0]["name"], "train/lenet/4/1x32x32/eager/tuning:off");
  spec.update({{"model", "lstm_classifier"}, {"config", "tiny"}, {"input", "8"}});
  EXPECT_EQ(cases_of("lstm", {"fused", "steps"})[1]["name"], "train/lstm_classifier-tiny/4/8/graph/lstm:steps");
}

TEST_F(Ablation, empty_launches_slow_each_step_and_stand_in_the_name) {
  for (const char* work : {"train", "infer"}) {
    Words words = bench({"--frontend", "graph"});
    words[1] = work;
    const Json plain = results(words), slowed = results(joined(words, {"--empty-launches", "20000"}));
    EXPECT_EQ(slowed[0]["name"], plain[0]["name"].get<std::string>() + "/empty-launches:20000");
    // A launch takes a microsecond at the least; the step has a few dozen.
    EXPECT_GT(slowed[0]["median"].get<double>(), 5 * plain[0]["median"].get<double>());
  }
  expect_refused(bench({"--empty-launches", "-1"}), 2, "--empty-launches");
}

}  // namespace
}  // namespace gemel::testing
