// Parameter servers: the gemel program with --parallel ps, started by mpirun and by gemel launch.
#include <fmt/format.h>

#include <random>

#include "tests/support/device/test_device.h"
#include "tests/support/program/cut_links.h"
#include "tests/support/program/job_fixture.h"

namespace gemel::testing {
namespace {

class ParameterServerJob : public Job {
 protected:
  static Words small(const Words& more) {
    return joined({"train", "--model", "lenet", "--limit", "44", "--batch-size", "8", "--optimizer", "adam", "--threads", "1", "--seed", "5"}, more);
  }
  Outcome on(int ranks, const Words& arguments) {
    on_ranks(ranks);
    launcher_.insert(launcher_.end(), {"--bind-to", "none"});
    return finish(start_job(arguments));
  }
  Outcome alone(const Words& arguments) {
    launcher_.clear();
    return run(arguments);
  }
  void expect_same_file(const std::string& a, const std::string& b) const {
    EXPECT_TRUE(read_text(folder() / a) == read_text(folder() / b)) << a << " and " << b << " differ";
    EXPECT_FALSE(read_text(folder() / a).empty());
  }
  Words to(const std::string& name) const { return {"--save", in_folder(name + ".st"), "--log-dir", in_folder(name)}; }
  /// Of the program that gemel launch started.
  static std::vector<pid_t> ranks_of_launcher(pid_t launcher) {
    for (const pid_t child : children_of(launcher))
      if (const std::vector<pid_t> ranks = ranks_of(child); !ranks.empty()) return ranks;
    return {};
  }
  std::int64_t most(const std::string& log, const char* number) const {
    std::int64_t out = 0;
    for (const Json& e : events(log))
      if (e["event"] == "step") out = std::max(out, e.at(number).get<std::int64_t>());
    return out;
  }
  void expect_samples_of_each_epoch(std::int64_t samples, std::int64_t epochs) const {
    std::int64_t seen = 0;
    for (const Json& e : events("job")) {
      if (e["event"] != "epoch") continue;
      ++seen;
      EXPECT_EQ(e.at("samples"), samples) << "of epoch " << seen;
    }
    EXPECT_EQ(seen, epochs);
  }
  std::optional<Json> lost(const std::string& log) const {
    for (const Json& e : events(log))
      if (e["event"] == "lost") return e;
    return std::nullopt;
  }
  pid_t launch(int ranks, const Words& more, const Words& of_launcher = {}) {
    launcher_.clear();
    return start_job(joined(joined({"launch", "--np", std::to_string(ranks)}, of_launcher),
                            joined({"train", "--model", "lenet", "--limit", "400", "--batch-size", "8", "--threads", "1", "--eval-every", "0", "--parallel",
                                    "ps", "--log-dir", in_folder("job")},
                                   more)));
  }
  /// Waits for its first steps, whose kernels may have to wait for those of other programs. A job that does not come to them is ended.
  bool trains(pid_t job) {
    if (until([&] { return (has_step("job") && losses("job").size() >= 5) || !runs(job); }, std::chrono::seconds(180)) && runs(job)) return true;
    ADD_FAILURE() << "it does not train: " << read_text(folder() / "err");
    ::kill(job, SIGTERM);
    finish_within(std::chrono::seconds(20), job);
    return false;
  }
};

/// Eager with one server, a graph with two.
TEST_F(ParameterServerJob, of_one_worker_is_one_process_to_the_last_bit_also_where_it_goes_on) {
  for (const char* frontend : {"eager", "graph"}) {
    const bool is_eager = frontend == std::string("eager");
    const Words hard{"--frontend", frontend, "--dropout", "0.3", "--clip-norm", "0.5", "--steps", "14"};
    ASSERT_EQ(alone(small(joined(hard, to("alone")))).status, 0);
    const Words ps{"--parallel", "ps", "--staleness", "0", "--servers", is_eager ? "1" : "2"};
    const int ranks = is_eager ? 2 : 3;
    if (is_eager) {
      const Outcome o = on(ranks, small(joined(joined(hard, ps), to("job"))));
      ASSERT_EQ(o.status, 0) << o.err;
      expect_same_file("alone.st", "job.st");
      EXPECT_EQ(most("job", "staleness"), 0);
      std::filesystem::remove_all(folder() / "job");
      continue;
    }
    const Words checkpoints{"--checkpoint-dir", in_folder("c"), "--checkpoint-every", "4", "--resume", "auto"};
    Words first = small(joined(joined(joined(hard, ps), checkpoints), {"--log-dir", in_folder("job")}));
    *std::ranges::find(first, "14") = "8";
    const Outcome begun = on(ranks, first);
    ASSERT_EQ(begun.status, 0) << begun.err;
    const Outcome o = on(ranks, small(joined(joined(joined(hard, ps), checkpoints), to("job"))));
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(lines_with("resume: going on after step 8", o), 1) << o.err;
    EXPECT_EQ(lines_with("warning", o), 0) << o.err;
    expect_same_file("alone.st", "job.st");
    EXPECT_EQ(most("job", "staleness"), 0);
    std::filesystem::remove_all(folder() / "job");
  }
}

TEST_F(ParameterServerJob, with_batch_statistics_and_validation_is_one_process_and_two_workers_are_nearly) {
  const Words resnet{"train", "--model", "resnet18", "--limit", "12", "--batch-size", "6", "--optimizer", "momentum", "--epochs", "1", "--threads", "1"};
  ASSERT_EQ(alone(joined(resnet, to("alone"))).status, 0);
  const Outcome o = on(2, joined(joined(resnet, to("job")), {"--parallel", "ps", "--staleness", "0"}));
  ASSERT_EQ(o.status, 0) << o.err;
  expect_same_file("alone.st", "job.st");
  EXPECT_EQ(last_epoch("job").at("val_loss"), last_epoch("alone").at("val_loss"));
  if (!is_full_run()) return;
  ASSERT_EQ(alone(small({"--steps", "9", "--log-dir", in_folder("one")})).status, 0);
  std::filesystem::rename(folder() / "one", folder() / "alone_of_lenet");
  const Outcome two = on(3, small({"--steps", "9", "--parallel", "ps", "--staleness", "0", "--log-dir", in_folder("two")}));
  ASSERT_EQ(two.status, 0) << two.err;
  const auto expected = losses("alone_of_lenet"), got = losses("two");
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5 * expected[i]);  // sums in another order: last places of 6e-8, which grow
}

/// mpirun passes on two streams in any order: of 60 short epochs some lines would change places.
TEST_F(ParameterServerJob, that_is_launched_prints_the_lines_of_its_epochs_in_order_where_both_streams_are_one) {
  launcher_.clear();
  Words words = small({"--epochs", "60", "--eval-every", "0", "--parallel", "ps"});
  words.insert(words.begin(), {"launch", "--np", "2"});
  const Outcome o = finish(start_job(words, [] { ::dup2(STDOUT_FILENO, STDERR_FILENO); }));
  ASSERT_EQ(o.status, 0) << o.out;
  EXPECT_EQ(o.err, "");
  EXPECT_NE(o.out.find("ps: 1 server, 1 worker; updates: "), std::string::npos) << o.out;
  int epoch = 0, trained = 0;
  for (const std::string& line : lines_of(o.out)) {
    if (line.starts_with("epoch ") && line.find("/60  ") != line.npos) {
      trained = std::stoi(line.substr(6));
      EXPECT_EQ(trained, epoch + 1) << line;
    } else if (line.starts_with("epoch ")) {
      ++epoch;
      EXPECT_EQ(std::stoi(line.substr(6)), epoch) << line;
      EXPECT_EQ(trained, epoch) << line;
    }
  }
  EXPECT_EQ(epoch, 60) << o.out;
}

TEST_F(ParameterServerJob, trains_each_sample_once_and_no_gradient_is_staler_than_its_bound) {
  for (const auto& [staleness, servers] : {std::pair{"4", "2"}, {"1", "1"}, {"none", "1"}}) {
    const Outcome o = on(5, small({"--epochs", "2", "--parallel", "ps", "--servers", servers, "--staleness", staleness, "--log-dir", in_folder("job")}));
    ASSERT_EQ(o.status, 0) << o.err;
    const std::int64_t parts = 5 - std::atoi(servers), steps = 2 * (5 * parts + std::min<std::int64_t>(4, parts));
    EXPECT_EQ(std::ssize(losses("job")), steps) << staleness;
    expect_samples_of_each_epoch(44, 2);
    if (staleness != std::string("none")) {
      EXPECT_LE(most("job", "staleness"), std::atoi(staleness));
      EXPECT_LE(most("job", "steps_behind"), std::atoi(staleness));
    }
    EXPECT_EQ(events("job")[0]["workers"], parts);
    EXPECT_EQ(Json::parse(read_text(folder() / "job/summary.json"))["batch_size"], 8.0 / static_cast<double>(parts)) << "of an update";
    std::filesystem::remove_all(folder() / "job");
    if (!is_full_run()) return;
  }
  const Outcome backup = on(4, small({"--epochs", "2", "--parallel", "ps", "--staleness", "0", "--backup", "1", "--log-dir", in_folder("job")}));
  ASSERT_EQ(backup.status, 0) << backup.err;
  EXPECT_EQ(losses("job").size(), 12u) << "as without";
  expect_samples_of_each_epoch(44, 2);
}

TEST_F(ParameterServerJob, goes_on_where_it_was_among_parts_of_batches) {
  if (!is_full_run()) GTEST_SKIP() << "with --full";
  const Words c{"--checkpoint-dir", in_folder("c"), "--parallel", "ps", "--log-dir", in_folder("job"), "--resume", "auto"};
  ASSERT_EQ(on(3, small(joined(c, {"--steps", "7"}))).status, 0);
  const Outcome o = on(3, small(joined(c, {"--epochs", "1"})));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(losses("job").size(), 12u) << "two parts of each of six batches, each once";
  EXPECT_EQ(last_epoch("job").at("samples"), 44);
  ASSERT_EQ(on(3, small(joined(c, {"--steps", "15"}))).status, 0);
  on_ranks(2);
  const Outcome other = finish(start_job(small(joined(c, {"--steps", "20"}))));
  EXPECT_EQ(other.status, 1);
  EXPECT_EQ(lines_with("batch size was '8 in 2 steps', is now '8' in the middle of an epoch", other), 1) << other.err;
}

TEST_F(ParameterServerJob, of_gemel_launch_names_a_lost_worker_at_once_and_finishes_without_it) {
  const pid_t job = launch(4, {"--epochs", "12"});
  ASSERT_TRUE(trains(job));
  const std::vector<pid_t> ranks = ranks_of_launcher(job);
  ASSERT_EQ(ranks.size(), 4u);
  ::kill(ranks[2], SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(until([&] { return has_event("lost", "job"); }, std::chrono::seconds(5)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
  const Outcome o = finish_within(std::chrono::seconds(60), job);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(lines_with("gemel: rank 2 of 4", o), 1) << o.err;
  EXPECT_EQ(lines_with("gemel-launch", o), 0) << o.err;
  EXPECT_EQ(lost("job")->at("rank"), 2);
  EXPECT_EQ(events("job").back()["status"], "ok");
  EXPECT_EQ(losses("job").size(), 12u * (50 * 3));
  expect_samples_of_each_epoch(400, 12);
  expect_gone(ranks);
}

TEST_F(ParameterServerJob, of_gemel_launch_does_not_end_where_a_worker_that_was_given_up_comes_back) {
  const pid_t job = launch(3, {"--epochs", "6", "--heartbeat", "1", "--checkpoint-dir", in_folder("c")});
  ASSERT_TRUE(trains(job));
  const std::vector<pid_t> ranks = ranks_of_launcher(job);
  ASSERT_EQ(ranks.size(), 3u);
  ::kill(ranks[1], SIGSTOP);
  EXPECT_TRUE(until([&] { return has_event("lost", "job"); }, std::chrono::seconds(5)));
  ::kill(ranks[1], SIGCONT);
  expect_gone({ranks[1]});
  EXPECT_TRUE(runs(job)) << "it ended before the worker came back";
  const Outcome o = finish_within(std::chrono::seconds(60), job);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(lines_with("gemel: rank 1 of 3", o), 1) << o.err;
  EXPECT_EQ(lines_with("gemel: rank 0 has given up rank 1 of 3, which ends", o), 1) << o.err;
  EXPECT_EQ(lines_with("rank 0 of 3", o), 0) << o.err;
  EXPECT_EQ(events("job").back()["status"], "ok");
  expect_gone(ranks);
}

/// It takes rank 0 for lost, and rank 0 it. Of its links one direction is cut, or both; --restarts is for the loss of the job.
TEST_F(ParameterServerJob, of_gemel_launch_goes_on_without_a_worker_that_is_cut_off_from_rank_0) {
  if (!may_cut_links()) GTEST_SKIP() << "sockets of another process cannot be used here";
  for (const bool is_heard : {true, false}) {
    const pid_t job = launch(4, {"--epochs", "12", "--heartbeat", "2", "--checkpoint-dir", in_folder("c")}, {"--restarts", "1"});
    ASSERT_TRUE(trains(job));
    const std::vector<pid_t> ranks = ranks_of_launcher(job);
    ASSERT_EQ(ranks.size(), 4u);
    {
      const SocketsOf rank_0(ranks[0]), worker(ranks[1]);
      EXPECT_GE(worker.become_deaf_to(rank_0), 2) << "heartbeats, and messages of the server";
      EXPECT_GE(is_heard ? 2 : rank_0.become_deaf_to(worker), 2);
    }
    EXPECT_TRUE(until([&] { return has_event("lost", "job"); }, std::chrono::seconds(10)));
    expect_gone({ranks[1]});
    EXPECT_TRUE(runs(job)) << "it ended before the worker did";
    const Outcome o = finish_within(std::chrono::seconds(120), job);
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(lines_with("gemel: rank 1 of 4", o), 1) << o.err;
    EXPECT_EQ(lines_with("gemel: rank 0 has given up rank 1 of 4, which ends", o), 1) << o.err;
    EXPECT_EQ(lines_with("rank 0 of 4", o) + lines_with("gemel-launch", o) + lines_with("restart", o), 0) << o.err;
    EXPECT_EQ(lost("job")->at("rank"), 1);
    EXPECT_EQ(events("job").back()["status"], "ok");
    EXPECT_EQ(losses("job").size(), 12u * (50 * 3));
    expect_gone(ranks);
    for (const char* made : {"job", "c"}) std::filesystem::remove_all(folder() / made);
  }
}

TEST_F(ParameterServerJob, of_gemel_launch_with_a_wrong_option_is_a_usage_error_of_one_line) {
  const Outcome o = finish_within(std::chrono::seconds(10), launch(3, {"--staleness", "x"}));
  EXPECT_EQ(o.status, 2);
  EXPECT_EQ(o.err, "gemel: --staleness: 'x'; accepted: 0 for synchronous updates, 1..1000000 updates, or none\n");
}

TEST_F(ParameterServerJob, of_gemel_launch_ends_with_a_server_that_is_silent_and_names_it) {
  const pid_t job = launch(3, {"--epochs", "1000", "--heartbeat", "2"});
  ASSERT_TRUE(trains(job));
  const std::vector<pid_t> ranks = ranks_of_launcher(job);
  ASSERT_EQ(ranks.size(), 3u);
  ::kill(ranks[0], SIGSTOP);
  const Outcome o = finish_within(std::chrono::seconds(2 + 5), job);
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(lines_with("gemel: rank 0 of 3", o), 1) << o.err;
  EXPECT_EQ(lines_with("has been silent for 2 s", o), 1) << o.err;
  expect_gone(ranks);
}

TEST_F(ParameterServerJob, of_gemel_launch_names_the_server_also_where_the_first_worker_was_lost_before) {
  const pid_t job = launch(3, {"--epochs", "1000"});
  ASSERT_TRUE(trains(job));
  const std::vector<pid_t> ranks = ranks_of_launcher(job);
  ASSERT_EQ(ranks.size(), 3u);
  ::kill(ranks[1], SIGKILL);
  EXPECT_TRUE(until([&] { return has_event("lost", "job"); }, std::chrono::seconds(5)));
  ::kill(ranks[0], SIGKILL);
  const Outcome o = finish_within(std::chrono::seconds(5), job);
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(lines_with("gemel: rank 0 of 3", o), 1) << o.err;
  expect_gone(ranks);
}

TEST_F(ParameterServerJob, of_gemel_launch_ends_within_5_s_of_the_loss_of_a_server_and_names_it) {
  for (const int server : is_full_run() ? std::vector{0, 1} : std::vector{1}) {
    const pid_t job = launch(4, {"--epochs", "1000", "--servers", "2"});
    ASSERT_TRUE(trains(job));
    const std::vector<pid_t> ranks = ranks_of_launcher(job);
    ASSERT_EQ(ranks.size(), 4u);
    ::kill(ranks[static_cast<std::size_t>(server)], SIGKILL);
    const Outcome o = finish_within(std::chrono::seconds(5), job);
    EXPECT_EQ(o.status, 1);
    EXPECT_EQ(lines_with(fmt::format("gemel: rank {} of 4", server), o), 1) << o.err;
    expect_gone(ranks);
    std::filesystem::remove_all(folder() / "job");
  }
}

TEST_F(ParameterServerJob, of_plain_mpirun_ends_with_a_worker_and_says_so) {
  on_ranks(3);
  const pid_t job = start_job(small({"--epochs", "1000", "--eval-every", "0", "--parallel", "ps", "--log-dir", in_folder("job")}));
  ASSERT_TRUE(trains(job));
  const std::vector<pid_t> ranks = ranks_of(job);
  ASSERT_EQ(ranks.size(), 3u);
  ::kill(ranks[2], SIGKILL);
  const Outcome o = finish_within(std::chrono::seconds(8), job);
  EXPECT_NE(o.status, 0);
  EXPECT_EQ(lines_with("gemel: rank 2 of 3", o), 1) << o.err;
  EXPECT_EQ(events("job").back()["status"], "failed");
  expect_gone(ranks);
}

/// From its start to its end.
TEST_F(ParameterServerJob, leaves_no_rank_wherever_one_is_killed) {
  if (!is_full_run()) GTEST_SKIP() << "with --full";
  std::mt19937 random(3);
  for (int i = 0; i < 30; ++i) {
    std::filesystem::remove_all(folder() / "job");
    const std::size_t servers = i % 2 ? 2 : 1;
    const pid_t job = launch(4, {"--epochs", "3", "--servers", std::to_string(servers)});
    std::vector<pid_t> ranks;
    ASSERT_TRUE(until([&] { return (ranks = ranks_of_launcher(job)).size() == 4 || !runs(job); }, std::chrono::seconds(30)));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 6000));
    const std::size_t killed = random() % ranks.size();
    const bool has_begun = has_step("job");
    ::kill(ranks[killed], SIGKILL);
    const Outcome o = finish_within(std::chrono::seconds(90), job);
    if (has_begun && killed >= servers)
      EXPECT_EQ(o.status, 0) << "worker " << killed << ": " << o.err;
    else
      EXPECT_TRUE(o.status == 0 || o.status == 1) << "rank " << killed << ": " << o.err;
    EXPECT_GE(lines_with("gemel: ", o) + (o.status == 0), 1) << o.err;
    expect_gone(ranks);
  }
}

TEST_F(ParameterServerJob, comes_back_from_a_spec) {
  for (const Words& more : {Words{"--servers", "2", "--staleness", "none"}, {"--staleness", "0", "--backup", "1"}}) {
    const Outcome line = alone(small(joined(more, {"--parallel", "ps", "--print-spec"})));
    ASSERT_EQ(line.status, 0) << line.err;
    std::ofstream(folder() / "spec.json") << line.out;
    EXPECT_EQ(alone({"train", "--spec", in_folder("spec.json"), "--print-spec"}).out, line.out);
    EXPECT_EQ(Json::parse(line.out).at("staleness"), *(std::ranges::find(more, "--staleness") + 1));
  }
}

TEST_F(ParameterServerJob, refuses_in_one_line_what_makes_no_sense) {
  const auto refused = [this](int ranks, const Words& more, const std::string& text) {
    on_ranks(ranks);
    const Outcome o = finish(start_job(more));
    EXPECT_EQ(o.status, 2) << o.err;
    EXPECT_GE(lines_with(text, o), 1) << o.err;  // by several ranks, where they do not meet in time to say it together
  };
  refused(2, small({"--parallel", "ps", "--servers", "2"}), "--parallel ps: 2 ranks for 2 servers and a worker; accepted: 3 ranks or more");
  refused(3, small({"--parallel", "ps", "--staleness", "0", "--backup", "2"}),
          "--parallel ps: 3 ranks for 1 server, 2 workers in reserve and another one; accepted: 4 ranks or more");
  launcher_.clear();
  const auto told = [this](const Words& more, const std::string& text) { expect_refused(small(more), 2, text); };
  told({"--parallel", "ps", "--staleness", "0", "--staleness-lr", "whole"},
       "--staleness-lr: it is given with --staleness 0, where no gradient is stale; accepted: with --staleness 1 or more, or none");
  told({"--parallel", "ps", "--staleness-lr", "half"}, "--staleness-lr: 'half' is not accepted");
  told({"--parallel", "ps", "--staleness", "-1"}, "--staleness: '-1'; accepted: 0 for synchronous updates, 1..1000000 updates, or none");
  told({"--parallel", "ps", "--backup", "1"}, "--backup: 1 workers in reserve are given with --staleness 4");
  told({"--parallel", "ps", "--sync-bn"}, "--sync-bn: it is given with --parallel ps");
  told({"--parallel", "ps", "--compression", "fp16"}, "--compression: it is given with --parallel ps");
  told({"--servers", "2"}, "--servers: it is given without --parallel ps; accepted: with it");
  expect_refused({"eval", "--model", "lenet", "--weights", "w.st", "--parallel", "ps"}, 2, "--parallel ps: there are no updates for servers to make");
}

}  // namespace
}  // namespace gemel::testing
