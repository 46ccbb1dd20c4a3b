// gemel launch: jobs that go on by themselves, hosts that do not answer, and the check before a job.
#include <fmt/format.h>

#include <random>
#include <string>

#include "frontends/cli/doctor/mpi_checks.h"
#include "parallel/transport/mpi_communicator.h"
#include "tests/support/device/test_device.h"
#include "tests/support/program/job_fixture.h"

namespace gemel::testing {
namespace {

class LaunchedJob : public Job {
 protected:
  static std::vector<std::string> launch(const std::vector<std::string>& options, const std::vector<std::string>& command) {
    return joined(joined({"launch"}, options), command);
  }
  std::vector<std::string> with_checkpoints(const std::vector<std::string>& more) const {
    return lenet(joined({"--parallel", "ddp", "--checkpoint-dir", in_folder("c")}, more));
  }
  void expect_usage_error(const std::vector<std::string>& arguments, const std::string& line) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.status, 2);
    EXPECT_EQ(o.err, "gemel: " + line + "\n");
  }
  static std::vector<pid_t> ranks_of_launcher(pid_t launcher) {
    for (const pid_t child : children_of(launcher))  // mpirun, or one that asks a host
      if (const std::vector<pid_t> ranks = ranks_of(child); !ranks.empty()) return ranks;
    return {};
  }
  std::vector<pid_t> ranks_once_there(pid_t launcher, std::size_t count) {
    std::vector<pid_t> ranks;
    EXPECT_TRUE(until([&] { return (ranks = ranks_of_launcher(launcher)).size() == count || !runs(launcher); }, std::chrono::seconds(20)))
        << read_text(folder() / "err");
    EXPECT_EQ(ranks.size(), count) << read_text(folder() / "err");
    return ranks;
  }
  std::vector<Json> starts(const std::string& log) const {
    std::vector<Json> out;
    for (const Json& e : events(log))
      if (e["event"] == "start") out.push_back(e);
    return out;
  }
  /// @return whether a first one came
  bool comes_to_a_checkpoint(pid_t job) const {
    const auto has_one = [&] {
      std::error_code none;
      for (const auto& entry : std::filesystem::directory_iterator(in_folder("c"), none))
        if (entry.path().extension() == ".safetensors") return true;
      return false;
    };
    return until([&] { return has_one() || !runs(job); }, std::chrono::seconds(60)) && has_one();
  }
  void expect_whole_checkpoints_alone() const {
    for (const auto& entry : std::filesystem::directory_iterator(in_folder("c"))) EXPECT_EQ(entry.path().extension(), ".safetensors") << entry.path();
  }
  /// In ssh's place: AGENT HOST COMMAND...
  void use_agent(const std::string& script) const {
    std::ofstream(folder() / "agent") << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(folder() / "agent", std::filesystem::perms::owner_all);
  }
  pid_t start_by_agent(const std::vector<std::string>& arguments) {
    return start_job(arguments, [&] { ::setenv("OMPI_MCA_plm_rsh_agent", in_folder("agent").c_str(), 1); });
  }
};

TEST_F(LaunchedJob, with_options_that_do_not_fit_is_a_usage_error) {
  const std::vector<std::string> train = lenet({"--parallel", "ddp"});
  expect_usage_error(
      launch({"--np", "2", "--restarts", "3"}, train),
      "launch: --restarts 3 is given without --checkpoint-dir, so that there is nothing to go on from; accepted: gemel launch --np 2 --restarts 3 train "
      "--checkpoint-dir DIR ...");
  expect_usage_error(launch({"--np", "2", "--restarts", "-1"}, with_checkpoints({})), "--restarts: -1 is out of range; accepted: 0 to 1000000000");
  for (const std::string option : {"--restarts=1", "--check"})
    expect_usage_error(launch({"--np", "2", option}, {"bench", "train", "--parallel", "ddp"}),
                       "launch: " + option.substr(0, option.find('=')) + " is given with bench; accepted: with train");
  expect_usage_error(launch({"--np", "4", "--hosts", "a:1,b:2"}, train),
                     "launch: --np 4 is more than --hosts a:1,b:2 takes, 3 in all; accepted: --np 3 or less, or more processes a host (HOST:PROCESSES)");
  for (const auto& [hosts, wrong] :
       std::vector<std::pair<std::string, std::string>>{{"a:", "a:"}, {"a:2,b:x", "b:x"}, {"a:0", "a:0"}, {"-oA=b,a", "-oA=b"}, {"a,,b", ""}})
    expect_usage_error(launch({"--np", "2", "--hosts", hosts}, train),
                       fmt::format("--hosts: '{}' has '{}'; accepted: HOST or HOST:PROCESSES, with commas between, such as a:2,b:2", hosts, wrong));
  const Outcome told = run(train, [] { ::setenv("GEMEL_LAUNCH", "yes", 1); });
  EXPECT_EQ(told.status, 2);
  EXPECT_EQ(told.err, "gemel: GEMEL_LAUNCH: 'yes' is not accepted; accepted: what gemel launch sets for its processes\n");
}

