// gemel launch in surroundings that would lead mpirun astray: masks and quotas, schedulers, sites' policies, closed system calls, folders and interfaces.
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <array>
#include <cstddef>

#include "engine/base/resource_limits.h"
#include "frontends/cli/launch/hosts.h"
#include "parallel/transport/communicator.h"
#include "tests/support/device/test_device.h"
#include "tests/support/program/job_fixture.h"

namespace gemel::testing {
namespace {

/// From here on this process and those that it starts run on its last processor.
void take_one_processor() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(allowed_cores().processors.back()), &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

/// As a container does.
void close_process_vm_readv() {
  std::array<sock_filter, 4> program{{{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                                      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, __NR_process_vm_readv},
                                      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
                                      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

class LaunchSurroundings : public Job {
 protected:
  static constexpr int kCannot = 77;  // of a process that may not make its surroundings

  static Words launch(const Words& options, const Words& command) { return joined(joined({"launch"}, options), command); }
  Words steps(const std::string& log, const Words& more = {}) const {
    return lenet(joined({"--steps", "2", "--parallel", "ddp", "--log-dir", in_folder(log)}, more));
  }
  /// In mpirun's place, first on the path: it writes down what it gets.
  void use_false_mpirun() const {
    const std::string script = fmt::format("#!/bin/sh\necho \"$@\" >{0}/words\nenv >{0}/environment\n", folder().string());
    write_text(folder() / "mpirun", script);
    std::filesystem::permissions(folder() / "mpirun", std::filesystem::perms::owner_all);
  }
  Outcome run_with_false_mpirun(const Words& arguments, const std::function<void()>& prepare = {}) {
    use_false_mpirun();
    return run(arguments, [&] {
      ::setenv("PATH", (folder().string() + ":" + ::getenv("PATH")).c_str(), 1);
      if (prepare) prepare();
    });
  }
  /// Whose device has set them for all the processors that it may use.
  static void forget_this_process() {
    for (const char* variable : {"POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT", "POCL_AFFINITY"}) ::unsetenv(variable);
  }
  std::string words() const { return read_text(folder() / "words"); }
  std::string environment() const { return "\n" + read_text(folder() / "environment"); }
  static void expect_own_lines_alone(const Outcome& o) {
    for (const std::string& line : lines_of(o.err))
      EXPECT_TRUE(std::ranges::any_of(std::array{"launch: ", "device: ", "ddp: ", "model: ", "epoch "}, [&](const char* begin) {
        return line.starts_with(begin);
      })) << line;
  }
  void expect_trains(int ranks, const Words& options, const std::function<void()>& prepare, int units) {
    const std::string log = fmt::format("log{}", runs_++);
    const Outcome o = finish_within(std::chrono::seconds(60), start_job(launch(joined({"--np", std::to_string(ranks)}, options), steps(log)), [&] {
                                      forget_this_process();
                                      prepare();
                                    }));
    if (o.status == kCannot) GTEST_SKIP() << "needs root, and mounts, networks and control groups that it may make";
    ASSERT_EQ(o.status, 0) << o.err;
    expect_own_lines_alone(o);
    const Json each = events(log).front()["each_rank"];
    ASSERT_EQ(each.size(), static_cast<std::size_t>(ranks));
    for (const Json& rank : each) EXPECT_EQ(rank["units"], units) << each.dump();
  }

 private:
  int runs_ = 0;
};

std::vector<int> shares_of(const std::vector<std::string>& hosts, const std::vector<AllowedCores>& allowed) {
  return parallel::Placement::of(hosts, allowed).cores;
}

TEST(Placement, ranks_of_a_machine_share_the_cores_that_more_than_one_of_them_may_use) {
  const AllowedCores all{{0, 1, 2, 3}, std::nullopt, 4}, first{{0, 1}, std::nullopt, 4}, last{{2, 3}, std::nullopt, 4}, one{{3}, std::nullopt, 4};
  using Shares = std::vector<int>;
  EXPECT_EQ(shares_of({"a", "a"}, {all, all}), (Shares{2, 2}));
  EXPECT_EQ(shares_of({"a", "a"}, {first, last}), (Shares{2, 2})) << "bound to cores of their own";
  EXPECT_EQ(shares_of({"a", "b"}, {all, all}), (Shares{4, 4})) << "on machines of their own";
  EXPECT_EQ(shares_of({"a", "a", "a"}, {first, one, last}), (Shares{2, 0, 1})) << "0: waiting, none may hold the core";
  EXPECT_EQ(shares_of({"a", "a"}, {{}, {}}), (Shares{0, 0})) << "a machine of one core whose mask is not told";
}

TEST(Placement, ranks_of_a_machine_share_its_quota) {
  const auto with_quota = [](std::vector<int> mask, double quota) { return AllowedCores{std::move(mask), quota, 4}; };
  using Shares = std::vector<int>;
  EXPECT_EQ(shares_of({"a", "a"}, {with_quota({0, 1, 2, 3}, 2), with_quota({0, 1, 2, 3}, 2)}), (Shares{1, 1}));
  EXPECT_EQ(shares_of({"a", "a"}, {with_quota({0, 1}, 1.5), with_quota({2, 3}, 1.5)}), (Shares{1, 1})) << "bound or not";
  EXPECT_EQ(shares_of({"a", "a", "a"}, std::vector<AllowedCores>(3, with_quota({0, 1, 2, 3}, 2))), (Shares{0, 0, 0}));
  EXPECT_EQ(shares_of({"a", "b"}, {with_quota({0, 1, 2, 3}, 2), with_quota({0, 1, 2, 3}, 2)}), (Shares{2, 2}));
}

TEST(Placement, of_some_ranks_keeps_the_shares_of_all) {
  const AllowedCores two{{0, 1}, std::nullopt, 2};
  const auto part = parallel::Placement::of({"a", "a", "b", "a"}, std::vector<AllowedCores>(4, two)).part(std::array{3, 2});
  EXPECT_EQ(part.hosts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(part.local_rank, (std::vector<int>{0, 0}));
  EXPECT_EQ(part.cores, (std::vector<int>{0, 2}));
}

TEST_F(LaunchSurroundings, every_address_of_the_loopback_is_this_machine) {
  for (const char* host : {"localhost", "127.0.0.1", "127.0.1.1", "127.8.9.10"}) EXPECT_TRUE(cli::is_here(host)) << host;
  for (const char* host : {"203.0.113.7", "2001:db8::1", "256.0.0.1", "-"}) EXPECT_FALSE(cli::is_here(host)) << host;
  const Outcome o = run_with_false_mpirun(launch({"--np", "3", "--hosts", "127.0.1.1:2,127.0.0.1"}, lenet({"--parallel", "ddp"})));
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(words().find("--host localhost:2,localhost:1 "), std::string::npos) << "mpirun would ask ssh: " << words();
}

TEST_F(LaunchSurroundings, on_one_processor_of_several_any_number_of_ranks_runs_there) {
  if (!test_device().profile().is_pocl()) GTEST_SKIP() << "needs a device that divides";
  for (const int ranks : is_full_run() ? std::vector{1, 2, 3} : std::vector{2}) expect_trains(ranks, {}, take_one_processor, 1);
}

/// Names a control group of this process's own, of version 1 or 2, and enters it. @return whether it may
bool enter_group(const char* controller, const std::vector<std::pair<const char*, const char*>>& first,
                 const std::vector<std::pair<const char*, const char*>>& second) {
  namespace fs = std::filesystem;
  const fs::path all = "/sys/fs/cgroup", name = "gemel-test-" + std::string(controller) + "-" + std::to_string(::getppid());
  const bool is_first = fs::exists(all / controller);
  const fs::path group = is_first ? all / controller / name : all / name;
  std::error_code refused;
  fs::create_directory(group, refused);
  if (!is_first) std::ofstream(all / "cgroup.subtree_control") << "+" << controller;
  for (const auto& [file, value] : is_first ? first : second)
    if (!(std::ofstream(group / file) << value << std::flush)) return false;
  return static_cast<bool>(std::ofstream(group / "cgroup.procs") << 0 << std::flush);
}
/// Once its processes have ended.
void remove_group(const char* controller) {
  for (const std::string& root : {std::string("/sys/fs/cgroup/"), "/sys/fs/cgroup/" + std::string(controller) + "/"}) {
    const std::string group = root + "gemel-test-" + controller + "-" + std::to_string(::getpid());
    for (int i = 0; i < 100 && ::rmdir(group.c_str()) != 0 && errno == EBUSY; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST_F(LaunchSurroundings, in_a_cpuset_of_one_processor_any_number_of_ranks_runs) {
  if (!is_full_run()) GTEST_SKIP() << "with --full";
  if (!test_device().profile().is_pocl()) GTEST_SKIP() << "needs a device that divides";
  const std::string last = std::to_string(allowed_cores().processors.back());
  const auto enter = [&] {
    if (!enter_group("cpuset", {{"cpuset.mems", "0"}, {"cpuset.cpus", last.c_str()}}, {{"cpuset.cpus", last.c_str()}})) ::_exit(kCannot);
  };
  for (const int ranks : {1, 2, 3}) expect_trains(ranks, {}, enter, 1);
  remove_group("cpuset");
}

TEST_F(LaunchSurroundings, devices_have_no_more_units_than_a_mask_or_a_quota_has_cores) {
  if (!test_device().profile().is_pocl()) GTEST_SKIP() << "needs PoCL's threads";
  const auto units = [&](const std::function<void()>& prepare) {
    const Outcome o = run({"devices", "--json"}, [&] {
      forget_this_process();
      prepare();
    });
    if (o.status == kCannot) return 0;
    EXPECT_EQ(o.status, 0) << o.err;
    const Json all = Json::parse(o.out);
    for (const Json& platform : all["platforms"])
      for (const Json& device : platform["devices"])
        if (platform["name"] == "Portable Computing Language") return device["compute_units"].get<int>();
    ADD_FAILURE() << o.out;
    return 0;
  };
  EXPECT_EQ(units(take_one_processor), 1);
  const int of_quota = units([] {
    if (!enter_group("cpu", {{"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", "90000"}}, {{"cpu.max", "90000 100000"}})) ::_exit(kCannot);
  });
  remove_group("cpu");
  if (of_quota == 0) GTEST_SKIP() << "needs root, and control groups that may be written";
  EXPECT_EQ(of_quota, 1);
}

TEST_F(LaunchSurroundings, what_says_otherwise_where_ranks_run_is_hidden_from_mpirun_and_named) {
  const std::vector<std::pair<const char*, const char*>> variables{{"SLURM_JOBID", "77"},
                                                                   {"SLURM_NODELIST", "gone[1-2]"},
                                                                   {"PE_HOSTFILE", "/nowhere"},
                                                                   {"FLUX_JOB_ID", "7"},
                                                                   {"OMPI_MCA_hwloc_base_binding_policy", "core"},
                                                                   {"HWLOC_XMLFILE", "/nowhere"},
                                                                   {"PMIX_RANK", "0"},
                                                                   {"PRTE_MCA_hwloc_default_binding_policy", "core"},
                                                                   {"PMI_RANK", "1"},
                                                                   {"OMPI_MCA_rmaps_base_mapping_policy", "ppr:1:node"}};
  const auto set = [&] {
    for (const auto& [name, value] : variables) ::setenv(name, value, 1);
    ::setenv("OMPI_MCA_btl_tcp_if_include", "lo", 1);
  };
  const Outcome o = run_with_false_mpirun(launch({"--np", "2"}, lenet({"--parallel", "ddp"})), set);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.err,
            "launch: FLUX_*, HWLOC_XMLFILE, OMPI_MCA_hwloc_base_binding_policy, OMPI_MCA_rmaps_base_mapping_policy, PE_HOSTFILE, "
            "PRTE_MCA_hwloc_default_binding_policy, SLURM_* are hidden from mpirun: --np and --hosts say where processes run\n");
  for (const auto& [name, value] : variables) EXPECT_EQ(environment().find(fmt::format("\n{}=", name)), std::string::npos) << name;
  EXPECT_NE(environment().find("\nOMPI_MCA_btl_tcp_if_include=lo\n"), std::string::npos) << "it says nothing of that";
  expect_trains(2, {}, set, std::max(1, allowed_cores().count() / 2));
}

/// A site's file of settings, as /etc/openmpi/openmpi-mca-params.conf.
TEST_F(LaunchSurroundings, a_sites_file_of_policies_starts_ranks_where_the_launcher_says) {
  if (!is_full_run()) GTEST_SKIP() << "with --full";
  for (const char* policy :
       {"hwloc_base_binding_policy = socket", "rmaps_base_mapping_policy = ppr:1:node", "rmaps_base_no_oversubscribe = 1", "hwloc_base_cpu_list = 0"})
    for (const int ranks : {2, allowed_cores().count() + 1}) {
      SCOPED_TRACE(policy);
      write_text(folder() / "settings", policy + std::string("\n"));
      expect_trains(
          ranks, {}, [&] { ::setenv("OMPI_MCA_mca_base_param_files", in_folder("settings").c_str(), 1); }, std::max(1, allowed_cores().count() / ranks));
    }
}

TEST_F(LaunchSurroundings, within_a_job_a_launch_is_refused_and_within_one_of_one_process_it_starts) {
  const auto within = [](const char* ranks) {
    return [ranks] {
      for (const auto& [name, value] : {std::pair{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", ranks}, {"OMPI_UNIVERSE_SIZE", ranks}})
        ::setenv(name, value, 1);
    };
  };
  const Words arguments = launch({"--np", "2"}, lenet({"--parallel", "ddp"}));
  const Outcome of_two = run_with_false_mpirun(arguments, within("2"));
  EXPECT_EQ(of_two.status, 2);
  EXPECT_EQ(
      of_two.err,
      "gemel: launch: it is one of 2 processes that mpirun started; accepted: gemel launch by itself, or mpirun with gemel train; where no mpirun did, `gemel "
      "doctor rank-variables` says which variables to unset\n");
  const Outcome of_one = run_with_false_mpirun(arguments, within("1"));
  EXPECT_EQ(of_one.status, 0) << of_one.err;
  EXPECT_EQ(environment().find("\nOMPI_UNIVERSE_SIZE="), std::string::npos) << "mpirun does not start where it takes itself for one of its own processes";
}

/// As a job's shell leaves them: there is no first rank that would speak.
TEST_F(LaunchSurroundings, variables_of_a_rank_that_is_none_silence_nobody) {
  const auto as_second = [] {
    ::setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    ::setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  };
  expect_refused({"launch", "--np", "2", "train", "--parallel", "ddp"}, 2, "launch: it is one of 4 processes that mpirun started", as_second);
  expect_refused({"summary", "--model", "nosuch"}, 2, "--model: 'nosuch' is not accepted", as_second);
  expect_refused({"train", "--bogus"}, 2, "train: option '--bogus' is unknown", as_second);
}

/// Both by Gemel's own shared memory and by Open MPI's messages.
TEST_F(LaunchSurroundings, without_process_vm_readv_ranks_train_and_open_mpi_says_nothing) {
  for (const char* collective : {"auto", "mpi"}) {
    if (collective == std::string("auto") && !is_full_run()) continue;
    const Outcome o = finish_within(std::chrono::seconds(60), start_job(launch({"--np", "2"}, steps(collective, {"--collective", collective})), [] {
                                      forget_this_process();
                                      close_process_vm_readv();
                                    }));
    EXPECT_EQ(o.status, 0) << o.err;
    expect_own_lines_alone(o);
    EXPECT_EQ(losses(collective).size(), 2u);
  }
}

/// Open MPI 5 ends where it finds less than 16 MiB for each rank.
TEST_F(LaunchSurroundings, with_little_shared_memory_ranks_train) {
  if (!is_full_run()) GTEST_SKIP() << "with --full";
  const auto with_little = [] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", "/dev/shm", "tmpfs", 0, "size=64k") != 0)
      ::_exit(kCannot);
  };
  expect_trains(2, {}, with_little, std::max(1, allowed_cores().count() / 2));
}

TEST_F(LaunchSurroundings, a_folder_that_mpirun_cannot_use_is_named) {
  const Words arguments = launch({"--np", "2"}, lenet({"--parallel", "ddp"}));
  const auto of_folder = [](const char* name, const std::function<void()>& prepare = {}) {
    return [=] {
      ::setenv("TMPDIR", name, 1);
      if (prepare) prepare();
    };
  };
  const auto mounted = [&](unsigned long flags, const char* size) {
    return of_folder("/tmp", [=] {
      if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("none", "/mnt", "tmpfs", flags, size) != 0)
        ::_exit(kCannot);
      ::setenv("TMPDIR", "/mnt", 1);
    });
  };
  const std::string accepted = "; accepted: a folder with 12 MiB of room, which TMPDIR may name\n";
  EXPECT_EQ(run(arguments, of_folder("/proc/none")).err,
            "gemel: launch: /proc/none, where mpirun keeps its files, cannot be written: No such file or directory" + accepted);
  const Outcome read_only = run(arguments, mounted(MS_RDONLY, "size=64m"));
  if (read_only.status == kCannot) GTEST_SKIP() << "needs root";
  EXPECT_EQ(read_only.status, 1);
  EXPECT_EQ(read_only.err, "gemel: launch: /mnt, where mpirun keeps its files, cannot be written: Read-only file system" + accepted);
  EXPECT_EQ(run(arguments, mounted(0, "size=4m")).err, "gemel: launch: /mnt, where mpirun keeps its files, has 4 MiB of room" + accepted);
  const Outcome checked = run(launch({"--np", "2", "--check"}, lenet({"--parallel", "ddp"})), mounted(MS_RDONLY, "size=64m"));
  EXPECT_EQ(checked.status, 1);
  EXPECT_NE(checked.out.find("\nMPI                does not fit  /mnt, where mpirun keeps its files, cannot be written: Read-only file system"),
            std::string::npos)
      << checked.out;
  const Outcome made = run_with_false_mpirun(arguments, of_folder(in_folder("new/one").c_str()));
  EXPECT_EQ(made.status, 0) << "mpirun makes it: " << made.err;
}

TEST_F(LaunchSurroundings, a_loopback_interface_that_is_down_is_named) {
  const auto with_network = [](const char* command) {
    return [command] {
      if (::unshare(CLONE_NEWNET) != 0 || std::system(command) != 0) ::_exit(kCannot);
    };
  };
  const Words arguments = launch({"--np", "2"}, lenet({"--parallel", "ddp"}));
  const Outcome o = run(arguments, with_network("true"));
  if (o.status == kCannot) GTEST_SKIP() << "needs root";
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(o.err, "gemel: launch: the loopback interface lo is down, by which mpirun and its processes reach each other; accepted: ip link set lo up\n");
  EXPECT_EQ(
      run(arguments, with_network("ip link set lo up && ip addr flush dev lo")).err,
      "gemel: launch: no network interface has an address, by which mpirun and its processes reach each other; accepted: ip addr add 127.0.0.1/8 dev lo\n");
}

/// As on a laptop without a network that has virtual machines: Open MPI takes neither.
TEST_F(LaunchSurroundings, beside_the_loopback_and_interfaces_of_virtual_machines_alone_ranks_train) {
  const auto with_bridge = [] {
    if (::unshare(CLONE_NEWNET) != 0 || std::system("ip link set lo up && ip link add virbr0 type veth peer name virbr1 && ip addr add 192.168.122.1/24 dev "
                                                    "virbr0 && ip link set virbr0 up && ip link set virbr1 up") != 0)
      ::_exit(kCannot);
  };
  if (is_full_run()) return expect_trains(2, {}, with_bridge, std::max(1, allowed_cores().count() / 2));
  const Outcome o = run_with_false_mpirun(launch({"--np", "2"}, lenet({"--parallel", "ddp"})), with_bridge);
  if (o.status == kCannot) GTEST_SKIP() << "needs root";
  EXPECT_NE(environment().find("\nOMPI_MCA_oob_tcp_if_include=lo\n"), std::string::npos) << environment();
}

TEST_F(LaunchSurroundings, ranks_use_the_network_of_their_hosts_beside_that_of_containers) {
  const auto with_bridge = [](const char* more) {
    return [more] {
      const std::string commands = std::string(
          "ip link set lo up && for n in docker0:172.17.0.1/16 eth9:10.79.4.1/22; do ip link add ${n%:*} type veth peer name p${n%:*} && "
          "ip addr add ${n#*:} dev ${n%:*} && ip link set ${n%:*} up && ip link set p${n%:*} up || exit 1; done");
      if (::unshare(CLONE_NEWNET) != 0 || std::system(commands.c_str()) != 0) ::_exit(kCannot);
      ::setenv("OMPI_MCA_plm_rsh_agent", "true", 1);  // every host answers
      if (*more) ::setenv(more, "eth9", 1);
    };
  };
  const auto words_of = [&](const char* hosts) { return launch({"--np", "2", "--hosts", hosts}, lenet({"--parallel", "ddp"})); };
  const Outcome o = run_with_false_mpirun(words_of("localhost,10.79.7.250"), with_bridge(""));
  if (o.status == kCannot) GTEST_SKIP() << "needs root";
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(environment().find("\nOMPI_MCA_btl_tcp_if_include=10.79.4.0/22\n"), std::string::npos) << environment();
  run_with_false_mpirun(words_of("localhost,10.79.7.250"), with_bridge("OMPI_MCA_btl_tcp_if_exclude"));
  EXPECT_EQ(environment().find("\nOMPI_MCA_btl_tcp_if_include="), std::string::npos) << "Open MPI takes one of the two: " << environment();
  run_with_false_mpirun(words_of("localhost,10.99.0.1"), with_bridge(""));
  EXPECT_EQ(environment().find("\nOMPI_MCA_btl_tcp_if_include="), std::string::npos) << "behind a router: " << environment();
}

TEST_F(LaunchSurroundings, too_few_open_files_are_named) {
  const Outcome o = run(launch({"--np", "2"}, lenet({"--parallel", "ddp"})), [] {
    const rlimit few{20, 20};
    ::setrlimit(RLIMIT_NOFILE, &few);
  });
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(o.err, "gemel: launch: open files: their limit (ulimit -n) is 20; accepted: 64 or more\n");
}

TEST_F(LaunchSurroundings, a_current_folder_that_is_gone_is_named) {
  const Outcome o = run(launch({"--np", "2"}, lenet({"--parallel", "ddp"})), [&] {
    std::filesystem::create_directory(folder() / "gone");
    if (::chdir(in_folder("gone").c_str()) != 0 || ::rmdir(in_folder("gone").c_str()) != 0) ::_exit(kCannot);
  });
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(o.err, "gemel: launch: the current folder: No such file or directory; accepted: one that is there\n");
}

TEST_F(LaunchSurroundings, variables_that_are_named_reach_every_rank) {
  const auto set = [] {
    for (const auto& [name, value] : {std::pair{"GEMEL_CHECK", "on"}, {"HOROVOD_CYCLE_TIME", "3"}, {"MINE", "of here"}, {"OTHER", "x"}})
      ::setenv(name, value, 1);
  };
  const Outcome o = run_with_false_mpirun(launch({"--np", "2", "--env", "MINE", "--env", "GIVEN=a=b, c"}, lenet({"--parallel", "ddp"})), set);
  EXPECT_EQ(o.status, 0) << o.err;
  for (const char* name : {"GEMEL_CHECK", "GEMEL_LAUNCH", "HOROVOD_CYCLE_TIME", "MINE", "GIVEN"})
    EXPECT_NE(words().find(fmt::format("-x {} ", name)), std::string::npos) << words();
  EXPECT_EQ(words().find("OTHER"), std::string::npos) << words();
  EXPECT_NE(environment().find("\nGIVEN=a=b, c\n"), std::string::npos) << environment();
  const std::vector<std::pair<const char*, const char*>> wrong{
      {"=x", "--env: '=x' names no variable; accepted: NAME or NAME=VALUE, a name of letters, digits and _"},
      {"2A=x", "--env: '2A=x' names no variable; accepted: NAME or NAME=VALUE, a name of letters, digits and _"},
      {"A B=x", "--env: 'A B=x' names no variable; accepted: NAME or NAME=VALUE, a name of letters, digits and _"},
      {"NOT_THERE", "--env: NOT_THERE has no value here; accepted: a variable that is set, or NOT_THERE=VALUE"},
      {"GEMEL_LAUNCH=x", "--env: GEMEL_LAUNCH is what gemel launch itself tells its processes by; accepted: another variable"}};
  for (const auto& [given, line] : wrong) {
    const Outcome refused = run(launch({"--np", "2", "--env", given}, lenet({"--parallel", "ddp"})));
    EXPECT_EQ(refused.status, 2) << given;
    EXPECT_EQ(refused.err, fmt::format("gemel: {}\n", line));
  }
}

}  // namespace
}  // namespace gemel::testing
