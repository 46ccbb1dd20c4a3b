// Gemel on a driver whose kernels compute nothing and whose calls fail on command: what the host takes for a launch, and one line for each failure.
#include <cmath>
#include <string>

#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

class StubDriver : public CommandLine {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder() / "vendors");
    write_text(folder() / "vendors" / "stub.icd", std::string(GEMEL_BINARY_DIR) + "/tests/stub_driver.so\n");
  }
  /// @param device, failure  of GEMEL_STUB_DEVICE and GEMEL_STUB_FAIL
  Outcome run_on_stub(const Words& arguments, const std::string& failure = "", const std::string& device = "") {
    return run(arguments, [&] {
      ::setenv("OCL_ICD_VENDORS", in_folder("vendors").c_str(), 1);
      ::unsetenv("GEMEL_PLATFORM");
      ::setenv("GEMEL_CACHE_DIR", in_folder("cache").c_str(), 1);
      ::setenv("GEMEL_STUB_FAIL", failure.c_str(), 1);
      ::setenv("GEMEL_STUB_DEVICE", device.c_str(), 1);
    });
  }
  Json json_of(const Words& arguments) {
    const Outcome o = run_on_stub(joined(arguments, {"--json"}));
    EXPECT_EQ(o.status, 0) << o.err;
    return Json::parse(o.out);
  }
};

TEST_F(StubDriver, is_one_gpu_with_the_facts_that_it_is_given) {
  const Outcome o = run_on_stub({"devices", "--json"}, "", "units=24,width=16,local=65536");
  const Json device = Json::parse(o.out)["platforms"].at(0)["devices"].at(0);
  EXPECT_EQ(device["type"], "gpu");
  EXPECT_EQ(device["compute_units"], 24);
  EXPECT_EQ(device["sub_group_width"], 16);
  EXPECT_EQ(device["local_bytes"], 65536);
  EXPECT_TRUE(device["usable"].get<bool>());
}

// The bound is that of a machine that does other work, and of a build that may be any; 2 us are wanted of one that is optimised and alone.
TEST_F(StubDriver, a_launch_takes_the_host_a_few_microseconds) {
  const Words model{"--model", "resnet18", "--input", "3x32x32", "--batch-size", "4", "--frontend", "graph"};
  const double launches = json_of(joined({"roofline"}, model))["launches"];
  const Outcome o = run_on_stub(joined(joined({"bench", "train"}, model), {"--warmup", "3", "--runs", "30", "--json", in_folder("b.json")}));
  ASSERT_EQ(o.status, 0) << o.err;
  const double ms = Json::parse(read_text(folder() / "b.json"))["benchmarks"].at(0)["min"];
  RecordProperty("us_a_launch", std::to_string(1000 * ms / launches));
  EXPECT_LT(1000 * ms / launches, 20);
}

// As a graph's executor and the eager front end's commands ask for it, and told where it takes long; a second run finds the binaries.
TEST_F(StubDriver, programs_of_a_step_are_built_together_and_told) {
  const std::string told = "gemel: the driver compiles ";
  for (const std::string frontend : {"graph", "eager"}) {
    std::filesystem::remove_all(folder() / "cache");
    const Words command{"bench", "train", "--model", "resnet18", "--input", "3x32x32", "--batch-size", "4", "--frontend", frontend, "--runs", "1"};
    const Outcome cold = run_on_stub(command, "", "build_ms=300");
    EXPECT_EQ(cold.status, 0) << cold.err;
    const std::size_t begin = cold.err.find(told);
    ASSERT_NE(begin, std::string::npos) << frontend << ": " << cold.err;
    const int programs = std::stoi(cold.err.substr(begin + told.size()));
    EXPECT_GT(programs, 10) << cold.err;
    EXPECT_LE(programs, 120) << cold.err;
    EXPECT_NE(cold.err.find(" programs for Stub GPU, on "), std::string::npos) << cold.err;
    EXPECT_EQ(cold.err.find(told, begin + 1), std::string::npos) << cold.err;
    EXPECT_EQ(run_on_stub(command).err.find(told), std::string::npos) << frontend;
  }
}

TEST_F(StubDriver, each_failure_is_one_line_that_names_the_call) {
  const Words training{"train", "--model", "lenet", "--batch-size", "8", "--limit", "16", "--epochs", "1"};
  for (const std::string failure : {"clCreateContext:1:-6", "clCreateCommandQueue:1:-6", "clCreateBuffer:5:-4", "clBuildProgram:3:-11", "clCreateKernel:1:-46",
                                    "clEnqueueNDRangeKernel:20:-5", "clEnqueueReadBuffer:2:-5", "clWaitForEvents:1:-5", "clEnqueueMapBuffer:1:-12"}) {
    std::filesystem::remove_all(folder() / "cache");  // else nothing is built
    const Outcome o = run_on_stub(training, failure);
    const std::string call = failure.substr(0, failure.find(':'));
    EXPECT_EQ(o.status, 1) << failure << ": " << o.err;
    const Words lines = lines_of(o.err);
    ASSERT_FALSE(lines.empty()) << failure;
    EXPECT_TRUE(lines.back().starts_with("gemel: ")) << failure << ": " << o.err;
    EXPECT_NE(lines.back().find(call), std::string::npos) << failure << ": " << o.err;
    EXPECT_EQ(std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with("gemel: "); }), 1) << failure << ": " << o.err;
  }
}

}  // namespace
}  // namespace gemel::testing