/// Open MPI's words, a page about every rank that fails, are kept back until there is nobody else to say why.
TEST_F(LaunchedJob, that_open_mpi_does_not_start_says_so) {
  const std::vector<std::string> arguments = launch({"--np", "2"}, lenet({"--parallel", "ddp"}));
  // It starts processes, by other variables up to version 4 and since 5; or it begins MPI in them.
  for (const std::vector<const char*>& frameworks : {std::vector{"OMPI_MCA_plm", "PRTE_MCA_ess"}, {"OMPI_MCA_pml"}}) {
    const Outcome o = run(arguments, [&] {
      for (const char* framework : frameworks) ::setenv(framework, "nonsense", 1);
    });
    EXPECT_EQ(o.status, 1) << frameworks[0];
    EXPECT_TRUE(o.err.starts_with("gemel: launch: mpirun ended with status ")) << o.err;
    EXPECT_EQ(lines_with("; where no line above says why, Open MPI does to `mpirun -np 2 ", o), 1) << o.err;
    // Of a framework of its own that is not there mpirun says nothing from Open MPI 6 on.
    const bool mpirun_is_silent = frameworks.size() == 2 && std::stoi(cli::parse_mpi_version(parallel::mpi_library()).major()) >= 6;
    EXPECT_EQ(lines_with("); where no line above", o), mpirun_is_silent ? 0 : 1) << o.err;
    EXPECT_EQ(lines_with("", o), 1) << o.err;
  }
  const Outcome killed = [&] {
    const pid_t job = start_job(launch({"--np", "1"}, lenet({"--parallel", "ddp", "--epochs", "100000", "--log-dir", in_folder("log")})));
    EXPECT_TRUE(begins(job, "log")) << read_text(folder() / "err");
    for (const pid_t rank : ranks_of_launcher(job)) ::kill(rank, SIGKILL);
    return finish_within(std::chrono::seconds(10), job);
  }();
  EXPECT_EQ(killed.status, 1);
  EXPECT_EQ(lines_with("gemel: launch: the rank was lost: signal 9 (Killed) ended it", killed), 1) << "no other tells of it: " << killed.err;
  const Outcome told = run(launch({"--np", "2"}, joined(lenet({"--parallel", "ddp"}), {"--data", in_folder("none"), "--dataset", "cifar10"})));
  EXPECT_EQ(told.status, 1);
  EXPECT_EQ(told.err.find("mpirun ended"), std::string::npos) << told.err;
}

TEST_F(LaunchedJob, on_hosts_that_do_not_answer_ends_soon_in_one_line) {
  use_agent("[ $1 = deaf ] && exec sleep 60\necho no route to $1 >&2; exit 255");
  const auto begin = std::chrono::steady_clock::now();
  const Outcome o = finish_within(std::chrono::seconds(10), start_by_agent(launch({"--np", "3", "--hosts", "localhost,b,deaf"}, lenet({"--parallel", "ddp"}))));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(
      o.err,
      fmt::format(
          "gemel: launch: host b does not answer: no route to b; host deaf does not answer: no answer within 5 s; accepted: hosts on which `{} HOST true` "
          "succeeds without a password\n",
          in_folder("agent")));
}

