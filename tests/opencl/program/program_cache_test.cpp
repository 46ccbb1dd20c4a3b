// The cache of compiled programs: hits, damaged files and folders that cannot be written.
#include "opencl/program/program_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "opencl/program/kernel_sources.h"
#include "opencl/program/offset_arguments.h"
#include "tests/support/device/cache_folder.h"
#include "tests/support/device/test_device.h"
#include "tests/support/faults/damaged_files.h"
#include "tests/support/faults/full_disk.h"

namespace gemel::opencl {
namespace {

namespace fs = std::filesystem;
using Binary = std::vector<unsigned char>;

std::vector<fs::path> cached_files(const fs::path& folder) {
  std::vector<fs::path> out;
  if (fs::exists(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_regular_file()) out.push_back(entry.path());
  return out;
}

/// A folder that goes with the test.
class Folder {
 public:
  Folder()
      : path_(fs::temp_directory_path() /
              ("gemel_program_cache_" + std::to_string(::getpid()) + "_" + ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

DeviceProfile some_profile() {
  DeviceProfile p;
  p.platform = "platform";
  p.name = "device";
  p.driver = "1.0";
  return p;
}

void overwrite(const fs::path& file, const std::string& content) { std::ofstream(file, std::ios::binary | std::ios::trunc) << content; }

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

int answer(Device& device) {
  Kernel& kernel = device.generated_kernel(
      "answer", [] { return std::string("__kernel void answer(__global int* y) { *y = 42; }"); }, "answer");
  const Buffer y = device.memory().allocate(4, "y");
  device.run(kernel, range1(1), {whole(y)});
  int value = 0;
  device.read(whole(y), std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

TEST(ProgramCache, stored_binary_is_found_again_under_its_source_options_and_device) {
  const Folder folder;
  const ProgramCache cache(folder.path(), some_profile());
  const Binary binary{1, 2, 3};
  EXPECT_TRUE(cache.load("source", "").empty());
  cache.store("source", "", binary);
  EXPECT_EQ(cache.load("source", ""), binary);
  EXPECT_TRUE(cache.load("other source", "").empty());
  EXPECT_TRUE(cache.load("source", "-DX").empty());
  for (std::string DeviceProfile::*field : {&DeviceProfile::name, &DeviceProfile::driver, &DeviceProfile::platform, &DeviceProfile::version}) {
    DeviceProfile other = some_profile();
    other.*field += "!";
    EXPECT_TRUE(ProgramCache(folder.path(), other).load("source", "").empty());
  }
  EXPECT_EQ(cached_files(folder.path()).size(), 1u) << "nothing is left beside it";
}

TEST(ProgramCache, damaged_file_is_as_good_as_none) {
  const Folder folder;
  const ProgramCache cache(folder.path(), some_profile());
  cache.store("source", "", Binary(100, 7));
  const fs::path file = cached_files(folder.path()).at(0);
  const std::string good = content(file);
  std::string flipped = good;
  flipped.back() ^= 1;
  for (const std::string& bad : {std::string(), good.substr(0, 10), good.substr(0, good.size() - 1), good + "x", flipped}) {
    overwrite(file, bad);
    EXPECT_TRUE(cache.load("source", "").empty()) << bad.size() << " bytes";
  }
  cache.store("source", "", Binary(100, 7));
  EXPECT_EQ(cache.load("source", ""), Binary(100, 7));
}

TEST(ProgramCache, gives_the_binary_or_nothing_after_any_mutation) {
  const Folder folder;
  const ProgramCache cache(folder.path(), some_profile());
  const Binary binary(300, 7);
  std::mt19937_64 random(4);
  for (int i = 0; i < (testing::is_full_run() ? 1000 : 100); ++i) {
    if (i % 50 == 0) cache.store("source", "", binary);  // which waits for the disk
    const std::string what = testing::mutate(cached_files(folder.path()).at(0), random);
    const Binary loaded = cache.load("source", "");
    EXPECT_TRUE(loaded.empty() || loaded == binary) << i << ": " << what;
  }
}

TEST(ProgramCache, writers_and_readers_never_meet_half_a_file) {
  const Folder folder;
  const ProgramCache cache(folder.path(), some_profile());
  const Binary binary(1 << 16, 5);
  cache.store("source", "", binary);
  std::vector<std::thread> threads;
  std::atomic<int> misses = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        if (t % 2)
          cache.store("source", "", binary);
        else if (cache.load("source", "") != binary)
          ++misses;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(misses, 0);
  EXPECT_EQ(cached_files(folder.path()).size(), 1u);
}

TEST(ProgramCache, folder_that_cannot_be_made_is_told_of_once_and_changes_nothing) {
  const Folder folder;
  fs::create_directories(folder.path());
  overwrite(folder.path() / "file", "");
  const ProgramCache cache(folder.path() / "file" / "below", some_profile());
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(cache.stores());
  for (const char* source : {"source", "other"}) cache.store(source, "", Binary(3, 1));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.rfind("gemel: warning: kernel cache: ", 0), 0u) << said;
  EXPECT_NE(said.find((folder.path() / "file" / "below").string()), std::string::npos) << said;
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  EXPECT_FALSE(cache.stores());
  EXPECT_TRUE(cache.load("source", "").empty());
}

TEST(ProgramCache, full_disk_is_told_of_once_and_leaves_what_was_there) {
  const Folder folder;
  const ProgramCache cache(folder.path(), some_profile());
  const Binary before(100, 1);
  cache.store("before", "", before);
  ::testing::internal::CaptureStderr();
  {
    const testing::FilesUpTo full(4096);  // more than is said
    for (const char* source : {"source", "other"}) cache.store(source, "", Binary(10'000, 2));
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.rfind("gemel: warning: kernel cache: write: cannot write " + folder.path().string() + "/", 0), 0u) << said;
  EXPECT_NE(said.find(".bin: File too large; compiled programs are not kept\n"), std::string::npos) << said;
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  EXPECT_FALSE(cache.stores());
  EXPECT_TRUE(cache.load("source", "").empty());
  EXPECT_EQ(cache.load("before", ""), before);
  EXPECT_EQ(cached_files(folder.path()).size(), 1u) << "no half a file is left";
}

TEST(ProgramCache, folder_follows_the_environment) {
  const testing::CacheFolder folder;
  EXPECT_EQ(ProgramCache::default_folder(), folder.path());
}

TEST(ProgramCache, folder_is_none_that_the_environment_names_by_a_relative_path) {
  const testing::CacheFolder own;
  const testing::Variable none("GEMEL_CACHE_DIR", ""), home("HOME", "/home/somebody");
  const auto with_xdg = [](const char* folder) {
    const testing::Variable xdg("XDG_CACHE_HOME", folder);
    return ProgramCache::default_folder().value().string();
  };
  EXPECT_EQ(with_xdg("/caches"), "/caches/gemel");
  for (const char* relative : {"", "caches", "./caches", "../caches", "~/caches", "$HOME/caches"})
    EXPECT_EQ(with_xdg(relative), "/home/somebody/.cache/gemel") << relative;
}

TEST(DeviceProgramCache, second_device_runs_the_first_ones_binary) {
  const testing::CacheFolder folder;
  EXPECT_EQ(answer(*Device::open({})), 42);
  const auto files = cached_files(folder.path());
  if (files.empty()) GTEST_SKIP() << "the driver keeps a cache of its own";
  const auto written = fs::last_write_time(files[0]);
  EXPECT_EQ(answer(*Device::open({})), 42);
  EXPECT_EQ(cached_files(folder.path()), files);
  EXPECT_EQ(fs::last_write_time(files[0]), written) << "it was built again";
}

TEST(DeviceProgramCache, damaged_binary_is_built_again) {
  const testing::CacheFolder folder;
  EXPECT_EQ(answer(*Device::open({})), 42);
  const auto files = cached_files(folder.path());
  if (files.empty()) GTEST_SKIP() << "the driver keeps a cache of its own";
  const std::string good = content(files[0]);
  overwrite(files[0], good.substr(0, good.size() / 2));
  EXPECT_EQ(answer(*Device::open({})), 42);
  EXPECT_EQ(content(files[0]).size(), good.size());
}

TEST(DeviceProgramCache, binary_that_the_driver_refuses_is_built_again) {
  const testing::CacheFolder folder;
  const auto device = Device::open({});
  if (device->profile().platform == "rusticl") GTEST_SKIP() << "its driver ends the process on a binary that is not its own";
  const std::string kernel = "__kernel void answer(__global int* y) { *y = 42; }\n";
  const std::string source = macros_for(device->profile()) + (device->profile().overlaps_sub_buffers ? kernel : with_offset_arguments(kernel));
  const ProgramCache cache(folder.path(), device->profile());
  cache.store(source, "", Binary(200, 3));
  EXPECT_EQ(answer(*device), 42);
  EXPECT_EQ(cache.load(source, "") == Binary(200, 3), !ProgramCache::folder_for(device->profile())) << "where there is a cache, the program is stored anew";
}

TEST(DeviceProgramCache, kernels_may_call_what_builtins_clh_does_not_declare) {
  const auto device = Device::open({});
  Kernel& kernel = device->generated_kernel(
      "gamma_of_5", [] { return std::string("__kernel void gamma_of_5(__global float* y) { *y = tgamma(5.0f); }"); }, "gamma_of_5");
  const Buffer y = device->memory().allocate(4, "y");
  device->run(kernel, range1(1), {whole(y)});
  float value = 0;
  device->read(whole(y), std::as_writable_bytes(std::span(&value, 1)));
  EXPECT_NEAR(value, 24, 1e-4) << "4!";
}

TEST(EmbeddedSources, are_found_whole_and_without_includes) {
  ASSERT_FALSE(kernel_sources().empty());
  for (const KernelSource& s : kernel_sources()) EXPECT_EQ(embedded_source(s.file).find("\n#include"), std::string::npos) << s.file;
  EXPECT_THROW(embedded_source("no_such_file.cl"), InternalError);
}

}  // namespace
}  // namespace gemel::opencl
