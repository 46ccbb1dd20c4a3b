// Runs that end in the middle and what the next one finds: whole checkpoints, one log, the same bits.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/files/safetensors.h"
#include "tests/support/program/resume_fixture.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

class ResumeInBothFrontEnds : public Resume, public ::testing::WithParamInterface<const char*> {};

TEST_P(ResumeInBothFrontEnds, a_run_killed_at_any_moment_gives_the_same_bits_and_one_log) {
  const std::string frontend = GetParam();
  ASSERT_EQ(run(training({"--epochs", "8", "--frontend", frontend, "--save", in_folder("whole.safetensors")})).status, 0);
  const auto arguments = with_checkpoints({"--frontend", frontend, "--resume", "auto", "--save", in_folder("resumed.safetensors")}, "8");
  const auto newest = [&] { return checkpoints().empty() ? 0 : *checkpoints().rbegin(); };
  // Before the first checkpoint; between two; in the middle of writing one, twice.
  kill_when(start(arguments), [&] { return read_text(folder() / "log" / "run.jsonl").find("\"step\"") != std::string::npos; });
  kill_after(3, start(arguments));
  kill_when(start(arguments), [&] { return newest() >= 6 && temporaries() > 0; });
  std::ofstream(in_folder("c/.gemel-12345.tmp")) << "left by a writer that was killed";
  kill_when(start(arguments), [&] { return newest() >= 9 && temporaries() > 0; });
  std::ofstream(in_folder("c/.gemel-12345.tmp")) << "left by a writer that was killed";
  const Outcome last = run(arguments);
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_GE(resumed_after(last), 9) << last.err;
  EXPECT_LT(resumed_after(last), 40) << "or nothing was left to do";
  EXPECT_TRUE(read_text(folder() / "whole.safetensors") == read_text(folder() / "resumed.safetensors")) << "the weights differ";
  EXPECT_EQ(checkpoints(), (std::set<int>{39, 40}));
  EXPECT_EQ(temporaries(), 0u);
  expect_a_whole_log(8);
}

INSTANTIATE_TEST_SUITE_P(, ResumeInBothFrontEnds, ::testing::Values("eager", "graph"), [](const auto& p) { return std::string(p.param); });

TEST_F(Resume, a_checkpoint_that_is_not_whole_is_passed_over) {
  ASSERT_EQ(run(with_checkpoints()).status, 0);
  const std::string good = read_text(checkpoint(15));
  const auto expect_going_on_after_14 = [&](const std::string& reason) {
    const Outcome o = run(with_checkpoints({"--resume", "auto"}));
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_NE(o.err.find("resume: passed over: "), std::string::npos) << o.err;
    EXPECT_NE(o.err.find(reason), std::string::npos) << o.err;
    EXPECT_NE(o.err.find("going on after step 14 "), std::string::npos) << o.err;
    EXPECT_TRUE(read_text(checkpoint(15)) == good) << "it is written anew, the same";
  };
  write_text(checkpoint(15), good.substr(0, good.size() - 100));
  expect_going_on_after_14("it is truncated");
  std::string flipped = good;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 4);
  write_text(checkpoint(15), flipped);
  expect_going_on_after_14("its contents do not match its checksum");
  expect_refused(with_checkpoints({"--resume", checkpoint(14) + "x"}), 1, "No such file or directory");
  write_text(checkpoint(15), flipped);
  expect_refused(with_checkpoints({"--resume", checkpoint(15)}), 1, "its contents do not match its checksum");
  const std::vector<float> number{1};
  const NamedTensor alien{"model.conv1.bias", f32({1}), std::as_bytes(std::span(number))};
  write_safetensors(checkpoint(15), std::span(&alien, 1));
  expect_going_on_after_14("has no 'run' in its metadata");
}

TEST_F(Resume, without_a_checkpoint_it_starts_from_the_beginning) {
  const Outcome o = run(with_checkpoints({"--resume", "auto"}));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("resume: no checkpoint in " + in_folder("c") + ", starting from the beginning"), std::string::npos) << o.err;
  expect_a_whole_log();
}

