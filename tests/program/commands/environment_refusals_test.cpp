// What the gemel program does where drivers, devices, limits or variables are not as it needs them: one line that names them.
#include <stdlib.h>
#include <sys/resource.h>

#include "tests/support/device/test_device.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

class EnvironmentRefusals : public CommandLine {};

TEST_F(EnvironmentRefusals, without_an_opencl_platform_it_says_how_to_get_one) {
  const auto none = [this] {
    fs::create_directory(folder() / "empty");
    ::setenv("OCL_ICD_VENDORS", (in_folder("empty") + "/").c_str(), 1);
    ::unsetenv("OCL_ICD_FILENAMES");
  };
  expect_refused(training({}), 1, "gemel: platform: no OpenCL platform is found; accepted: any OpenCL driver, for instance the package pocl-opencl-icd", none);
  const Outcome o = run({"devices"}, none);
  EXPECT_EQ(o.status, 0) << "an empty list is an answer: " << o.err;
  EXPECT_NE(o.out.find("no OpenCL platform is installed"), std::string::npos) << o.out;
}

TEST_F(EnvironmentRefusals, no_emulator_stands_in_for_a_pocl_that_cannot_write_its_cache) {
  if (test_device().profile().platform != "Portable Computing Language") GTEST_SKIP() << "PoCL is not what the tests run on";
  const auto unwritable = [] {
    ::setenv("HOME", "/proc/none", 1);
    for (const char* name : {"GEMEL_CACHE_DIR", "POCL_CACHE_DIR", "XDG_CACHE_HOME", "GEMEL_PLATFORM", "GEMEL_DEVICE"}) ::unsetenv(name);
  };
  for (const Words& words : {training({"--platform", "pocl"}), training({"--device", "cpu"})})
    expect_refused(words, 1, "offers none where its cache cannot be written: POCL_CACHE_DIR names /proc/none", [&] {
      unwritable();
      ::setenv("POCL_CACHE_DIR", "/proc/none", 1);
    });
  const Outcome o = run(training({"--platform", "pocl", "--memory-limit", "1000"}), unwritable);
  EXPECT_EQ(o.err.rfind("gemel: warning: kernel cache: /proc/none/.cache/gemel/pocl/", 0), 0u) << "another folder was not asked for: " << o.err;
  EXPECT_NE(o.err.find("the memory limit is reached"), std::string::npos) << "it goes on as it would: " << o.err;
}

TEST_F(EnvironmentRefusals, where_rusticl_shows_no_card_the_variable_is_named_by_which_it_does) {
  if (std::ranges::none_of(opencl::platforms(), [](const auto& p) { return p.name == "rusticl"; })) GTEST_SKIP() << "rusticl is not installed";
  const auto no_driver = [] { ::setenv("RUSTICL_ENABLE", "", 1); };
  expect_refused(training({"--platform", "rusticl"}), 1, "; rusticl shows the cards of drivers that RUSTICL_ENABLE names: radeonsi (AMD), iris (Intel)",
                 no_driver);
  expect_refused(training({"--platform", "rusticl", "--device", "gpu"}), 1, "RUSTICL_ENABLE", no_driver);
}

TEST_F(EnvironmentRefusals, a_cache_folder_that_was_asked_for_and_cannot_be_made_is_named) {
  for (const std::vector<std::string>& words : {training({}), {"devices"}})
    expect_refused(words, 1, "gemel: GEMEL_CACHE_DIR: /proc/none/pocl/", [] {
      ::unsetenv("POCL_CACHE_DIR");
      ::setenv("GEMEL_CACHE_DIR", "/proc/none", 1);
    });
}

TEST_F(EnvironmentRefusals, what_pocl_would_crash_on_is_named) {
  const std::vector<std::pair<const char*, const char*>> bad{{"POCL_MAX_PTHREAD_COUNT", "-1"},
                                                             {"POCL_MAX_PTHREAD_COUNT", "99999999999"},
                                                             {"POCL_CPU_MAX_CU_COUNT", "four"},
                                                             {"POCL_PTHREAD_MIN_THREADS", "-1"},
                                                             {"POCL_TRACING", "cq"},
                                                             {"POCL_OFFLINE_COMPILE", "1"},
                                                             {"POCL_MAX_WORK_GROUP_SIZE", "0"},
                                                             {"POCL_MAX_WORK_GROUP_SIZE", "2"},
                                                             {"POCL_DEBUG_LLVM_PASSES", "1"},
                                                             {"POCL_STARTUP_DELAY", "1000000"}};
  for (const auto& [name, value] : bad)
    expect_refused({"devices"}, 2, std::string("gemel: ") + name + ": '" + value + "' is not accepted; accepted: ", [&] { ::setenv(name, value, 1); });
  const auto bind_too_many = [] {
    ::setenv("POCL_AFFINITY", "1", 1);
    ::setenv("POCL_MAX_PTHREAD_COUNT", "4000", 1);
  };
  expect_refused({"devices"}, 2, "gemel: POCL_MAX_PTHREAD_COUNT: '4000' is not accepted; accepted: digits, 0..", bind_too_many);
  const Outcome o = run({"devices"}, [] {
    ::unsetenv("POCL_AFFINITY");
    ::setenv("POCL_MAX_PTHREAD_COUNT", "100", 1);
  });
  EXPECT_EQ(o.status, 0) << "more threads than processors, each of which would be bound to one: " << o.err;
}

