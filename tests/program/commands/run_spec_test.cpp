// Runs as data: --print-spec and --spec.
#include <fmt/format.h>

#include "tests/support/device/test_device.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

class Specs : public CommandLine {
 protected:
  Json printed(Words line) {
    line.emplace_back("--print-spec");
    const Outcome o = run(line);
    EXPECT_EQ(o.status, 0) << o.err;
    const Json spec = Json::parse(o.out, nullptr, false);
    EXPECT_TRUE(spec.is_object()) << o.out;
    return spec;
  }
  std::string file_of(const Json& spec) {
    write_text(folder() / "spec.json", spec.dump(1));
    return in_folder("spec.json");
  }
  /// Weights after the run.
  std::string saved(Words line, const std::string& name) {
    line.insert(line.end(), {"--save", in_folder(name)});
    const Outcome o = run(line);
    EXPECT_EQ(o.status, 0) << o.err;
    return read_text(folder() / name);
  }
};

TEST_F(Specs, of_a_line_trains_to_the_same_bits) {
  const std::vector<Words> all{
      {},
      {"--parallel", "mirrored", "--devices", "0.0,0.1", "--sync-bn"},
      {"--model", "bert", "--config", "tiny", "--max-length", "16", "--optimizer", "adamw"},
      {"--frontend", "graph", "--graph-passes", "none", "--optimizer", "momentum", "--lr", "0.05"},
      {"--parallel", "pipeline", "--devices", "0.0,0.1", "--microbatches", "2"},
      {"--model", "ncf", "--config", "tiny", "--optimizer", "sgd", "--sparse-embeddings"},
      {"--model", "speech", "--config", "tiny", "--length-buckets", "on"},
      {"--model", "gpt2", "--config", "tiny", "--lr-schedule", "linear", "--warmup", "0.5"},
      {"--model", "transformer", "--config", "tiny", "--label-smoothing", "0.1", "--clip-norm", "1"},
      {"--model", "lstm_classifier", "--config", "tiny", "--seed", "7"},
      {"--accumulate", "3"},
      {"--shuffle", "off", "--augment", "standard"},
      {"--dropout", "0.25", "--weight-decay", "0.1"},
      {"--optimizer", "rmsprop", "--momentum", "0.5"},
      {"--optimizer", "nesterov", "--lr-schedule", "cosine"},
      {"--freeze-backbone", "--lr-schedule", "step"},
      {"--model", "resnet18", "--freeze-norm"},
      {"--model", "resnet18", "--recompute", "blocks"},
      {"--classes", "7", "--input", "1x32x32"},
      {"--denormals", "flush", "--gemm", "native"},
      {"--parallel", "dataparallel", "--devices", "0.0,0.1"},
      {"--parallel", "mirrored", "--devices", "0.0,0.1", "--compression", "topk:0.5", "--bucket-mb", "0.5"},
      {"--parallel", "mirrored", "--devices", "0.0,0.1", "--compression", "bf16"},
      {"--parallel", "pipeline", "--devices", "0.0,0.1", "--pipeline-schedule", "gpipe", "--stages", "fc1"},
      {"--parallel", "pipeline", "--devices", "0.0,0.1", "--pipeline-schedule", "interleaved", "--virtual-stages", "2", "--microbatches", "2"},
      {"--model", "perceptron", "--workers", "0"},
      {"--detect-anomaly", "--eval-every", "0"},
      {"--model", "bert", "--config", "tiny", "--classes", "3", "--length-buckets", "on"},
      {"--augment", "standard", "--limit", "20"},
      {"--threads", "1", "--memory-limit", "1G"}};
  EXPECT_EQ(all.size(), 30u);
  for (std::size_t i = 0; i < (is_full_run() ? all.size() : 3); ++i) {
    Words line{"train", "--batch-size", "6", "--steps", "3", "--model", "lenet", "--limit", "24"};
    for (const std::string& word : all[i])
      if (const auto given = std::ranges::find(line, word); word.starts_with("--") && given != line.end()) line.erase(given, given + 2);
    line.insert(line.end(), all[i].begin(), all[i].end());
    SCOPED_TRACE(fmt::format("{}", fmt::join(line, " ")));
    const Json spec = printed(line);
    EXPECT_EQ(printed({"train", "--spec", file_of(spec)}), spec);
    EXPECT_EQ(saved({"train", "--spec", file_of(spec)}, "spec"), saved(line, "line"));
  }
}

