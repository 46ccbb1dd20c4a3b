// Kernels over which the driver's compiler ends the process that it is in, by means that every LLVM has for it: they cost a variant, not the run.
#include "opencl/program/out_of_process_compilation.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/device/device_interpreter.h"
#include "engine/device/device_memory.h"
#include "engine/device/launch.h"
#include "engine/device/prepared_launch.h"
#include "engine/ops/ops.h"
#include "opencl/handle.h"
#include "opencl/pocl/fixpoint_check.h"
#include "opencl/program/compile_request.h"
#include "opencl/program/compiler_abort.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {
namespace {

constexpr const char* kDoubled = "kernel void f(global const float* x, global float* y) { const int i = get_global_id(0); y[i] = 2 * x[i]; }\n";
/// Ends clang as it reads the program.
const std::string kEndsBuild = std::string("#pragma clang __debug llvm_fatal_error\n") + kDoubled;
/// Ends LLVM as it selects instructions, which PoCL has it do when the kernel is enqueued: this one only a GPU has.
constexpr const char* kEndsEnqueue =
    "int lane(int, int) __asm__(\"llvm.amdgcn.mbcnt.lo\");\n"
    "kernel void f(global const float* x, global float* y) { const int i = get_global_id(0); y[i] = lane(i, 0) * x[i]; }\n";
/// Compiles, and ends whoever runs it among zeros.
constexpr const char* kCrashesAmongZeros =
    "kernel void f(global const float* x, global float* y) {\n"
    "  const int i = get_global_id(0); if (x[i] == 0) *(volatile global int*)0 = 1; y[i] = 3 * x[i]; }\n";

opencl::Kernel& kernel_of(opencl::Device& device, const std::string& title, const std::string& source) {
  return device.generated_kernel(
      title, [&] { return source; }, "f");
}

class DeviceCompilesApart : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test_device().profile().is_pocl()) GTEST_SKIP() << "ends the compiler of PoCL";
    ::setenv("GEMEL_COMPILE", "apart", 1);
    device_ = opencl::Device::open({});
    ::unsetenv("GEMEL_COMPILE");
    session_ = std::make_unique<Session>(device_);
  }
  void TearDown() override {
    session_.reset();
    device_.reset();
  }
  std::vector<double> run(const std::string& title, const std::string& source) {
    std::vector<double> numbers(64);
    std::iota(numbers.begin(), numbers.end(), 1.0);
    const Value x = session_->tensor(f32({64}), numbers), y = session_->empty(f32({64}));
    device_->run(kernel_of(*device_, title, source), opencl::range1(64, 16), {region_of(x), region_of(y)});
    return read(y);
  }
  std::shared_ptr<opencl::Device> device_;
  std::unique_ptr<Session> session_;
};

TEST_F(DeviceCompilesApart, a_kernel_that_ends_the_compiler_is_refused_each_time_and_the_next_one_runs) {
  for (int time : {1, 2}) {
    const std::string at_build = message_of<opencl::CompilerAbort>([&] { run("ends its build", kEndsBuild); });
    EXPECT_NE(at_build.find("ends its build: the driver's compiler ends its process over it: LLVM ERROR: "), std::string::npos) << time << at_build;
    const std::string at_enqueue = message_of<opencl::CompilerAbort>([&] { run("ends its enqueue", kEndsEnqueue); });
    EXPECT_NE(at_enqueue.find("ends its enqueue, kernel f: the driver's compiler ends its process over it: LLVM ERROR: "), std::string::npos)
        << time << at_enqueue;
    EXPECT_EQ(run("doubled", kDoubled)[9], 20);
  }
}

TEST_F(DeviceCompilesApart, a_kernel_that_only_crashes_among_zeros_is_not_refused_and_neither_is_the_next_one) {
  EXPECT_EQ(run("crashes among zeros", kCrashesAmongZeros)[9], 30);
  EXPECT_EQ(run("doubled after a crash", std::string("// after a crash\n") + kDoubled)[9], 20);
}

TEST_F(DeviceCompilesApart, operators_compute_what_they_compute_elsewhere) {
  const Shape shape{5, 33};
  const auto result = [&](Session& session) {
    session.manual_seed(3);
    const Value x = random_uniform(session, shape, -1, 1);
    return read(softmax(exp(x) + x, 1));
  };
  EXPECT_EQ(result(*session_), result(test_session()));
}

