// A job on two machines: network namespaces of this one with host names of their own, joined by a virtual cable.
#include <fmt/format.h>

#include "tests/job.h"
#include "tests/test_device.h"

namespace gemel::testing {
namespace {

class TwoMachines : public Job {
 protected:
  const std::string a_ = fmt::format("gemel-a{}", ::getpid()), b_ = fmt::format("gemel-b{}", ::getpid());

  void SetUp() override {
    Job::SetUp();
    if (IsSkipped()) return;
    if (!is_full_run()) GTEST_SKIP() << "with --full";
    const std::string cable = fmt::format("gea{}", ::getpid() % 10000), other = fmt::format("geb{}", ::getpid() % 10000);
    const auto machine = [](const std::string& name, const std::string& end, const char* address) {
      return fmt::format(" && ip link set {1} netns {0} && ip -n {0} addr add {2}/24 dev {1} && ip -n {0} link set {1} up && ip -n {0} link set lo up", name, end, address);
    };
    if (!shell(fmt::format("ip netns add {} && ip netns add {} && ip link add {} type veth peer name {}", a_, b_, cable, other) + machine(a_, cable, "10.77.0.1") +
               machine(b_, other, "10.77.0.2")))
      GTEST_SKIP() << "network namespaces cannot be made here";
    cable_ = cable;
    // In ssh's place: agent HOST COMMAND...
    std::ofstream(folder() / "agent") << "#!/bin/sh\nname=" << b_ << "\n[ \"$1\" = 10.77.0.1 ] && name=" << a_
                                      << "\nshift\nexec ip netns exec $name unshare --uts sh -c 'hostname \"$0\"; exec sh -c \"$1\"' $name \"$*\"\n";
    std::filesystem::permissions(folder() / "agent", std::filesystem::perms::owner_all);
  }
  void TearDown() override {
    for (const std::string& name : {a_, b_}) shell(fmt::format("ip netns pids {0} | xargs -r kill -9; ip netns del {0}", name));
  }

  static bool shell(const std::string& command) { return std::system(("{ " + command + "; } 2>/dev/null").c_str()) == 0; }
  void on_machines(int ranks_each) {
    launcher_ = {"ip", "netns", "exec", a_, "unshare", "--uts", "sh", "-c", "hostname " + a_ + "; exec \"$@\"", "sh", "mpirun", "--mca", "plm_rsh_agent", in_folder("agent"), "--mca",
                 "plm", "rsh", "--oversubscribe", "--host", fmt::format("10.77.0.1:{0},10.77.0.2:{0}", ranks_each), "-np", std::to_string(2 * ranks_each)};
  }
  /// The ranks on a machine.
  std::vector<pid_t> processes_on(const std::string& machine) const {
    shell(fmt::format("ip netns pids {} >{}", machine, in_folder("pids")));
    std::vector<pid_t> out;
    std::ifstream in(folder() / "pids");
    for (pid_t p; in >> p;)
      if (read_text("/proc/" + std::to_string(p) + "/comm") == "gemel\n") out.push_back(p);
    return out;
  }
  /// Starts a job that would go on for ever and waits for its first step.
  pid_t begun(const std::string& log) {
    const pid_t job = start_job(lenet({"--epochs", "100000", "--parallel", "ddp", "--heartbeat", "2", "--log-dir", in_folder(log)}));
    while (read_text(folder() / log / "run.jsonl").find("\"step\"") == std::string::npos) {
      EXPECT_EQ(::waitpid(job, nullptr, WNOHANG), 0) << read_text(folder() / "err");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return job;
  }
  std::string cable_;
};

TEST_F(TwoMachines, train_as_one_process) {
  launcher_.clear();
  ASSERT_EQ(run(lenet({"--steps", "8", "--log-dir", in_folder("alone")})).status, 0);
  on_machines(2);
  const Outcome o = finish(start_job(lenet({"--steps", "8", "--parallel", "ddp", "--log-dir", in_folder("job")})));
  ASSERT_EQ(o.status, 0) << o.err;
  const Json ranks = events("job").front()["each_rank"];
  ASSERT_EQ(ranks.size(), 4u);
  EXPECT_EQ(ranks[1]["host"], a_);
  EXPECT_EQ(ranks[2]["host"], b_);
  const auto alone = losses("alone"), job = losses("job");
  ASSERT_EQ(job.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(job[i], alone[i], 1e-5 * alone[i]) << "step " << i + 1;
}

TEST_F(TwoMachines, name_a_rank_that_is_killed_on_the_other_one) {
  on_machines(1);
  const pid_t job = begun("killed");
  const auto ranks = processes_on(b_);
  ASSERT_EQ(ranks.size(), 1u);
  ::kill(ranks[0], SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  const Outcome o = finish(job);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(7));
  EXPECT_NE(o.err.find("gemel: rank 1 of 2 on " + b_ + " was lost: its connection closed"), std::string::npos) << o.err;
  expect_gone(processes_on(a_));
  expect_gone(processes_on(b_));
}

TEST_F(TwoMachines, name_a_machine_that_is_lost) {
  on_machines(1);
  const pid_t job = begun("cut");
  const auto here = processes_on(a_), there = processes_on(b_);
  ASSERT_TRUE(shell(fmt::format("ip -n {} link set {} down", a_, cable_)));
  expect_gone(here, std::chrono::seconds(10));
  expect_gone(there, std::chrono::seconds(10));
  EXPECT_NE(read_text(folder() / "err").find("gemel: rank 1 of 2 on " + b_ + " has been silent for 2 s"), std::string::npos) << read_text(folder() / "err");
  ::kill(job, SIGKILL);  // mpirun waits for the machine
  finish(job);
}

}  // namespace
}  // namespace gemel::testing
