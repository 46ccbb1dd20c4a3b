// A job on two machines: network namespaces of this one with host names of their own, joined by a virtual cable.
#include <fmt/format.h>

#include "tests/support/device/test_device.h"
#include "tests/support/program/job_fixture.h"

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
      return fmt::format(" && ip link set {1} netns {0} && ip -n {0} addr add {2}/24 dev {1} && ip -n {0} link set {1} up && ip -n {0} link set lo up", name,
                         end, address);
    };
    if (!shell(fmt::format("ip netns add {} && ip netns add {} && ip link add {} type veth peer name {}", a_, b_, cable, other) +
               machine(a_, cable, "10.77.0.1") + machine(b_, other, "10.77.0.2")))
      GTEST_SKIP() << "network namespaces cannot be made here";
    cable_ = cable;
    // In ssh's place: agent HOST COMMAND... It hears nothing from a machine that is unplugged.
    std::ofstream(folder() / "agent") << "#!/bin/sh\nname=" << b_ << "\n[ \"$1\" = 10.77.0.1 ] && name=" << a_ << "\n[ $name = " << a_ << " ] || ip -n " << a_
                                      << " link show " << cable << " 2>/dev/null | grep -q LOWER_UP || exec sleep 60"
                                      << "\nshift\nexec ip netns exec $name unshare --uts sh -c 'hostname \"$0\"; exec sh -c \"$1\"' $name \"$*\"\n";
    std::filesystem::permissions(folder() / "agent", std::filesystem::perms::owner_all);
  }
  void TearDown() override {
    for (const std::string& name : {a_, b_}) shell(fmt::format("ip netns pids {0} | xargs -r kill -9; ip netns del {0}", name));
  }

  static bool shell(const std::string& command) { return std::system(("{ " + command + "; } 2>/dev/null").c_str()) == 0; }
  /// On the first machine.
  void here() { launcher_ = {"ip", "netns", "exec", a_, "unshare", "--uts", "sh", "-c", "hostname " + a_ + "; exec \"$@\"", "sh"}; }
  static std::string hosts(int ranks_each) { return fmt::format("10.77.0.1:{0},10.77.0.2:{0}", ranks_each); }
  /// mpirun of Open MPI 5 does not know the first machine by its address.
  void on_machines(int ranks_each) {
    here();
    for (const std::string& word : {std::string("mpirun"), std::string("--map-by"), std::string("slot:OVERSUBSCRIBE"), std::string("--host"),
                                    fmt::format("localhost:{0},10.77.0.2:{0}", ranks_each), std::string("-np"), std::to_string(2 * ranks_each)})
      launcher_.push_back(word);
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
  pid_t begun(const std::string& log, const std::vector<std::string>& before = {}) {
    std::vector<std::string> words = before;
    for (const std::string& word : lenet({"--epochs", "100000", "--parallel", "ddp", "--heartbeat", "2", "--log-dir", in_folder(log)})) words.push_back(word);
    const pid_t job = start_by_agent(words);
    EXPECT_TRUE(begins(job, log)) << read_text(folder() / "err");
    return job;
  }
  pid_t start_by_agent(const std::vector<std::string>& words) {
    return start_job(words, [&] {
      ::setenv("OMPI_MCA_plm", "rsh", 1);
      for (const char* version : {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"}) ::setenv(version, in_folder("agent").c_str(), 1);
    });
  }
  std::string cable_;
};

TEST_F(TwoMachines, train_as_one_process) {
  launcher_.clear();
  ASSERT_EQ(run(lenet({"--steps", "8", "--log-dir", in_folder("alone")})).status, 0);
  on_machines(2);
  const Outcome o = finish_within(std::chrono::seconds(60), start_by_agent(lenet({"--steps", "8", "--parallel", "ddp", "--log-dir", in_folder("job")})));
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
  const Outcome o = finish_within(std::chrono::seconds(7), job);
  EXPECT_NE(o.err.find("gemel: rank 1 of 2 on " + b_ + " was lost: its connection closed"), std::string::npos) << o.err;
  expect_gone(processes_on(a_));
  expect_gone(processes_on(b_));
}

TEST_F(TwoMachines, name_a_machine_that_is_lost_and_end_the_job) {
  here();
  const pid_t job = begun("cut", {"launch", "--np", "2", "--hosts", hosts(1)});
  const auto there = processes_on(b_);
  ASSERT_TRUE(shell(fmt::format("ip -n {} link set {} down", a_, cable_)));
  const Outcome o = finish_within(std::chrono::seconds(2 + 4 + 4), job);
  EXPECT_NE(o.err.find("gemel: rank 1 of 2 on " + b_ + " has been silent for 2 s"), std::string::npos) << o.err;
  expect_gone(there);
}

/// The bridge of containers has the same address on every machine, and leads nowhere.
TEST_F(TwoMachines, train_where_both_have_the_bridge_of_containers) {
  for (const std::string& name : {a_, b_})
    ASSERT_TRUE(
        shell(fmt::format("ip -n {0} link add docker0 type veth peer name inside && ip -n {0} addr add 172.17.0.1/16 dev docker0 && ip -n {0} link set docker0 "
                          "up && ip -n {0} link set inside up",
                          name)));
  for (const char* collective : {"auto", "mpi"}) {
    here();
    std::vector<std::string> words = lenet({"--steps", "3", "--parallel", "ddp", "--collective", collective, "--log-dir", in_folder(collective)});
    words.insert(words.begin(), {"launch", "--np", "2", "--hosts", hosts(1)});
    const Outcome o = finish_within(std::chrono::seconds(60), start_by_agent(words));
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(losses(collective).size(), 3u);
  }
}

TEST_F(TwoMachines, have_ranks_with_the_variables_that_are_named) {
  here();
  ::setenv("GEMEL_OF_THIS_TEST", "on", 1);
  const pid_t job = begun("variables", {"launch", "--np", "2", "--hosts", hosts(1), "--env", "MINE=a b"});
  ::unsetenv("GEMEL_OF_THIS_TEST");
  const auto there = processes_on(b_);
  ASSERT_EQ(there.size(), 1u);
  const std::string environment = std::string(1, '\0') + read_text("/proc/" + std::to_string(there[0]) + "/environ");
  for (const std::string variable : {"GEMEL_OF_THIS_TEST=on", "MINE=a b"}) EXPECT_NE(environment.find('\0' + variable + '\0'), environment.npos) << variable;
  ::kill(job, SIGINT);
  finish_within(std::chrono::seconds(20), job);
}

TEST_F(TwoMachines, go_on_with_the_one_that_is_left_when_the_other_is_unplugged) {
  const auto training = [&](const std::string& log, const std::vector<std::string>& of_ranks) {
    std::vector<std::string> all{"train", "--model",     "lenet",    "--limit",      "240", "--batch-size", "120",         "--steps",
                                 "80",    "--optimizer", "momentum", "--eval-every", "0",   "--log-dir",    in_folder(log)};
    all.insert(all.end(), of_ranks.begin(), of_ranks.end());
    return all;
  };
  launcher_.clear();
  ASSERT_EQ(run(training("alone", {})).status, 0);
  here();
  std::vector<std::string> words = training("job", {"--parallel", "ddp", "--heartbeat", "2", "--checkpoint-dir", in_folder("c"), "--checkpoint-every", "3"});
  words.insert(words.begin(), {"launch", "--np", "3", "--hosts", "10.77.0.1:2,10.77.0.2:1", "--restarts", "1"});
  const pid_t job = start_by_agent(words);
  ASSERT_TRUE(until([&] { return losses("job").size() > 10 || !runs(job); }, std::chrono::seconds(60))) << read_text(folder() / "err");
  const auto there = processes_on(b_);
  ASSERT_TRUE(shell(fmt::format("ip -n {} link set {} down", a_, cable_)));
  const Outcome o = finish_within(std::chrono::seconds(60), job);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(
      lines_with(
          fmt::format(
              "launch: rank 2 of 3 on {} has been silent for 2 s; host 10.77.0.2 does not answer: no answer within 5 s, and is left out; 2 ranks go on from ",
              b_),
          o),
      1)
      << o.err;
  EXPECT_EQ(events("job").back()["status"], "ok");
  const auto alone = losses("alone"), with = losses("job");
  ASSERT_EQ(with.size(), 80u);
  for (std::size_t i = 0; i < with.size(); ++i) EXPECT_NEAR(with[i], alone[i], 1e-5 * alone[i]) << "step " << i + 1;
  expect_gone(there);
}

TEST_F(TwoMachines, are_told_apart_from_one_that_has_another_checkpoint_folder) {
  std::filesystem::create_directory(in_folder("c"));
  const auto check = [&] {
    std::vector<std::string> words = lenet({"--parallel", "ddp", "--checkpoint-dir", in_folder("c")});
    words.insert(words.begin(), {"launch", "--np", "2", "--hosts", hosts(1), "--check"});
    here();
    return finish_within(std::chrono::seconds(60), start_by_agent(words));
  };
  const Outcome same = check();
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  const std::string script = read_text(folder() / "agent");
  const std::size_t run = script.find("unshare --uts sh -c '");
  ASSERT_NE(run, script.npos);
  std::ofstream(folder() / "agent") << std::string(script).replace(run, 21, "unshare --uts --mount sh -c 'mount -t tmpfs none " + in_folder("c") + "; ");
  const Outcome apart = check();
  EXPECT_EQ(apart.status, 1) << apart.out << apart.err;
  EXPECT_NE(apart.out.find(fmt::format("checkpoint folder  does not fit  rank 1 on {}: {} is another folder than that of rank 0\n", b_, in_folder("c"))),
            std::string::npos)
      << apart.out;
}

}  // namespace
}  // namespace gemel::testing