TEST_F(Specs, has_every_option_with_what_its_default_becomes) {
  const Json spec = printed({"train", "--optimizer", "adamw"});
  EXPECT_EQ(spec["command"], "train");
  EXPECT_EQ(spec["np"], 1);
  EXPECT_EQ(spec["epochs"], 1);
  EXPECT_TRUE(spec["steps"].is_null());
  EXPECT_EQ(spec["weight-decay"], 0.01);
  EXPECT_TRUE(spec["momentum"].is_null()) << "adamw has none";
  EXPECT_EQ(spec["augment"], "none");
  EXPECT_EQ(spec["sync-bn"], false);
  const Outcome help = run({"train", "--help"});
  for (const std::string& line : lines_of(help.out)) {
    const auto begin = line.find("--"), end = line.find_first_of(" =", begin);
    if (begin != 2) continue;
    const std::string name = line.substr(begin + 2, end - begin - 2);
    EXPECT_EQ(spec.contains(name), name != "help" && name != "spec" && name != "print-spec") << name;
  }
}

TEST_F(Specs, are_overridden_by_the_line_and_stand_in_the_record) {
  const std::string file = file_of({{"command", "train"}, {"model", "lenet"}, {"steps", 2}, {"batch-size", 4}, {"limit", 8}, {"eval-every", 0}});
  const Outcome o = run({"train", "--spec", file, "--batch-size", "2", "--log-dir", in_folder("log")});
  ASSERT_EQ(o.status, 0) << o.err;
  const Json spec = events("log").front().at("spec");
  EXPECT_EQ(spec["batch-size"], 2);
  EXPECT_EQ(spec["steps"], 2);
  EXPECT_EQ(spec["optimizer"], "adam");
  const Outcome itself = run({"train", "--spec", R"({"command": "train", "model": "lenet"})", "--print-spec"});
  EXPECT_EQ(Json::parse(itself.out)["model"], "lenet") << itself.err;
}

TEST_F(Specs, that_are_wrong_are_refused_by_key) {
  const auto refused = [this](Json changed, const std::string& why) {
    Json spec{{"command", "train"}, {"model", "lenet"}};
    spec.update(changed);
    expect_refused({"train", "--spec", file_of(spec)}, 2, why);
  };
  refused({{"batch_size", 4}}, "spec: key 'batch_size' is unknown, did you mean 'batch-size'?; accepted: ");
  refused({{"batch-size", "4"}}, "spec: batch-size: \"4\" is not accepted; accepted: a whole number: ");
  refused({{"batch-size", 4.5}}, "spec: batch-size: 4.5 is not accepted; accepted: a whole number: ");
  refused({{"batch-size", 0}}, "--batch-size: 0 is out of range; accepted: ");
  refused({{"batch-size", Json::array({1, 2})}}, "spec: batch-size: [1,2] is not accepted");
  refused({{"sync-bn", 1}}, "spec: sync-bn: 1 is not accepted; accepted: true or false");
  refused({{"lr", "fast"}}, "spec: lr: \"fast\" is not accepted; accepted: a number");
  refused({{"optimizer", "adm"}}, "--optimizer: 'adm' is not accepted, did you mean 'adam'?");
  refused({{"epochs", 2}, {"steps", 3}}, "--epochs and --steps are both given");
  refused({{"command", "eval"}}, "spec: command: \"eval\" is given with gemel train; accepted: \"train\"");
  refused({{"np", 2}}, "spec: np: 2 processes are asked for, 1 is here; accepted: gemel launch --spec FILE");
  refused({{"spec", "other.json"}}, "spec: key 'spec' is unknown");
  write_text(folder() / "spec.json", "[1, 2]");
  expect_refused({"train", "--spec", in_folder("spec.json")}, 1, "is no JSON object; accepted: what --print-spec writes");
  write_text(folder() / "spec.json", R"({"command": "train", "lr": 1, "lr": 2})");
  expect_refused({"train", "--spec", in_folder("spec.json")}, 1, "key 'lr' stands there twice");
  expect_refused({"train", "--spec", in_folder("none.json")}, 1, "none.json");
}

