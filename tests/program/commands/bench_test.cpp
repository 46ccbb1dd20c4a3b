// `gemel bench`: its numbers and its files.
#include <cmath>

#include "engine/base/resource_limits.h"
#include "frontends/cli/run/bench_case.h"
#include "tests/support/device/sub_devices.h"
#include "tests/support/device/test_device.h"
#include "tests/support/program/job_fixture.h"

namespace gemel::testing {
namespace {

TEST(Spread, of_an_odd_and_an_even_number_of_values) {
  const cli::Spread three = cli::spread_of({4, 1, 1});
  EXPECT_DOUBLE_EQ(three.mean, 2);
  EXPECT_DOUBLE_EQ(three.median, 1);
  EXPECT_DOUBLE_EQ(three.min, 1);
  EXPECT_DOUBLE_EQ(three.max, 4);
  EXPECT_DOUBLE_EQ(three.stddev, std::sqrt(3.0));
  EXPECT_DOUBLE_EQ(cli::spread_of({1, 4, 2, 3}).median, 2.5);
  EXPECT_DOUBLE_EQ(cli::spread_of({7}).stddev, 0);
}

class Bench : public CommandLine {
 protected:
  Json results(std::vector<std::string> more) {
    std::vector<std::string> words{"bench", "--model", "lenet", "--input", "3x32x32", "--runs", "3", "--warmup", "1", "--json", in_folder("b.json")};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = run(words);
    EXPECT_EQ(o.status, 0) << o.err;
    table = lines_of(o.out);
    return Json::parse(read_text(folder() / "b.json"));
  }
  std::vector<std::string> table;
};

TEST_F(Bench, every_model_input_batch_and_front_end_is_a_case) {
  const Json all = results({"train", "--batch-size", "1,4"});
  std::vector<std::string> names;
  for (const Json& b : all["benchmarks"]) names.push_back(b["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"train/lenet/1/3x32x32/eager", "train/lenet/1/3x32x32/graph", "train/lenet/4/3x32x32/eager",
                                             "train/lenet/4/3x32x32/graph"}));
  ASSERT_EQ(table.size(), 5u) << "a head and a line a case";
  for (const char* key : {"date", "argv", "device", "driver", "commit"}) EXPECT_TRUE(all["context"].contains(key)) << key;
  EXPECT_EQ(all["context"]["cases"], 4);
}

TEST_F(Bench, a_case_of_recomputed_blocks_says_so_and_plans_less) {
  std::vector<double> flops;
  const auto planned = [&](const std::string& recompute, const std::string& name) {
    const Outcome o = run({"bench", "train", "--model", "resnet18", "--input", "3x32x32", "--batch-size", "4", "--frontend", "graph", "--runs", "1", "--warmup",
                           "1", "--recompute", recompute, "--json", in_folder("b.json")});
    EXPECT_EQ(o.status, 0) << o.err;
    const Json b = Json::parse(read_text(folder() / "b.json"))["benchmarks"][0];
    EXPECT_EQ(b["name"], name);
    flops.push_back(b["flops_per_second"].get<double>() * 1e-3 * b["real_time"].get<double>());
    return b["planned_bytes"].get<std::int64_t>();
  };
  EXPECT_LT(planned("blocks", "train/resnet18/4/3x32x32/graph/recompute"), planned("none", "train/resnet18/4/3x32x32/graph"));
  EXPECT_NEAR(flops[0], flops[1], 1e-9 * flops[1]) << "work that is done twice counts once";
}

TEST_F(Bench, a_case_of_frozen_normalisation_says_so_and_takes_a_single_value_a_channel) {
  const auto resnet = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"bench", "train",  "--model", "resnet18", "--input", "3x32x32", "--batch-size",
                                       "1",     "--runs", "1",       "--warmup", "1",       "--json",  in_folder("b.json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  expect_refused(resnet({}), 1, "batch_norm");
  const Outcome o = run(resnet({"--freeze-norm"}));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(Json::parse(read_text(folder() / "b.json"))["benchmarks"][0]["name"], "train/resnet18/1/3x32x32/eager/freeze-norm");
  expect_refused({"bench", "infer", "--freeze-norm"}, 2, "accepted: train");
}

TEST_F(Bench, a_batch_is_as_large_as_was_asked) {
  const auto peak = [this](const char* size) {
    return results({"infer", "--batch-size", size, "--frontend", "eager"})["benchmarks"][0]["peak_bytes"].get<double>();
  };
  EXPECT_GT(peak("6000"), 2.5 * peak("2000")) << "three times the pictures";
}

TEST_F(Bench, a_case_has_the_members_that_scripts_read) {
  for (const char* work : {"train", "infer"}) {
    const Json all = results({work, "--batch-size", "8", "--frontend", "graph"});
    const Json& b = all["benchmarks"][0];
    EXPECT_EQ(b["iterations"], 3);
    EXPECT_EQ(b["time_unit"], "ms");
    EXPECT_LE(b["min"], b["median"]);
    EXPECT_LE(b["median"], b["max"]);
    EXPECT_GE(b["stddev"], 0);
    EXPECT_NEAR(b["items_per_second"].get<double>() * b["real_time"].get<double>(), 8000, 1e-6);
    EXPECT_GT(b["device_busy"], 0);
    EXPECT_LE(b["device_busy"], 1.01) << "time of the device that is counted twice; its clock is not the host's";
    EXPECT_GT(b["peak_bytes"], b["planned_bytes"]);
    EXPECT_GT(b["least_planned_bytes"], 0);
    EXPECT_GE(b["planned_bytes"], b["least_planned_bytes"]);
    EXPECT_TRUE(b.contains("resident_bytes"));
  }
  // Two multiplications and additions a weight and use: 2 (28^2 6 75 + 10^2 16 150 + 400 120 + 120 84 + 84 10) FLOPs and small change.
  const Json infer = results({"infer", "--batch-size", "1", "--classes", "10", "--frontend", "eager"})["benchmarks"][0];
  const double flops = infer["flops_per_second"].get<double>() * 1e-3 * infer["real_time"].get<double>();
  EXPECT_GT(flops, 2.0 * (784 * 450 + 100 * 2400 + 48000 + 10080 + 840));
  EXPECT_LT(flops, 2.1 * (784 * 450 + 100 * 2400 + 48000 + 10080 + 840));
}

TEST_F(Bench, no_case_that_fits_is_a_failure_with_its_record) {
  const Outcome o =
      run({"bench", "train", "--model", "lenet", "--batch-size", "512,256", "--frontend", "eager", "--memory-limit", "4000000", "--json", in_folder("b.json")});
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.err.find("gemel: bench: no case fits: 4000000 bytes may be held, the smallest needs about "), std::string::npos) << o.err;
  EXPECT_EQ(Json::parse(read_text(folder() / "b.json"))["benchmarks"].size(), 2u);
}

TEST_F(Bench, a_case_that_does_not_fit_is_told_and_the_others_go_on) {
  const Json all = results({"train", "--batch-size", "512,1", "--frontend", "eager", "--memory-limit", "4000000"});
  ASSERT_EQ(all["benchmarks"].size(), 2u);
  const Json &first = all["benchmarks"][0], &second = all["benchmarks"][1];
  EXPECT_TRUE(first["error_occurred"]);
  EXPECT_GT(first["bytes_needed"], 4000000);
  EXPECT_EQ(first["bytes_limit"], 4000000);
  EXPECT_FALSE(second.contains("error_occurred")) << second;
  EXPECT_NE(table.at(1).find("does not fit"), std::string::npos) << table.at(1);
}

// Blocks are rounded to 2 MiB at most: no larger limit leaves less room than a smaller one.
TEST_F(Bench, what_a_planned_case_is_said_to_need_is_enough) {
  const auto fits = [&](std::int64_t limit) {
    const Json all = results({"train", "--batch-size", "64,1", "--frontend", "graph", "--memory-limit", std::to_string(limit)});
    return std::pair(!all["benchmarks"][0].contains("error_occurred"), all["benchmarks"][0].value("bytes_needed", std::int64_t{0}));
  };
  const auto needed = fits(4000000).second;
  for (const std::int64_t more : {1, 3}) EXPECT_TRUE(fits(needed + (more * 2 << 20)).first) << needed << " and " << more;
  EXPECT_FALSE(fits(needed * 3 / 4).first) << needed;
}

class SharedInference : public Job {
 protected:
  static Words infer(const Words& more, const char* batch = "5") {
    return joined({"bench", "infer", "--model", "lenet", "--input", "3x32x32", "--frontend", "graph", "--batch-size", batch, "--runs", "3", "--warmup", "1"},
                  more);
  }
  Json only_case(const Outcome& o) {
    EXPECT_EQ(o.status, 0) << o.err;
    const Json all = Json::parse(read_text(folder() / "b.json"));
    EXPECT_EQ(all["benchmarks"].size(), 1u);
    return all["benchmarks"][0];
  }
};

TEST_F(SharedInference, has_a_shard_on_each_process_or_a_stage) {
  on_ranks(2);
  for (const std::string style : {"ddp", "horovod", "pipeline"}) {
    Words words = infer({"--parallel", style, "--json", in_folder("b.json")});
    if (style == "pipeline") words = joined(words, {"--microbatches", "5"});
    const Json b = only_case(finish(start_job(words)));
    EXPECT_EQ(b["name"], "infer/lenet/5/3x32x32/graph/" + style + (style == "pipeline" ? ":2/5" : ":2"));
    EXPECT_EQ(b["parallel"], style);
    EXPECT_EQ(b["ranks"], 2);
    EXPECT_EQ(b["iterations"], 3);
    EXPECT_NEAR(b["items_per_second"].get<double>() * b["real_time"].get<double>(), 5000, 1e-6) << "of both ranks together";
    EXPECT_EQ(b.contains("stage_peak_bytes"), style == "pipeline");
    EXPECT_FALSE(b.contains("exposed_comm_ms")) << "nothing is summed";
  }
  expect_refused_on(2, infer({"--parallel", "ddp"}, "1"), "--batch-size: 1 samples are for 2 ranks; accepted: one a rank or more");
}

TEST_F(SharedInference, has_a_shard_on_each_device_of_a_process) {
  if (allowed_cores().count() < 2 || !divides(test_device())) GTEST_SKIP() << "needs a device that divides";
  const Words parts{"--devices", "0.0,0.1", "--json", in_folder("b.json")};
  EXPECT_EQ(only_case(run(infer(joined({"--parallel", "mirrored"}, parts))))["name"], "infer/lenet/5/3x32x32/graph/mirrored:2");
  const std::string measured = only_case(run(infer(joined({"--parallel", "pipeline"}, parts))))["name"];
  const std::string begin = "infer/lenet/5/3x32x32/graph/pipeline:2/";
  ASSERT_TRUE(measured.starts_with(begin)) << measured;
  EXPECT_TRUE(std::ranges::count(Words{"5", "2", "1"}, measured.substr(begin.size()))) << "the fastest of one a sample, and half as many: " << measured;
  expect_refused(infer(joined({"--parallel", "dataparallel"}, parts)), 2,
                 "gemel: bench: --parallel dataparallel is given with infer, where no update is there to be copied; accepted: train, --parallel mirrored");
}

TEST_F(SharedInference, takes_no_options_of_gradients) {
  for (const Words& given : {Words{"--bucket-mb", "1"}, {"--compression", "fp16"}, {"--sync-bn"}, {"--no-sync"}, {"--pipeline-schedule", "gpipe"}})
    expect_refused(infer(joined({"--parallel", "ddp"}, given)), 2, "gemel: bench: " + given[0] + " is given with infer, which trains nothing; accepted: train");
}

TEST_F(Bench, wrong_lists_are_refused) {
  expect_refused({"bench", "trian"}, 2, "did you mean 'train'?");
  expect_refused({"bench", "train", "--batch-size", "1,,2"}, 2, "--batch-size: '' is not accepted");
  expect_refused({"bench", "train", "--model", "lenet,resnet19"}, 2, "did you mean 'resnet18'?");
  expect_refused({"bench", "train", "--frontend", "eager,static"}, 2, "--frontend: 'static' is not accepted");
  expect_refused({"bench", "train", "--model", "lenet", "--input", "3x40x40"}, 1, "fc1: ");
}

}  // namespace
}  // namespace gemel::testing