/// Two short jobs; 30 longer ones with --full.
TEST_F(LaunchedJob, with_restarts_ends_bit_for_bit_as_an_uninterrupted_one_whenever_a_rank_is_killed_or_stopped) {
  const std::size_t steps = is_full_run() ? 400 : 250;
  const std::vector<std::string> command{"--steps", std::to_string(steps), "--collective", "tree", "--heartbeat", "2", "--checkpoint-every", "5", "--log-dir"};
  ASSERT_EQ(finish(start_job(launch({"--np", "3"}, with_checkpoints(joined(command, {in_folder("whole")}))))).status, 0) << read_text(folder() / "err");
  const auto whole = losses("whole");
  ASSERT_EQ(whole.size(), steps);
  std::mt19937 random(2);
  const int times = is_full_run() ? 30 : 2;
  for (int i = 0; i < times; ++i) {
    std::filesystem::remove_all(folder() / "c");
    const std::string log = fmt::format("run{}", i);
    const pid_t job = start_job(launch({"--np", "3", "--restarts", "3"}, with_checkpoints(joined(command, {in_folder(log)}))));
    const auto ranks = ranks_once_there(job, 3);
    ASSERT_EQ(ranks.size(), 3u);
    ASSERT_TRUE(comes_to_a_checkpoint(job)) << read_text(folder() / "err");
    const int signal = i % 2 == 0 ? SIGKILL : SIGSTOP, rank = static_cast<int>(random() % 3), delay = static_cast<int>(random() % 1000);
    SCOPED_TRACE(fmt::format("job {}: signal {} to rank {} after {} ms", i, signal, rank, delay));
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    const bool is_training = losses(log).size() < steps - 50;  // the last ranks that part are no longer watched
    ::kill(ranks[static_cast<std::size_t>(rank)], signal);
    const Outcome o = finish_within(std::chrono::seconds(60), job);
    EXPECT_EQ(o.status, 0) << o.err;
    expect_gone(ranks);
    expect_whole_checkpoints_alone();
    EXPECT_EQ(losses(log), whole);
    if (!is_training) continue;
    EXPECT_EQ(lines_with("; 3 ranks go on from " + in_folder("c"), o), 1) << o.err;
    EXPECT_EQ(lines_with(fmt::format("launch: rank {} of 3 on ", rank), o), 1) << o.err;
    EXPECT_EQ(lines_with("; 2 restarts left", o), 1) << o.err;
    const auto all = starts(log);
    ASSERT_EQ(all.size(), 2u);
    EXPECT_FALSE(all[0].contains("lost"));
    EXPECT_EQ(all[1]["restart"], 1);
    EXPECT_EQ(all[1]["lost"]["rank"], rank);
    EXPECT_TRUE(all[1].contains("resumed_from"));
  }
}

TEST_F(LaunchedJob, begins_as_it_was_told_and_goes_on_from_a_checkpoint_of_its_own_alone) {
  ASSERT_EQ(finish(start_job(lenet({"--steps", "7", "--checkpoint-dir", in_folder("c")}))).status, 0);
  const pid_t job = start_job(launch({"--np", "2", "--restarts", "1"}, with_checkpoints({"--steps", "4", "--log-dir", in_folder("log")})));
  ::kill(ranks_once_there(job, 2)[1], SIGKILL);  // an older run's checkpoint is there
  const Outcome o = finish_within(std::chrono::seconds(60), job);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(lines_with("; 2 ranks go on from where the job began; 0 restarts left", o), 1) << o.err;
  EXPECT_FALSE(starts("log").back().contains("resumed_from"));
  EXPECT_EQ(losses("log").size(), 4u);
  EXPECT_TRUE(std::filesystem::exists(folder() / "c" / "checkpoint-7.safetensors"));
}

