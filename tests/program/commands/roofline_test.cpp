// `gemel roofline`: what it counts adds up, a pretence changes it, and what it refuses.
#include <cmath>
#include <string>

#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

class RooflineCommand : public CommandLine {
 protected:
  Json counted(const Words& more) {
    const Outcome o = run(joined({"roofline", "--model", "lenet", "--input", "1x32x32", "--batch-size", "8", "--json"}, more));
    EXPECT_EQ(o.status, 0) << o.err;
    return Json::parse(o.out);
  }
};

const std::string kGpu = "gpu:name=h100";

TEST_F(RooflineCommand, totals_are_the_sums_of_their_rows_the_longest_first) {
  const Json all = counted({"--frontend", "graph", "--pretend", kGpu});
  std::int64_t launches = 0, bytes = 0, cached = 0, least = 0;
  double seconds = 0, before = 1e9;
  for (const Json& o : all["operators"]) {
    launches += o["times"].get<std::int64_t>() * o["launches"].get<std::int64_t>();
    bytes += o["times"].get<std::int64_t>() * o["bytes"].get<std::int64_t>();
    cached += o["times"].get<std::int64_t>() * o["cached_bytes"].get<std::int64_t>();
    least += o["times"].get<std::int64_t>() * o["least_bytes"].get<std::int64_t>();
    EXPECT_LE(o["seconds"], before);
    seconds += before = o["seconds"];
    EXPECT_EQ(o["kernels"].size(), o["launches"]);
  }
  EXPECT_EQ(all["launches"], launches);
  EXPECT_EQ(all["bytes"], bytes);
  EXPECT_EQ(all["cached_bytes"], cached);
  EXPECT_EQ(all["least_bytes"], least);
  EXPECT_NEAR(all["seconds"], seconds, 1e-12);
  EXPECT_EQ(all["flops_per_second"], 62.9e12);
  EXPECT_GT(bytes, least);
  EXPECT_GT(least, 0);
}

TEST_F(RooflineCommand, what_stays_in_a_cache_is_moved_where_there_is_none) {
  const Json with = counted({"--pretend", kGpu}), without = counted({"--pretend", kGpu + ",cache=0"});
  EXPECT_GT(with["cached_bytes"], 0);
  EXPECT_EQ(without["cached_bytes"], 0);
  EXPECT_EQ(without["bytes"], with["bytes"].get<std::int64_t>() + with["cached_bytes"].get<std::int64_t>());
}

TEST_F(RooflineCommand, a_graph_launches_less_than_eager_and_inference_less_than_training) {
  const auto launches = [&](const Words& more) { return counted(joined(more, {"--pretend", kGpu}))["launches"].get<int>(); };
  const int graph = launches({"--frontend", "graph"});
  EXPECT_LT(graph, launches({"--frontend", "eager"}));
  EXPECT_LT(launches({"--frontend", "graph", "--work", "infer"}), graph);
}

TEST_F(RooflineCommand, names_the_device_that_it_counts_for_and_the_one_that_poses_as_it) {
  const Words given{"roofline", "--model", "lenet", "--input", "1x32x32", "--batch-size", "8"};
  const std::string here = run(joined(given, {"--pretend", "gpu:units=7,gflops=10,gbs=10"})).err, h100 = run(joined(given, {"--pretend", kGpu})).err;
  ASSERT_TRUE(here.starts_with("device: a GPU, as which ")) << here;
  const std::string real = here.substr(24, here.find(" poses (") - 24);
  EXPECT_TRUE(h100.starts_with("device: h100, as which " + real + " poses (")) << h100;
  EXPECT_NE(h100.find(", 132 units)\n"), std::string::npos) << h100;
}

TEST_F(RooflineCommand, refuses_a_pretence_and_a_work_that_are_none) {
  const Words given{"roofline", "--model", "lenet"};
  const Outcome pretence = run(joined(given, {"--pretend", "gpu:name=h99"}));
  EXPECT_EQ(pretence.status, 2);
  EXPECT_TRUE(pretence.err.starts_with("gemel: --pretend: 'gpu:name=h99' is given; accepted: gpu")) << pretence.err;
  const Outcome variable = run(given, [] { ::setenv("GEMEL_PRETEND", "h100", 1); });
  EXPECT_EQ(variable.status, 2);
  EXPECT_NE(variable.err.find("GEMEL_PRETEND: 'h100' is given; accepted: gpu"), std::string::npos) << variable.err;
  const Outcome work = run(joined(given, {"--work", "both"}));
  EXPECT_EQ(work.status, 2);
  EXPECT_NE(work.err.find("--work: 'both' is given; accepted: train, infer"), std::string::npos) << work.err;
}

}  // namespace
}  // namespace gemel::testing