TEST_F(EnvironmentRefusals, limits_too_low_for_drivers_are_one_line) {
  const auto expect_limit = [this](const char* line, int of, rlim_t least) {
    expect_refused({"devices"}, 1, line, [=] {
      const rlimit limit{least, least};
      ::setrlimit(of, &limit);
    });
  };
  expect_limit("gemel: stack size: its limit (ulimit -s) is 512 KiB", RLIMIT_STACK, 512 << 10);
  expect_limit("gemel: open files: their limit (ulimit -n) is 20; accepted: 64 or more", RLIMIT_NOFILE, 20);
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer maps terabytes";
#endif
  expect_limit("gemel: data size: its limit (ulimit -d) leaves ", RLIMIT_DATA, 100 << 20);
  for (const rlim_t megabytes : {300, 500, 900})
    expect_refused(training({}), 1, "gemel: address space: its limit (ulimit -v) leaves ", [=] {
      const rlimit limit{megabytes << 20, megabytes << 20};
      ::setrlimit(RLIMIT_AS, &limit);
    });
}

TEST_F(EnvironmentRefusals, ranks_in_the_environment_are_digits) {
  const auto launched_as = [](const char* rank, const char* size) {
    return [=] {
      ::setenv("OMPI_COMM_WORLD_RANK", rank, 1);
      ::setenv("OMPI_COMM_WORLD_SIZE", size, 1);
    };
  };
  const Words ddp = training({"--parallel", "ddp"});
  for (const char* rank : {"one", "0x1", "-1", "1 ", "99999999999", "+0"})
    expect_refused(ddp, 1, "gemel: OMPI_COMM_WORLD_RANK: '" + std::string(rank) + "' is not accepted; accepted: digits", launched_as(rank, "2"));
  expect_refused(ddp, 1, "gemel: OMPI_COMM_WORLD_SIZE: '2ranks' is not accepted", launched_as("0", "2ranks"));
  expect_refused(ddp, 1, "gemel: OMPI_COMM_WORLD_RANK: 2 is not a rank of 2 (OMPI_COMM_WORLD_SIZE); accepted: one of 0..1", launched_as("2", "2"));
  expect_refused({"train", "--no-such-option"}, 2, "--no-such-option", launched_as("one", "2"));
}

TEST_F(EnvironmentRefusals, a_device_that_is_not_there_is_a_wrong_usage_also_where_the_environment_names_it) {
  expect_refused(training({"--device", "7"}), 2, "gemel: device: none that is '7'");
  expect_refused(training({"--device", "toaster"}), 2, "gemel: device: 'toaster' is unknown; accepted: ");
  const auto with = [this](const char* name, const char* value, const std::string& text) {
    expect_refused(training({}), 2, text, [name, value] { ::setenv(name, value, 1); });
  };
  with("GEMEL_PLATFORM", "nonesuch", "gemel: platform: 'nonesuch' is not found; accepted: ");
  with("GEMEL_DEVICE", "toaster", "gemel: device: 'toaster' is unknown; accepted: ");
  with("GEMEL_ALLOCATOR", "nonesuch", "gemel: GEMEL_ALLOCATOR: 'nonesuch' is unknown; accepted: exact");
  with("GEMEL_VERBOSE", "nonesuch", "gemel: GEMEL_VERBOSE: 'nonesuch' is unknown; accepted: dispatch, kernels");
  with("GEMEL_VERBOSE", "dispatch,kernel", "gemel: GEMEL_VERBOSE: 'kernel' is unknown; accepted: dispatch, kernels");
}

TEST_F(EnvironmentRefusals, a_model_larger_than_the_memory_names_the_tensor) {
  expect_refused(training({"--classes", "100000", "--memory-limit", "10000000"}), 1, "bytes asked for fc3.weight float32 [84, 100000]");
}

}  // namespace
}  // namespace gemel::testing
