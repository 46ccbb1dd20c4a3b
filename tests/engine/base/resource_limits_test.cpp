// What a process may use: masks of this process, and control groups of machines that are folders.
#include "engine/base/resource_limits.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace gemel {
namespace {

constexpr const char* kSecondVersion = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

class Allowance : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = root_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    testing::write_text(path, text);
  }
  std::optional<double> quota() const { return allowed_cores(root_.path()).quota; }
  std::int64_t limit() const { return allowed_memory(root_.path()).limit; }
  const std::filesystem::path& root() const { return root_.path(); }

 private:
  testing::TemporaryFolder root_;
};

int count(std::vector<int> processors, std::optional<double> quota, int of_machine) { return AllowedCores{std::move(processors), quota, of_machine}.count(); }

TEST_F(Allowance, cores_are_the_fewer_of_mask_and_quota_and_a_fraction_of_one_counts) {
  EXPECT_EQ(count({0, 1, 2, 3}, std::nullopt, 8), 4);
  EXPECT_EQ(count({0, 1, 2, 3}, 1.5, 8), 2);
  EXPECT_EQ(count({0, 1, 2, 3}, 3.0, 8), 3);
  EXPECT_EQ(count({0, 1, 2, 3}, 0.01, 8), 1);
  EXPECT_EQ(count({5}, 6.0, 8), 1);
  EXPECT_EQ(count({}, std::nullopt, 8), 8) << "where the system tells no mask";
  EXPECT_EQ(count({}, 1e12, 8), 8);
  EXPECT_TRUE((AllowedCores{{0, 1}, 2.0, 2}).is_whole_machine());
  EXPECT_FALSE((AllowedCores{{0, 1}, 1.0, 2}).is_whole_machine());
}

TEST_F(Allowance, cores_follow_the_mask_of_the_thread_that_asks) {
  const std::vector<int> all = allowed_cores().processors;
  ASSERT_FALSE(all.empty());
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(all.back()), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(allowed_cores().processors, std::vector<int>{all.back()});
    EXPECT_EQ(allowed_cores().count(), 1);
  }).join();
  EXPECT_EQ(allowed_cores().processors, all);
}

TEST_F(Allowance, nothing_is_limited_where_the_system_says_nothing) {
  EXPECT_FALSE(quota());
  EXPECT_EQ(allowed_memory(std::filesystem::path("/nowhere")).bytes(), AllowedMemory::kNoLimit);
}

TEST_F(Allowance, quota_is_the_least_from_the_group_up_to_the_root) {
  write("proc/self/mountinfo", kSecondVersion);
  write("proc/self/cgroup", "0::/kubepods/pod/container\n");
  write("sys/fs/cgroup/kubepods/pod/container/cpu.max", "max 100000\n");
  EXPECT_FALSE(quota());
  write("sys/fs/cgroup/kubepods/pod/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(quota().value(), 1.5);
  write("sys/fs/cgroup/kubepods/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(quota().value(), 0.5);
}

TEST_F(Allowance, memory_is_the_least_from_the_group_up_to_the_root) {
  write("proc/self/mountinfo", kSecondVersion);
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  EXPECT_EQ(limit(), AllowedMemory::kNoLimit);
  write("sys/fs/cgroup/outer/memory.max", "1000000\n");
  EXPECT_EQ(limit(), 1000000);
  write("sys/fs/cgroup/memory.max", "900000\n");
  EXPECT_EQ(limit(), 900000);
  write("sys/fs/cgroup/outer/inner/memory.max", "800000\n");
  EXPECT_EQ(limit(), 800000);
  write("proc/meminfo", "MemTotal:       16000000 kB\nMemFree:  12 kB\nMemAvailable:    700 kB\n");
  EXPECT_EQ(allowed_memory(root()).bytes(), 700 * 1024);
  EXPECT_EQ(allowed_memory(root()).of_machine, std::int64_t{16000000} * 1024);
}

TEST_F(Allowance, a_container_that_sees_its_own_group_as_the_root_is_limited_by_it) {
  write("proc/self/mountinfo", kSecondVersion);
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  write("sys/fs/cgroup/memory.max", "1048576\n");
  EXPECT_DOUBLE_EQ(quota().value(), 2);
  EXPECT_EQ(limit(), 1048576);
}

TEST_F(Allowance, of_the_first_version_controllers_may_share_a_folder) {
  write("proc/self/mountinfo",
        "34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:15 master:2 - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
        "36 31 0:33 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n");
  write("proc/self/cgroup", "4:memory:/mine\n3:cpuset:/other\n2:cpu,cpuacct:/mine\n0::/\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(quota());
  write("sys/fs/cgroup/cpu,cpuacct/mine/cpu.cfs_quota_us", "250000\n");
  write("sys/fs/cgroup/cpu,cpuacct/mine/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(quota().value(), 2.5);
  write("sys/fs/cgroup/memory/mine/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/mine/memory.stat", "cache 12\nhierarchical_memory_limit 700000\ntotal_cache 1\n");
  EXPECT_EQ(limit(), 700000) << "that of groups that are not mounted";
}

TEST_F(Allowance, a_group_below_the_one_that_is_mounted_is_found) {
  write("proc/self/mountinfo", "36 31 0:33 /docker/7f /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n");
  write("proc/self/cgroup", "4:memory:/docker/7f/part\n");
  write("sys/fs/cgroup/memory/part/memory.limit_in_bytes", "800000\n");
  EXPECT_EQ(limit(), 800000);
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "700000\n");
  EXPECT_EQ(limit(), 700000);
}

TEST_F(Allowance, a_mount_of_another_group_says_nothing) {
  write("proc/self/mountinfo", "36 31 0:33 /other /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  write("proc/self/cgroup", "4:memory:/otherwise\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "700000\n");
  EXPECT_EQ(limit(), AllowedMemory::kNoLimit);
}

TEST_F(Allowance, memory_from_which_on_a_process_is_held_back_is_a_limit) {
  write("proc/self/mountinfo", kSecondVersion);
  write("proc/self/cgroup", "0::/mine\n");
  write("sys/fs/cgroup/mine/memory.max", "900000\n");
  write("sys/fs/cgroup/mine/memory.high", "800000\n");
  EXPECT_EQ(limit(), 800000);
}

TEST_F(Allowance, damaged_files_limit_nothing) {
  write("proc/self/mountinfo", "\n31\nx y z\n- cgroup2\n" + std::string(kSecondVersion));
  write("proc/self/cgroup", "\n0\n0:\n::/..\n0::/mine\n");
  for (const char* text : {"", "max", "-1 100000", "100000 0", "100000", "x y", "0 100000"}) {
    write("sys/fs/cgroup/mine/cpu.max", text);
    EXPECT_FALSE(quota()) << text;
  }
}

}  // namespace
}  // namespace gemel