TEST_F(LaunchedJob, of_one_rank_goes_on_where_a_library_ended_it) {
  const pid_t job =
      start_job(launch({"--np", "1", "--restarts", "1"}, with_checkpoints({"--steps", "400", "--checkpoint-every", "5", "--log-dir", in_folder("log")})));
  const auto ranks = ranks_once_there(job, 1);
  ASSERT_EQ(ranks.size(), 1u);
  ASSERT_TRUE(comes_to_a_checkpoint(job)) << read_text(folder() / "err");
  ::kill(ranks[0], SIGABRT);
  const Outcome o = finish_within(std::chrono::seconds(60), job);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(lines_with("gemel: a library gave up and ended the program", o), 1) << o.err;
  EXPECT_EQ(lines_with("launch: the rank was lost: signal 6 (Aborted) ended it; 1 rank goes on from " + in_folder("c"), o), 1) << o.err;
  EXPECT_EQ(losses("log").size(), 400u);
}

TEST_F(LaunchedJob, that_ends_by_an_error_of_its_own_is_not_repeated) {
  const Outcome device = finish(start_job(launch({"--np", "2", "--restarts", "2"}, with_checkpoints({"--devices", "portable:cpu,nothere:0"}))));
  EXPECT_TRUE(device.status == 1 || device.status == 2) << "of the rank that ends first: wrong usage is another's error " << device.status;
  EXPECT_EQ(lines_with("platform: 'nothere' is not found", device), 1) << device.err;
  EXPECT_EQ(lines_with("launch:", device), 0) << device.err;
  const Outcome nan = finish(start_job(
      launch({"--np", "2", "--restarts", "2"}, with_checkpoints({"--lr", "1e30", "--steps", "50", "--checkpoint-every", "1", "--log-dir", in_folder("nan")}))));
  EXPECT_EQ(nan.status, 1);
  EXPECT_EQ(lines_with("launch:", nan), 0) << nan.err;
  EXPECT_EQ(starts("nan").size(), 1u);
}

TEST_F(LaunchedJob, that_is_lost_twice_before_a_first_checkpoint_is_not_repeated) {
  const pid_t job = start_job(launch({"--np", "2", "--restarts", "5"}, with_checkpoints({"--steps", "400"})));
  const auto first = ranks_once_there(job, 2);
  ::kill(first[0], SIGKILL);
  ASSERT_TRUE(until([&] { return read_text(folder() / "err").find("4 restarts left") != std::string::npos || !runs(job); }, std::chrono::seconds(20)));
  const auto second = ranks_once_there(job, 2);
  ::kill(second[1], SIGKILL);
  const Outcome o = finish_within(std::chrono::seconds(20), job);
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(lines_with("before a first checkpoint, as the start before; it is not started again; accepted: ", o), 1) << o.err;
  expect_gone(first);
  expect_gone(second);
}

TEST_F(LaunchedJob, whose_restarts_are_used_up_says_so) {
  const pid_t job = start_job(launch({"--np", "2", "--restarts", "0"}, with_checkpoints({"--epochs", "100000", "--log-dir", in_folder("log")})));
  ASSERT_TRUE(comes_to_a_checkpoint(job)) << read_text(folder() / "err");
  const auto ranks = ranks_once_there(job, 2);
  ::kill(ranks[0], SIGKILL);
  const Outcome o = finish_within(std::chrono::seconds(20), job);
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(lines_with("gemel: launch: rank 0 of 2 on ", o), 1) << o.err;
  EXPECT_EQ(lines_with("; none is left of --restarts 0", o), 1) << o.err;
  expect_gone(ranks);
}

TEST_F(LaunchedJob, that_is_told_to_quit_ends_at_once) {
  const pid_t job = start_job(launch({"--np", "2"}, with_checkpoints({"--epochs", "100000", "--log-dir", in_folder("log")})));
  ASSERT_TRUE(begins(job, "log")) << read_text(folder() / "err");
  const auto ranks = ranks_once_there(job, 2);
  ::kill(job, SIGQUIT);
  EXPECT_EQ(finish_within(std::chrono::seconds(5), job).status, 128 + SIGQUIT);
  expect_gone(ranks);
}