TEST_F(Resume, a_checkpoint_of_something_else_is_refused_by_name) {
  ASSERT_EQ(run(with_checkpoints()).status, 0);
  expect_refused(with_checkpoints({"--resume", "auto", "--optimizer", "sgd"}), 1,
                 "checkpoint-15.safetensors: resume: optimizer was 'adam', is now 'sgd'; accepted: 'adam', which the checkpoint is of");
  const auto expect_other = [this](const std::vector<std::string>& more, const std::string& text) {
    std::vector<std::string> arguments{"train", "--model", "lenet", "--dropout", "0", "--resume", checkpoint(14)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refused(arguments, 1, "checkpoint-14.safetensors: resume: " + text);
  };
  const std::string middle = " in the middle of an epoch, whose samples would be left out or met twice; accepted: '";
  expect_other({"--batch-size", "8", "--limit", "24"}, "samples was '40', is now '24'" + middle + "40'");
  expect_other({"--batch-size", "4", "--limit", "40"}, "batch size was '8', is now '4'" + middle + "8'");
  expect_other({"--batch-size", "8", "--limit", "40", "--seed", "2"}, "seed was '1', is now '2'" + middle + "1'");
  expect_other({"--batch-size", "8", "--limit", "40", "--shuffle", "off"}, "shuffle was 'on', is now 'off'" + middle + "on'");
  expect_other({"--batch-size", "8", "--limit", "40", "--classes", "11"}, "classes was '10', is now '11'; accepted: '10'");
  expect_refused({"train", "--model", "alexnet", "--input", "3x64x64", "--limit", "8", "--resume", checkpoint(14)}, 1,
                 "checkpoint-14.safetensors: resume: model was 'lenet', is now 'alexnet'");
  const Outcome frozen =
      run({"train", "--model", "lenet", "--dropout", "0", "--batch-size", "8", "--limit", "40", "--freeze-backbone", "--resume", checkpoint(14)});
  EXPECT_EQ(frozen.status, 1);
  EXPECT_NE(frozen.err.find("checkpoint-14.safetensors: optimizer state: it does not fit; "), std::string::npos) << frozen.err;
  EXPECT_NE(frozen.err.find("; since it was written: frozen backbone was 'off', is now 'on'"), std::string::npos) << frozen.err;
}

TEST_F(Resume, a_run_at_its_end_says_that_it_trains_nothing_and_makes_weights_of_its_checkpoint) {
  const std::string whole = in_folder("whole.safetensors"), again = in_folder("again.safetensors");
  ASSERT_EQ(run(with_checkpoints({"--save", whole})).status, 0);
  expect_refused({"eval", "--model", "lenet", "--weights", checkpoint(15)}, 1,
                 "checkpoint-15.safetensors: it is a checkpoint; accepted: weights, which its run writes at its end");
  const Outcome o = run(with_checkpoints({"--resume", "auto", "--save", again}));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("resume: the run is at its end: nothing is trained, except with more --epochs\n"), std::string::npos) << o.err;
  EXPECT_TRUE(read_text(whole) == read_text(again));
}

TEST_F(Resume, other_settings_are_told_and_taken_between_epochs) {
  ASSERT_EQ(run(training({"--checkpoint-dir", in_folder("c")})).status, 0);  // one epoch of 5 steps
  const Outcome o = run({"train",       "--model",     "lenet",          "--dropout",   "0",   "--batch-size", "4",    "--limit",        "40",  "--resume",
                         checkpoint(5), "--log-dir",   in_folder("log"), "--epochs",    "2",   "--lr",         "0.01", "--weight-decay", "0.1", "--lr-schedule",
                         "cosine",      "--denormals", "flush",          "--precision", "tf32"});
  ASSERT_EQ(o.status, 0) << o.err;
  for (const char* line :
       {"batch size was '8', is now '4'; the run goes on with the new one", "learning rate was '0.001', is now '0.01'; the run goes on",
        "weight decay was '0', is now '0.1'; the run goes on", "denormals was 'keep', is now 'flush'; the run goes on",
        "precision was 'float32', is now 'tf32'; the run goes on", "learning rate schedule was 'constant', is now 'cosine over 2 epochs'; the run goes on"})
    EXPECT_NE(o.err.find(std::string("resume: warning: ") + line), std::string::npos) << line << "\n" << o.err;
  EXPECT_EQ(std::ranges::count(lines_of(o.err), 0, [](const std::string& l) { return l.rfind("resume: warning: ", 0); }), 6) << o.err;
  const auto all = events("log");
  EXPECT_EQ(all.front()["resumed_from"], checkpoint(5));
  EXPECT_EQ(all.front()["device"]["denormals"], "flush");
  EXPECT_EQ(all[1]["step"], 6);
  EXPECT_EQ(all[1]["epoch"], 2);
  EXPECT_EQ(all[1]["lr"], 0.005) << "half way of the cosine";
  EXPECT_EQ(losses("log").size(), 10u) << "the second epoch has ten batches of four";
  const Outcome eager_to_graph = run(training({"--resume", checkpoint(5), "--epochs", "2", "--frontend", "graph"}));
  EXPECT_NE(eager_to_graph.err.find("front end was 'eager', is now 'graph'; results may differ in the last bits"), std::string::npos) << eager_to_graph.err;
}

