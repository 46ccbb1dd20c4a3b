// How much device memory may be held, on machines that are folders.
#include "opencl/memory/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "engine/base/error.h"
#include "engine/base/resource_limits.h"
#include "tests/support/temporary_folder.h"

namespace gemel::opencl {
namespace {

constexpr std::int64_t kDevice = std::int64_t{8} << 30;

class MemoryLimit : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = root_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    testing::write_text(path, text);
  }
  const std::filesystem::path& root() const { return root_.path(); }
  std::int64_t limit(bool on_host = true, MemorySharers sharers = {}) const {
    DeviceProfile profile;
    profile.kind = on_host ? DeviceKind::cpu : DeviceKind::gpu;
    profile.global_bytes = kDevice;
    return default_memory_limit(profile, sharers, root_.path());
  }

 private:
  testing::TemporaryFolder root_;
};

TEST_F(MemoryLimit, is_the_devices_where_nothing_else_is_known) { EXPECT_EQ(limit(), kDevice); }

TEST_F(MemoryLimit, is_what_the_host_has_free_where_the_device_is_the_host) {
  write("proc/meminfo", "MemTotal:       16000000 kB\nMemFree:  12 kB\nMemAvailable:    2000000 kB\n");
  EXPECT_EQ(limit(), 2000000 * std::int64_t{1024});
  EXPECT_EQ(limit(false), kDevice);
  EXPECT_EQ(limit(true, {.of_host = 4}), 500000 * std::int64_t{1024});
  EXPECT_EQ(limit(false, {.of_host = 4}), kDevice);
}

TEST_F(MemoryLimit, is_what_the_address_space_has_beside_what_is_mapped_and_the_compiler_needs) {
  const std::int64_t mapped = 1000 * ::sysconf(_SC_PAGESIZE), compiler = std::int64_t{256} << 20;
  const auto limited_to = [this](const std::string& bytes, const std::string& of_data = "unlimited") {
    write("proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units     \nMax cpu time              1                    1                    "
          "seconds   \n"
          "Max data size             " +
              of_data +
              "           unlimited            bytes     \n"
              "Max address space         " +
              bytes + "           unlimited            bytes     \n");
  };
  write("proc/self/statm", "1000 500 100 10 0 200 0\n");
  limited_to("unlimited");
  EXPECT_EQ(limit(), kDevice);
  EXPECT_NO_THROW(check_process_limits(root()));
  limited_to("1073741824");
  EXPECT_EQ(limit(), (std::int64_t{1} << 30) - mapped - compiler);
  EXPECT_EQ(limit(true, {.of_host = 4}), (std::int64_t{1} << 30) - mapped - compiler) << "each process has its own";
  EXPECT_EQ(limit(true, {.of_host = 4, .of_process = 4}), ((std::int64_t{1} << 30) - mapped - compiler) / 4) << "ranks that are threads share one";
  EXPECT_EQ(limit(false), kDevice);
  EXPECT_THROW(check_process_limits(root()), DeviceError);
  limited_to("1048576");
  EXPECT_EQ(limit(), 1);
  limited_to("unlimited", "1073741824");
  EXPECT_EQ(limit(), (std::int64_t{1} << 30) - mapped / 5 - compiler) << "200 of the pages are data";
  limited_to("unlimited", "1048576");
  EXPECT_THROW(check_process_limits(root()), DeviceError);
}

TEST_F(MemoryLimit, of_a_process_is_accepted_where_it_is_just_enough_and_refused_below) {
  write("proc/self/statm", "0 0 0 0 0 0 0\n");
  const std::int64_t stacks = (std::int64_t{8} << 20) * allowed_cores().count();
  const std::pair<const char*, std::int64_t> least[] = {{"Max address space", (std::int64_t{1200} << 20) + stacks},
                                                        {"Max data size", (std::int64_t{400} << 20) + stacks},
                                                        {"Max stack size", 1 << 20},
                                                        {"Max open files", 64}};
  for (const auto& [name, enough] : least) {
    const auto limited_to = [&](std::int64_t number) {
      write("proc/self/limits", name + std::string("      ") + std::to_string(number) + "      unlimited   units\n");
    };
    limited_to(enough);
    EXPECT_NO_THROW(check_process_limits(root())) << name;
    limited_to(enough - 1);
    EXPECT_THROW(check_process_limits(root()), DeviceError) << name;
  }
}

TEST_F(MemoryLimit, is_that_of_the_control_groups) {
  write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "0::/mine\n");
  write("sys/fs/cgroup/mine/memory.max", "max\n");
  EXPECT_EQ(limit(), kDevice);
  write("sys/fs/cgroup/memory.max", "1000000\n");
  EXPECT_EQ(limit(), 1000000);
  EXPECT_EQ(limit(true, {.of_host = 4}), 250000);
  EXPECT_EQ(limit(false), kDevice);
}

}  // namespace
}  // namespace gemel::opencl