/// y = 2 x. Its first variant ranks above the second.
OpDef doubling(void (*first)(Launch&), void (*second)(Launch&)) {
  OpDef op{.name = "doubling", .doc = "y = 2 x", .inputs = {"x"}};
  op.infer = [](const Specs& in, const Attributes&) { return in; };
  op.variants = {{.name = "first", .doc = "", .rank = [](const Problem&, const opencl::DeviceProfile&) { return 1; }, .launch = first},
                 {.name = "second", .doc = "", .launch = second}};
  return op;
}
void launch(Launch& l, const std::string& title, const std::string& source) {
  l.device().run(kernel_of(l.device(), title, source), opencl::range1(l.in_spec(0).elements(), 16), {l.in(0), l.out(0)});
}
void right(Launch& l) { launch(l, "doubled", kDoubled); }
void ends_build(Launch& l) { launch(l, "ends its build", kEndsBuild); }
/// The first of its kernels compiles; nothing of it may run, or the sum would be kept.
void ends_second_enqueue(Launch& l) {
  l.device().run(kernel_of(l.device(), "spoils", "kernel void f(global float* x) { x[get_global_id(0)] = -1; }"), opencl::range1(l.in_spec(0).elements(), 16),
                 {l.in(0)});
  launch(l, "ends its enqueue", kEndsEnqueue);
}

TEST_F(DeviceCompilesApart, the_next_variant_computes_what_the_compiler_ended_over) {
  for (auto* first : {ends_build, ends_second_enqueue}) {
    const OpDef op = doubling(first, right);
    const Spec spec = f32({48});
    PreparedLaunch prepared(launch_target(*session_), op, {}, {spec}, {spec});
    for (int time : {1, 2}) {
      const Value in[]{full(*session_, spec, 3)}, out[]{session_->empty(spec)};
      prepared.run(in, out);
      EXPECT_EQ(read(out[0]), std::vector<double>(48, 6)) << time;
    }
  }
}

/// Not recorded, for the sake of `native`.
void ends_second_enqueue_of_a_library(Launch& l) {
  l.device().native([](void*, void**) {}, "a library");
  ends_second_enqueue(l);
}

TEST_F(DeviceCompilesApart, no_variant_goes_on_with_an_input_that_an_unrecorded_one_has_begun_to_write) {
  OpDef op = doubling(ends_second_enqueue_of_a_library, right);
  const Spec spec = f32({48});
  const Value in[]{full(*session_, spec, 3)}, out[]{session_->empty(spec)};
  op.writes = {0};
  PreparedLaunch in_place(launch_target(*session_), op, {}, {spec}, {spec});
  EXPECT_THROW(in_place.run(in, out), opencl::CompilerAbort);
  op.writes = {};
  PreparedLaunch reusing(launch_target(*session_), op, {}, {spec}, {spec});
  EXPECT_THROW(reusing.run(in, in), opencl::CompilerAbort);
}

TEST_F(DeviceCompilesApart, where_the_compiler_ends_over_every_variant_the_error_names_each) {
  const OpDef op = doubling(ends_build, ends_second_enqueue);
  const Spec spec = f32({48});
  PreparedLaunch prepared(launch_target(*session_), op, {}, {spec}, {spec});
  const Value in[]{full(*session_, spec, 3)}, out[]{session_->empty(spec)};
  const std::string told = message_of<DeviceError>([&] { prepared.run(in, out); });
  EXPECT_TRUE(told.starts_with("doubling: no kernel for float32 [48] runs on ")) << told;
  EXPECT_NE(told.find("; first: ends its build: the driver's compiler ends its process over it"), std::string::npos) << told;
  EXPECT_NE(told.find("; second: ends its enqueue, kernel f: the driver's compiler ends its process over it"), std::string::npos) << told;
}

cl_platform_id platform_of(opencl::Device& of) {
  cl_platform_id platform = nullptr;
  of.native(
      [&](void* queue, void**) {
        cl_device_id device = nullptr;
        clGetCommandQueueInfo(static_cast<cl_command_queue>(queue), CL_QUEUE_DEVICE, sizeof device, &device, nullptr);
        clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr);
      },
      "platform");
  return platform;
}