TEST_F(Resume, a_fresh_run_in_an_old_folder_keeps_what_it_writes) {
  ASSERT_EQ(run(with_checkpoints()).status, 0);
  EXPECT_EQ(checkpoints(), (std::set<int>{14, 15}));
  const auto fresh = [this](const char* steps) { return training({"--steps", steps, "--checkpoint-dir", in_folder("c"), "--checkpoint-every", "1"}); };
  ASSERT_EQ(run(fresh("1")).status, 0);
  EXPECT_EQ(checkpoints(), (std::set<int>{1, 14, 15})) << "another run's checkpoints stay";
  auto on = fresh("3");
  on.insert(on.end(), {"--resume", "auto"});
  const Outcome o = run(on);
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("going on after step 1 "), std::string::npos) << o.err;
  EXPECT_EQ(checkpoints(), (std::set<int>{2, 3, 14, 15})) << "two are this run's, the others stay";
}

TEST_F(Resume, samples_a_second_are_those_of_this_process) {
  ASSERT_EQ(run(training({"--steps", "4", "--checkpoint-dir", in_folder("c")})).status, 0);
  ASSERT_EQ(run(training({"--steps", "5", "--resume", checkpoint(4), "--log-dir", in_folder("log")})).status, 0);
  for (const Json& e : events("log")) {
    if (e["event"] != "epoch") continue;
    const double samples = e["samples_per_s"].get<double>() * e["seconds"].get<double>();
    EXPECT_NEAR(samples, 8, 1e-6) << "one batch of eight; the tolerance is rounding";
  }
}

TEST_F(Resume, an_interrupted_run_goes_on_to_the_same_bits) {
  const std::vector<std::string> arguments =
      training({"--epochs", "40", "--checkpoint-dir", in_folder("c"), "--log-dir", in_folder("log"), "--resume", "auto"});
  const pid_t child = start(arguments);
  while (read_text(folder() / "log" / "run.jsonl").find("\"epoch\":2") == std::string::npos && ::waitpid(child, nullptr, WNOHANG) == 0)
    std::this_thread::yield();
  ::kill(child, SIGTERM);
  const Outcome interrupted = finish(child);
  EXPECT_EQ(interrupted.status, 1) << interrupted.err;
  EXPECT_EQ(events("log").back()["status"], "interrupted");
  expect_no_locks();
  auto again = arguments;
  again.insert(again.end(), {"--save", in_folder("resumed.safetensors")});
  const Outcome resumed = run(again);
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_GE(resumed_after(resumed), 5) << resumed.err;
  EXPECT_LT(resumed_after(resumed), 200) << "or nothing was left to do";
  ASSERT_EQ(run(training({"--epochs", "40", "--save", in_folder("whole.safetensors")})).status, 0);
  EXPECT_TRUE(read_text(folder() / "whole.safetensors") == read_text(folder() / "resumed.safetensors"));
}

TEST_F(Resume, an_interrupt_in_the_validation_is_obeyed_and_the_epoch_ends_when_resumed) {
  const std::vector<std::string> arguments{"train",   "--model", "resnet18",         "--input",      "3x128x128", "--batch-size",   "8",        "--epochs", "1",
                                           "--limit", "96",      "--checkpoint-dir", in_folder("c"), "--log-dir", in_folder("log"), "--resume", "auto"};
  const auto count = [this](const char* event) {
    const auto all = events("log");
    return std::count_if(all.begin(), all.end(), [&](const Json& e) { return e["event"] == event; });
  };
  const pid_t child = start(arguments);
  while (read_text(folder() / "log" / "run.jsonl").find("\"step\":12") == std::string::npos && ::waitpid(child, nullptr, WNOHANG) == 0)
    std::this_thread::yield();
  ::kill(child, SIGINT);
  const Outcome o = finish(child);
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.err.find("interrupted after step 12: saved in "), std::string::npos) << o.err;
  EXPECT_EQ(count("epoch"), 0) << "the validation was not finished";
  ASSERT_EQ(run(arguments).status, 0);
  EXPECT_EQ(count("epoch"), 1);
  EXPECT_EQ(count("step"), 12) << "nothing was trained again";
}