TEST_F(Specs, of_a_benchmark_that_are_wrong_are_refused_before_they_are_printed) {
  const auto refused = [this](Json changed, const std::string& why) {
    Json spec{{"command", "bench train"}, {"model", "lenet"}, {"frontend", "graph"}, {"input", "1x32x32"}};
    spec.update(changed);
    expect_refused({"bench", "--spec", file_of(spec), "--print-spec"}, 2, why);
  };
  refused({{"model", "lenett"}}, "--model: 'lenett' is not accepted, did you mean 'lenet'?; accepted: ");
  refused({{"optimizer", Json::array({"sgd", "adm"})}}, "--optimizer: 'adm' is not accepted, did you mean 'adam'?; accepted: ");
  refused({{"frontend", "grap"}}, "--frontend: 'grap' is not accepted, did you mean 'graph'?");
  refused({{"input", "1x32"}}, "--input: '1x32' is not accepted; accepted: 3 extents");
  refused({{"runs", "ten"}}, "spec: runs: \"ten\" is not accepted; accepted: a whole number: steps measured");
  refused({{"runs", 0}}, "--runs: 0 is out of range; accepted: 1 to 1000000");
  refused({{"model", "bert"}, {"input", "8"}, {"config", "tinny"}},
          "--config: 'tinny' is neither known nor a file, did you mean 'tiny'?; accepted: tiny, mini, small, base, or a config.json");
  refused({{"parallel", "dpp"}}, "--parallel: 'dpp' is not accepted, did you mean 'ddp'?");
  expect_refused({"train", "--model", "bert", "--config", "tinny", "--print-spec"}, 2, "--config: 'tinny' is neither known nor a file, did you mean 'tiny'?");
}

TEST_F(Specs, of_cases_have_single_values_and_run_alone_to_the_same_case) {
  const Json all{{"command", "bench train"},
                 {"model", "lenet"},
                 {"input", "1x32x32"},
                 {"batch-size", Json::array({1, 2})},
                 {"frontend", "eager"},
                 {"optimizer", Json::array({"sgd", "adam"})},
                 {"runs", 1},
                 {"warmup", 1}};
  const Outcome o = run({"bench", "--spec", file_of(all), "--json", in_folder("b.json")});
  ASSERT_EQ(o.status, 0) << o.err;
  const Json cases = Json::parse(read_text(folder() / "b.json"))["benchmarks"];
  ASSERT_EQ(cases.size(), 4u);
  EXPECT_EQ(cases[1]["name"], "train/lenet/1/1x32x32/eager/adam");
  EXPECT_EQ(cases[1]["spec"]["optimizer"], "adam");
  EXPECT_EQ(cases[1]["spec"]["batch-size"], 1);
  EXPECT_EQ(cases[1]["batch_size"], 1);
  EXPECT_EQ(cases[1]["samples_ms"].size(), 1u);
  const Outcome alone = run({"bench", "--spec", file_of(cases[1]["spec"]), "--json", in_folder("one.json")});
  ASSERT_EQ(alone.status, 0) << alone.err;
  const Json one = Json::parse(read_text(folder() / "one.json"))["benchmarks"];
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0]["name"], cases[1]["name"]);
  Json spec = cases[1]["spec"];
  spec["json"] = in_folder("one.json");
  EXPECT_EQ(one[0]["spec"], spec);
  Json shared = all;
  shared["seed"] = Json::array({1, 2});
  expect_refused({"bench", "--spec", file_of(shared)}, 2, "spec: seed: a list is given; accepted: one value, which all cases share");
}

TEST_F(Specs, say_how_a_run_is_launched) {
  const Json spec = printed({"launch", "--np", "2", "--env", "A_B=c", "train", "--model", "lenet", "--parallel", "ddp"});
  EXPECT_EQ(spec["np"], 2);
  EXPECT_EQ(spec["env"], Json::array({"A_B=c"}));
  expect_refused({"train", "--spec", file_of(spec)}, 2, "accepted: gemel launch --spec FILE");
  EXPECT_EQ(printed({"launch", "--spec", file_of(spec)}), spec);
  Json bench{{"command", "bench infer"}, {"model", "lenet"}, {"parallel", "ddp"}, {"np", 1000}, {"env", Json::array({"A_B=c"})}};
  const Json printed_bench = printed({"launch", "--spec", file_of(bench)});
  EXPECT_EQ(printed_bench["np"], 1000) << "it may be run elsewhere";
  EXPECT_EQ(printed_bench["env"], Json::array({"A_B=c"}));
  bench["np"] = 0;
  expect_refused({"launch", "--spec", file_of(bench), "--print-spec"}, 2, "spec: np: 0 is out of range; accepted: 1 to ");
  bench.update({{"np", 2}, {"model", "lenett"}});
  expect_refused({"launch", "--spec", file_of(bench), "--print-spec"}, 2, "--model: 'lenett' is not accepted, did you mean 'lenet'?");
  expect_refused({"launch", "--spec", file_of(spec), "train"}, 2, "launch: --spec is given with the command train");
  Json short_run = spec;
  short_run.update({{"steps", 2}, {"epochs", nullptr}, {"batch-size", 4}, {"limit", 8}, {"eval-every", 0}, {"log-dir", in_folder("log")}});
  const Outcome o = run({"launch", "--spec", file_of(short_run)});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(events("log").front()["ranks"], 2);
  EXPECT_EQ(events("log").front()["spec"]["np"], 2);
}

}  // namespace
}  // namespace gemel::testing