TEST_F(LaunchedJob, that_is_interrupted_while_it_starts_again_ends) {
  for (const bool is_told : {false, true}) {
    const std::string log = is_told ? "told" : "not";
    const pid_t job = start_job(launch({"--np", "2", "--restarts", "5"}, with_checkpoints({"--epochs", "100000", "--log-dir", in_folder(log)})));
    ASSERT_TRUE(begins(job, log)) << read_text(folder() / "err");
    const auto ranks = ranks_once_there(job, 2);
    ::kill(ranks[1], SIGKILL);
    expect_gone({ranks[1]});
    if (is_told) until([&] { return read_text(folder() / "err").find("4 restarts left") != std::string::npos; }, std::chrono::seconds(10));
    ::kill(job, SIGINT);
    const Outcome o = finish_within(std::chrono::seconds(20), job);
    EXPECT_EQ(o.status, 1) << o.err;
    EXPECT_EQ(lines_with("4 restarts left", o), is_told ? 1 : 0) << o.err;
    expect_gone(ranks);
    // Where mpirun killed rank 0, its lock is left over: the next run removes it.
    EXPECT_EQ(finish(start_job(lenet({"--steps", "1", "--checkpoint-dir", in_folder("c")}))).status, 0) << read_text(folder() / "err");
    expect_whole_checkpoints_alone();
  }
}

TEST_F(LaunchedJob, is_checked_without_training) {
  const std::vector<std::string> names{"hosts", "MPI", "program", "devices", "builds", "data", "checkpoint folder"};
  const Outcome good = finish(start_job(launch({"--np", "2", "--check"}, with_checkpoints({"--log-dir", in_folder("log")}))));
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_EQ(lines_of(good.out).size(), names.size()) << good.out;
  for (const std::string& name : names) EXPECT_NE(good.out.find(fmt::format("{:<18} fits ", name)), std::string::npos) << name << ":\n" << good.out;
  EXPECT_EQ(good.err, "");
  EXPECT_FALSE(std::filesystem::exists(folder() / "log"));
  EXPECT_TRUE(std::filesystem::is_empty(in_folder("c")));
  const Outcome bad = finish(start_job(launch({"--np", "2", "--check"}, {"train", "--parallel", "ddp", "--devices", "portable:cpu,nothere:0", "--dataset",
                                                                         "npy", "--data", in_folder("none"), "--checkpoint-dir", "/proc/none"})));
  EXPECT_EQ(bad.status, 1);
  for (const std::string name : {"devices", "data", "checkpoint folder"})
    EXPECT_NE(bad.out.find(fmt::format("{:<18} does not fit ", name)), std::string::npos) << name << ":\n" << bad.out;
  EXPECT_NE(bad.out.find(": platform: 'nothere' is not found"), std::string::npos) << bad.out;
  EXPECT_EQ(bad.err, "");
}

TEST_F(LaunchedJob, is_checked_for_hosts_and_what_is_on_them) {
  const auto check = [&](const std::string& script) {
    use_agent(script);
    return finish(start_by_agent(launch({"--np", "2", "--hosts", "localhost,b", "--check"}, lenet({"--parallel", "ddp"}))));
  };
  const Outcome silent = check("exit 255");
  EXPECT_EQ(silent.status, 1);
  EXPECT_EQ(silent.out, fmt::format("hosts              does not fit  host b does not answer: {} ended with status 255\n"
                                    "devices, builds, data and checkpoint folder are looked at once these fit\n",
                                    in_folder("agent")));
  const Outcome other = check("shift; [ $1 = mpirun ] && exec echo 'mpirun (Open MPI) 0.1'; exec \"$@\"");
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.out.find("MPI                does not fit  localhost has mpirun (Open MPI) "), std::string::npos) << other.out;
  EXPECT_NE(other.out.find("; b has mpirun (Open MPI) 0.1\n"), std::string::npos) << other.out;
  const Outcome without = check("shift; case $1 in */gemel) echo sh: gemel: not found >&2; exit 127;; esac; exec \"$@\"");
  EXPECT_NE(without.out.find("program            does not fit  localhost has gemel "), std::string::npos) << without.out;
  EXPECT_NE(without.out.find("; b: sh: gemel: not found\n"), std::string::npos) << without.out;
}

}  // namespace
}  // namespace gemel::testing