/// A run in three parts, the last of which finds nothing to do.
TEST_F(Resume, the_trace_and_the_summary_are_those_of_the_whole_run) {
  const auto part = [this](const char* steps, const char* trace, const Words& more) {
    const Outcome o = run(joined(training({"--steps", steps, "--profile", in_folder(trace)}), more));
    EXPECT_EQ(o.status, 0) << o.err;
  };
  const auto work = [this](const char* trace) {
    std::map<std::string, int> kernels;
    double last = 0;
    const Json events = Json::parse(read_text(folder() / trace))["traceEvents"];
    for (const Json& e : events) {
      if (e["ph"] != "X") continue;
      EXPECT_GE(e["ts"], last) << "parts lie one behind the other";
      last = e["ts"].get<double>() + e["dur"].get<double>();
      const std::string name = e["name"];
      if (name.find("gradient") != name.npos || name == "adam_update") ++kernels[name];  // of steps: others validate and load in each part
    }
    return kernels;
  };
  const auto summary = [this] { return Json::parse(read_text(folder() / "log/summary.json")); };
  part("7", "whole.json", {});
  const Words on_record{"--checkpoint-dir", in_folder("c"), "--log-dir", in_folder("log"), "--resume", "auto"};
  part("6", "parts.json", on_record);
  const double seconds = summary()["seconds"];
  EXPECT_EQ(summary()["last_epoch"]["epoch"], 2) << "a part of one";
  part("7", "parts.json", on_record);
  EXPECT_EQ(summary()["steps"], 7);
  EXPECT_GT(summary()["seconds"], seconds);
  const auto whole = work("whole.json");
  EXPECT_GT(whole.size(), 5u);
  EXPECT_EQ(whole.at("adam_update"), 7);
  EXPECT_EQ(work("parts.json"), whole);
  const auto last_epoch = summary()["last_epoch"];
  part("7", "parts.json", on_record);
  EXPECT_EQ(summary()["last_epoch"], last_epoch);
  EXPECT_EQ(work("parts.json"), whole);
}

TEST_F(Resume, checkpoints_that_are_passed_over_stay) {
  const auto steps = [this](const char* count) { return training({"--steps", count, "--checkpoint-dir", in_folder("c"), "--resume", "auto"}); };
  ASSERT_EQ(run(steps("3")).status, 0);
  ASSERT_EQ(run(steps("4")).status, 0);
  for (const int step : {3, 4}) {
    const SafetensorsFile file(checkpoint(step));
    FileMetadata metadata = file.metadata();
    metadata.erase("loss_sum");
    write_safetensors(checkpoint(step), file.tensors(), metadata);
  }
  const Outcome none = run(steps("2"));
  EXPECT_NE(none.err.find("passed over"), std::string::npos) << none.err;
  EXPECT_NE(none.err.find("starting from the beginning"), std::string::npos) << none.err;
  for (const int step : {3, 4}) EXPECT_TRUE(fs::exists(checkpoint(step))) << step;
}

TEST_F(Resume, an_interrupt_without_a_folder_says_that_nothing_was_saved) {
  const pid_t child = start(training({"--epochs", "1000", "--log-dir", in_folder("log")}));
  while (read_text(folder() / "log" / "run.jsonl").find("\"step\"") == std::string::npos && ::waitpid(child, nullptr, WNOHANG) == 0) std::this_thread::yield();
  ::kill(child, SIGINT);
  const Outcome o = finish(child);
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.err.find("gemel: interrupted: the step under way is finished first"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find(": nothing was saved, there is no --checkpoint-dir"), std::string::npos) << o.err;
}

TEST_F(Resume, a_torn_line_of_the_log_is_dropped_and_a_finished_run_stays) {
  ASSERT_EQ(run(training({"--log-dir", in_folder("log")})).status, 0);
  const auto before = events("log");
  std::ofstream(folder() / "log" / "run.jsonl", std::ios::app) << "{\"event\":\"st";
  ASSERT_EQ(run(with_checkpoints({"--resume", "auto"})).status, 0);
  const auto after = events("log");
  ASSERT_GT(after.size(), before.size());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
}

}  // namespace
}  // namespace gemel::testing
