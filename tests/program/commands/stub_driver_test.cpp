// Gemel on a driver whose kernels compute nothing and whose calls fail on command: what the host takes for a launch, and one line for each failure.
#include <fmt/format.h>

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
  /// The line by which a run says why it failed.
  std::string error_of(const Words& arguments, const std::string& failure, const std::string& device = "") {
    const Outcome o = run_on_stub(arguments, failure, device);
    EXPECT_EQ(o.status, 1) << failure << ": " << o.err;
    const Words lines = lines_of(o.err);
    if (lines.empty()) return "";
    EXPECT_TRUE(lines.back().starts_with("gemel: ")) << failure << ": " << o.err;
    EXPECT_EQ(std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with("gemel: "); }), 1) << failure << ": " << o.err;
    return lines.back();
  }
  Json json_of(const Words& arguments) {
    const Outcome o = run_on_stub(joined(arguments, {"--json"}));
    EXPECT_EQ(o.status, 0) << o.err;
    return Json::parse(o.out);
  }
};

const Words kTraining{"train", "--model", "lenet", "--batch-size", "8", "--limit", "16", "--epochs", "1"};
const std::string kToSeeWhy = "; `dmesg` tells why: a watchdog that ends long kernels (accepted: a smaller batch), a reset, or a fault of driver or card";

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
    const Words command{"bench", "train", "--model", "lenet", "--batch-size", "4", "--frontend", frontend, "--runs", "1"};
    const std::string slow = "build_ms=1200";  // of a program, on however many cores
    const Outcome cold = run_on_stub(command, "", slow);
    EXPECT_EQ(cold.status, 0) << cold.err;
    const std::size_t begin = cold.err.find(told);
    ASSERT_NE(begin, std::string::npos) << frontend << ": " << cold.err;
    const int programs = std::stoi(cold.err.substr(begin + told.size()));
    EXPECT_GT(programs, 5) << cold.err;
    EXPECT_LE(programs, 120) << cold.err;
    EXPECT_NE(cold.err.find(" programs for Stub GPU, on "), std::string::npos) << cold.err;
    EXPECT_EQ(cold.err.find(told, begin + 1), std::string::npos) << cold.err;
    EXPECT_EQ(run_on_stub(command, "", slow).err.find(told), std::string::npos) << frontend;
  }
}

TEST_F(StubDriver, each_failure_is_one_line_that_names_the_call) {
  for (const std::string failure : {"clCreateContext:1:-6", "clCreateCommandQueue:1:-6", "clCreateBuffer:5:-4", "clBuildProgram:3:-11", "clCreateKernel:1:-46",
                                    "clEnqueueNDRangeKernel:20:-5", "clEnqueueReadBuffer:2:-5", "clWaitForEvents:1:-5", "clEnqueueMapBuffer:1:-12"}) {
    std::filesystem::remove_all(folder() / "cache");  // else nothing is built
    const std::string line = error_of(kTraining, failure);
    EXPECT_NE(line.find(failure.substr(0, failure.find(':'))), std::string::npos) << failure << ": " << line;
  }
}

TEST_F(StubDriver, work_that_failed_is_told_with_the_last_of_it_and_where_to_see_why) {
  EXPECT_EQ(error_of(kTraining, "clWaitForEvents:2:-5"),
            "gemel: clWaitForEvents: CL_OUT_OF_RESOURCES (-5); work on Stub GPU, the last of it adam_update, has failed" + kToSeeWhy);
  for (const std::string code : {"CL_OUT_OF_RESOURCES (-5)", "CL_INVALID_COMMAND_QUEUE (-36)", "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST (-14)",
                                 "a hang, as Intel's driver calls it (-777)", "an error in a kernel, as NVIDIA's driver calls it (-9999)"}) {
    const std::string line = error_of(kTraining, "command:100:" + code.substr(code.rfind('(') + 1));  // as its event has it
    EXPECT_NE(line.find(": " + code + "; work on Stub GPU, the last of it adam_update, has failed" + kToSeeWhy), std::string::npos) << line;
  }
}

TEST_F(StubDriver, calls_that_fail_after_others_name_the_last_work_before_them) {
  const Words wanted[]{{"clEnqueueReadBuffer:3:-5", "clEnqueueReadBuffer: CL_OUT_OF_RESOURCES (-5); error word; work on Stub GPU, the last of it "},
                       {"clEnqueueFillBuffer:1:-36", "clEnqueueFillBuffer: CL_INVALID_COMMAND_QUEUE (-36); work on Stub GPU has failed;"},
                       {"clEnqueueCopyBuffer:1:-5", "clEnqueueCopyBuffer: CL_OUT_OF_RESOURCES (-5); work on Stub GPU, the last of it a fill, has failed;"},
                       {"clFlush:3:-5", "clFlush: CL_OUT_OF_RESOURCES (-5); work on Stub GPU, the last of it "},
                       {"clEnqueueNDRangeKernel:20:-5", " has too few registers or too little local memory for it, or work on Stub GPU, the last of it "}};
  for (const Words& w : wanted) {
    const std::string line = error_of(kTraining, w[0]);
    EXPECT_NE(line.find(w[1]), std::string::npos) << w[0] << ": " << line;
    EXPECT_TRUE(line.ends_with(kToSeeWhy)) << w[0] << ": " << line;
  }
}