TEST(OutOfProcessCompiler, kernels_pass_with_one_warning_where_the_process_that_compiles_ends_before) {
  opencl::DeviceProfile profile = test_device().profile();
  profile.name = "none";
  opencl::OutOfProcessCompiler apart(platform_of(test_device()), profile);
  ::testing::internal::CaptureStderr();
  for (const char* source : {"kernel void f() {}", "kernel void g() {}"}) apart.compile({{"title", source, "", false}});
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(told.starts_with("gemel: warning: gemel-compile ends before it compiles: ")) << told;
  EXPECT_NE(told.find("; kernels are compiled in this process, which the driver's compiler may end\n"), std::string::npos) << told;
  EXPECT_EQ(told.find('\n'), told.size() - 1) << told;
}

/// Whether PoCL calls LLVM in a shared library, as in Debian 12 and 13. In Debian testing LLVM is linked into PoCL itself.
bool has_llvm_in_a_library() {
  std::istringstream maps(read_text("/proc/self/maps"));
  for (std::string line; std::getline(maps, line);) {
    const auto path = line.find('/');
    if (line.find("/libpocl.so") == line.npos || path == line.npos) continue;
    void* const driver = ::dlopen(line.c_str() + path, RTLD_LAZY | RTLD_NOLOAD);
    const bool has = driver && ::dlsym(driver, "LLVMContextCreate");  // of C, so in every version
    if (driver) ::dlclose(driver);
    return has;
  }
  return false;
}

/// It is the program's function only where the linker has exported it, and the driver's LLVM is in a file of its own.
TEST(OutOfProcessCompiler, passes_that_pocl_asks_llvm_for_are_read_by_the_program_first) {
  cl_platform_id platform = platform_of(test_device());
  if (!test_device().profile().is_pocl() || !has_llvm_in_a_library()) GTEST_SKIP() << "no PoCL whose LLVM is a library of its own";
  EXPECT_TRUE(opencl::asks_no_fixpoint_of(platform));
  EXPECT_FALSE(opencl::OutOfProcessCompiler::is_needed(platform, test_device().profile()));
}

TEST(OutOfProcessCompiler, drivers_that_check_for_a_fixed_point_are_known) {
  EXPECT_TRUE(opencl::checks_fixpoint("OpenCL 3.0 PoCL 6.0+debian  Linux, None+Asserts, RELOC, SPIR-V, LLVM 18.1.8, SLEEF, DISTRO, POCL_DEBUG"));
  for (const char* other :
       {"OpenCL 3.0 PoCL 6.0  Linux, Release, RELOC, LLVM 17.0.6, SLEEF", "OpenCL 3.0 PoCL 3.1+debian  Linux, None+Asserts, RELOC, SPIR, LLVM 15.0.6, SLEEF",
        "OpenCL 3.0 PoCL 7.1+debian  Linux, None+Asserts, RELOC, SPIR-V, LLVM 21.1.8, SLEEF", "OpenCL 3.0 LLVM 18.1.8", ""})
    EXPECT_FALSE(opencl::checks_fixpoint(other)) << other;
}

TEST(OutOfProcessCompiler, another_word_is_refused) {
  ::setenv("GEMEL_COMPILE", "always", 1);
  EXPECT_EQ(message_of<UsageError>([] { opencl::OutOfProcessCompiler::is_asked_for(); }), "GEMEL_COMPILE: 'always' is unknown; accepted: apart");
  ::unsetenv("GEMEL_COMPILE");
}

TEST(OutOfProcessCompiler, a_request_comes_as_it_was_sent) {
  opencl::CompileRequest sent{{"title", "source\n\"\\", "-DX=1", true}, "f", opencl::range2({64, 3}, {16, 1})};
  const float infinity = std::numeric_limits<float>::infinity();
  sent.arguments = {opencl::Region{}, std::int32_t{-5}, std::int64_t{1} << 40, -0.0f, infinity};
  const opencl::CompileRequest got = opencl::request_from(opencl::to_text(sent));
  EXPECT_EQ(got.program.source, sent.program.source);
  EXPECT_EQ(got.program.options, "-DX=1");
  EXPECT_TRUE(got.program.declares_builtins);
  EXPECT_EQ(got.range, sent.range);
  EXPECT_EQ(std::get<opencl::Region>(got.arguments[0]).bytes, 0);
  EXPECT_EQ(std::get<std::int32_t>(got.arguments[1]), -5);
  EXPECT_EQ(std::get<std::int64_t>(got.arguments[2]), std::int64_t{1} << 40);
  EXPECT_TRUE(std::signbit(std::get<float>(got.arguments[3])));
  EXPECT_EQ(std::get<float>(got.arguments[4]), infinity);
  EXPECT_THROW(opencl::request_from("{"), InternalError);
}

}  // namespace
}  // namespace gemel::testing