// Each step has one batch to upload and four small writes.
TEST_F(StubDriver, uploads_and_maps_that_fail_are_told_as_the_transfer_queues_work) {
  const Words training{"train", "--model", "lenet", "--batch-size", "64", "--limit", "1280", "--epochs", "1", "--checkpoint-dir", in_folder("checkpoints")};
  const auto told = [&](const std::string& failing, const std::string& wanted) {
    int named = 0;
    for (int call = 60; call < 65; ++call) {
      const std::string line = error_of(training, fmt::format("{}:{}:-5:1", failing, call));
      EXPECT_TRUE(line.ends_with(kToSeeWhy)) << line;
      named += line.find(wanted + kToSeeWhy) != std::string::npos;
    }
    return named;
  };
  EXPECT_EQ(told("command of clEnqueueWriteBuffer", "clEnqueueWriteBuffer: CL_OUT_OF_RESOURCES (-5); an upload on Stub GPU has failed"), 1);
  EXPECT_EQ(told("clEnqueueWriteBuffer", "; work on Stub GPU, the last of it an upload, has failed"), 1);
  int named = 0, unharmed = 0;
  for (int map = 2; map <= 7; ++map) {  // of pinned memory, without which transfers do, then of what a checkpoint holds
    std::filesystem::remove_all(folder() / "checkpoints");
    const Outcome o = run_on_stub(training, fmt::format("clEnqueueMapBuffer:{}:-5:1", map));
    unharmed += o.status == 0;
    named += o.err.find("; work on Stub GPU, the last of it the end of a map to the host, has failed" + kToSeeWhy) != std::string::npos;
  }
  EXPECT_GE(unharmed, 2);
  EXPECT_GE(named, 1);
}

// 100 steps have 300 results: a transfer for each step, and a few when it begins and ends.
TEST_F(StubDriver, the_results_of_a_step_come_in_one_transfer) {
  const Words training{"train", "--model", "lenet", "--batch-size", "8", "--limit", "800", "--epochs", "1", "--eval-every", "0"};
  EXPECT_EQ(run_on_stub(training, "clEnqueueReadBuffer:120:-5").status, 0);
  EXPECT_EQ(run_on_stub(training, "clEnqueueReadBuffer:90:-5").status, 1);
  EXPECT_EQ(run_on_stub(training, "clEnqueueReadBuffer:250:-5", "shared=1").status, 1) << "memory of the host is read as it lies";
}

// Unless a write to the device meets it before its times are asked for.
TEST_F(StubDriver, of_a_profiled_run_the_kernel_that_failed_is_named_itself) {
  int named = 0;
  for (const int command : {160, 180, 200, 220}) {
    const std::string line = error_of(joined(kTraining, {"--profile", in_folder("p.json")}), fmt::format("command:{}:-5", command));
    EXPECT_NE(line.find(" on Stub GPU"), std::string::npos) << line;
    named += line.find("clGetEventInfo: CL_OUT_OF_RESOURCES (-5); ") != std::string::npos && line.find("/") < line.find(" on Stub GPU has failed");
  }
  EXPECT_GT(named, 0);
}

TEST_F(StubDriver, memory_that_others_hold_is_told_with_all_figures_and_what_helps) {
  const std::string line = error_of(kTraining, "clCreateBuffer:5:-4");
  for (const char* const part :
       {"out of memory on Stub GPU: 9600 bytes asked for conv2.weight float32 [5, 5, 6, 16], ", " held, 85899345920 on the device, limit 85899345920: ",
        "clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4), so others may hold the rest of the device's memory; largest: conv1.weight ",
        "; accepted: a smaller batch, input or model, or another device; --accumulate 2 takes less"})
    EXPECT_NE(line.find(part), std::string::npos) << part << " is not in: " << line;
  EXPECT_NE(error_of(joined(kTraining, {"--memory-limit", "300k"}), "").find("; accepted: a smaller batch, input or model, or a larger limit (--memory-limit)"),
            std::string::npos);
}

// NVIDIA's driver takes memory when a kernel first uses it.
TEST_F(StubDriver, memory_that_a_launch_does_not_find_is_looked_for_again_once_what_is_cached_is_free) {
  EXPECT_EQ(run_on_stub(kTraining, "clEnqueueNDRangeKernel:20:-4:1").status, 0);
  const std::string line = error_of(kTraining, "clEnqueueNDRangeKernel:20:-4");
  for (const char* const part :
       {"clEnqueueNDRangeKernel: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4); ", "; work on Stub GPU, the last of it ", " held, 85899345920 on the device, ",
        ", so others may hold the rest; accepted: a smaller batch, input or model, another device, or a limit (--memory-limit) below what is free"})
    EXPECT_NE(line.find(part), std::string::npos) << part << " is not in: " << line;
}

TEST_F(StubDriver, a_tensor_larger_than_any_buffer_is_named_with_what_is_accepted) {
  const Words large{"train", "--model", "lenet", "--batch-size", "1024", "--limit", "2048", "--epochs", "1"};
  for (const Words& wanted :
       {Words{"eager", "gemel: conv1: out of memory on Stub GPU: 19267584 bytes asked for conv2d float32 [1024, 28, 28, 6], ",
              ": the device's largest buffer is 13000000 bytes; largest: ", "; accepted: a smaller batch, input or model"},
        Words{"graph", "gemel: conv1: conv2d+add+relu: float32 [1024, 28, 28, 6]: 19267584 bytes are more than the device's largest buffer, of 13000000",
              "; accepted: a smaller batch, input or model", "--accumulate 2 takes less"}}) {
    const std::string line = error_of(joined(large, {"--frontend", wanted[0]}), "", "allocation=13000000");
    for (std::size_t i = 1; i < wanted.size(); ++i) EXPECT_NE(line.find(wanted[i]), std::string::npos) << wanted[i] << " is not in: " << line;
  }
}

}  // namespace
}  // namespace gemel::testing
