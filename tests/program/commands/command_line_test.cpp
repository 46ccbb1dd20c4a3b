// The gemel program from outside, as users and scripts call it: status, messages, files, resuming, both front ends.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cmath>

#include "frontends/cli/system/build_info.h"
#include "frontends/models/pictures/picture_models.h"
#include "tests/support/device/test_device.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

TEST_F(CommandLine, wrong_usage_ends_with_2_and_suggests_the_nearest) {
  expect_refused({"trian"}, 2, "did you mean 'train'?");
  expect_refused({"train", "--modell", "lenet"}, 2, "did you mean '--model'?");
  expect_refused({"train", "--model", "resnet8"}, 2, "did you mean 'resnet18'?");
  expect_refused({"train", "--epochs", "1", "--steps", "2"}, 2, "--epochs and --steps are both given");
  expect_refused({"train", "--graph-passes", "magic"}, 2, "'magic' is unknown; accepted: all, none");
  expect_refused({"train", "--input", "3x32"}, 2, "--input: '3x32' is not accepted");
  expect_refused({"train", "--resume", "auto"}, 2, "needs --checkpoint-dir");
  expect_refused({"ops", "sofmax"}, 2, "did you mean 'softmax'?");
}

TEST_F(CommandLine, plain_train_ends_with_a_validation_as_good_as_training) {
  const auto expect_convincing = [this](const std::string& frontend) {
    const Outcome o = run({"train", "--frontend", frontend, "--log-dir", in_folder(frontend)});
    ASSERT_EQ(o.status, 0) << o.err;
    const auto all = events(frontend);
    const auto epoch = std::ranges::find(all, Json("epoch"), [](const Json& e) { return e["event"]; });
    ASSERT_NE(epoch, all.end());
    EXPECT_GE((*epoch)["val_accuracy"], 0.9);
    EXPECT_NEAR((*epoch)["val_accuracy"].get<double>(), (*epoch)["train_accuracy"].get<double>(), 0.05);
  };
  expect_convincing("graph");
  if (is_full_run()) expect_convincing("eager");
}

TEST_F(CommandLine, the_version_names_the_commit) {
  const Outcome o = run({"--version"});
  EXPECT_EQ(o.status, 0);
  EXPECT_EQ(o.out, fmt::format("gemel {} ({})\n", GEMEL_VERSION, cli::commit()));
}

TEST_F(CommandLine, help_is_no_error) {
  for (const char* command : {"devices", "summary", "train", "eval", "infer", "ops"}) {
    const Outcome o = run({command, "--help"});
    EXPECT_EQ(o.status, 0) << command;
    EXPECT_NE(o.out.find("usage: gemel"), std::string::npos) << command;
  }
}

TEST_F(CommandLine, tokenizes_a_text_a_line) {
  write_text(folder() / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nworld\n");
  const auto tokenize = [this](std::string_view texts, const std::vector<std::string>& more = {}) {
    write_text(folder() / "in", texts);
    std::vector<std::string> words{"tokenize", "--vocab", in_folder("vocab.txt")};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, [file = in_folder("in")] { ::dup2(::open(file.c_str(), O_RDONLY), STDIN_FILENO); });
  };
  EXPECT_EQ(tokenize("Hello world\n\nworld other").out, "2 4 5 3\n2 3\n2 5 1 3\n");
  EXPECT_EQ(tokenize("hello world\n", {"--max-length", "3"}).out, "2 4 3\n");
  EXPECT_EQ(tokenize("Hello\n", {"--cased"}).out, "2 1 3\n");
  const Outcome wrong = tokenize("hello\n\xff\n");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_EQ(wrong.err, "gemel: tokenize: line 2: text: byte 0 (0xff) is not UTF-8\n");
  expect_refused({"tokenize"}, 2, "--vocab is missing");
}

TEST_F(CommandLine, an_unknown_platform_lists_those_found) {
  expect_refused(training({"--platform", "nonesuch"}), 2, "platform: 'nonesuch' is not found; accepted: an index or a part of a name of 0 ");
}

TEST_F(CommandLine, both_front_ends_give_the_same_losses_bit_for_bit) {
  ASSERT_EQ(run(training({"--log-dir", in_folder("eager")})).status, 0);
  ASSERT_EQ(run(training({"--log-dir", in_folder("graph"), "--frontend", "graph", "--graph-passes", "none"})).status, 0);
  const auto eager = losses("eager");
  EXPECT_EQ(eager.size(), 5u);
  EXPECT_EQ(eager, losses("graph"));
}

/// The loss is linear in what is mixed in; float32 sums of ten classes.
TEST_F(CommandLine, label_smoothing_mixes_in_the_loss_of_equal_labels) {
  const auto first_loss = [this](const std::string& smoothing) {
    const Outcome o = run(training({"--steps", "1", "--eval-every", "0", "--label-smoothing", smoothing, "--log-dir", in_folder(smoothing)}));
    EXPECT_EQ(o.status, 0) << o.err;
    return losses(smoothing).at(0);
  };
  const double none = first_loss("0"), all = first_loss("1");
  EXPECT_GT(std::abs(all - none), 1e-4);
  EXPECT_NEAR(first_loss("0.25"), 0.75 * none + 0.25 * all, 1e-6 * none);
}

TEST_F(CommandLine, the_log_tells_a_run_from_start_to_end) {
  ASSERT_EQ(run(training({"--epochs", "2", "--log-dir", in_folder("log")})).status, 0);
  const auto all = events("log");
  EXPECT_EQ(all.front()["event"], "start");
  EXPECT_EQ(all.back()["event"], "end");
  EXPECT_EQ(all.back()["status"], "ok");
  int epochs = 0;
  for (const Json& e : all) {
    if (e["event"] != "epoch") continue;
    EXPECT_EQ(e["epoch"], ++epochs);
    for (const char* key :
         {"seconds", "samples", "train_loss", "train_accuracy", "val_loss", "val_accuracy", "samples_per_s", "device_busy", "peak_device_bytes"})
      EXPECT_TRUE(e.contains(key)) << key;
  }
  EXPECT_EQ(epochs, 2);
  EXPECT_TRUE(std::filesystem::exists(folder() / "log" / "summary.json"));
}

TEST_F(CommandLine, an_interrupt_or_a_lost_terminal_saves_and_ends_with_1) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string name = std::to_string(signal), checkpoints = in_folder("checkpoints" + name), log = in_folder("log" + name);
    const pid_t child = start({"train", "--model", "lenet", "--epochs", "1000", "--limit", "64", "--checkpoint-dir", checkpoints, "--log-dir", log});
    while (read_text(std::filesystem::path(log) / "run.jsonl").find("\"step\"") == std::string::npos && ::waitpid(child, nullptr, WNOHANG) == 0)
      std::this_thread::yield();
    ::kill(child, signal);
    const Outcome o = finish(child);
    EXPECT_EQ(o.status, 1) << o.err;
    EXPECT_EQ(events("log" + name).back()["status"], "interrupted");
    EXPECT_FALSE(std::filesystem::is_empty(checkpoints));
    EXPECT_NE(o.err.find(": saved in " + checkpoints), std::string::npos) << o.err;
  }
}

// As `timeout` sends it: to the process and to its group.
TEST_F(CommandLine, a_signal_sent_twice_is_one_request_and_one_that_follows_later_ends_at_once) {
  const auto started = [&](const std::string& name) {
    const pid_t child = start({"train", "--model", "lenet", "--epochs", "100000", "--limit", "64", "--eval-every", "0", "--checkpoint-dir",
                               in_folder("c" + name), "--log-dir", in_folder(name)});
    while (read_text(folder() / name / "run.jsonl").find("\"step\"") == std::string::npos && ::waitpid(child, nullptr, WNOHANG) == 0) std::this_thread::yield();
    return child;
  };
  const pid_t twice = started("twice");
  ::kill(twice, SIGTERM);
  ::kill(twice, SIGINT);
  EXPECT_EQ(finish(twice).status, 1);
  EXPECT_EQ(events("twice").back()["status"], "interrupted");
  const pid_t busy = start({"bench", "train", "--model", "resnet18", "--batch-size", "64", "--frontend", "eager", "--runs", "100"});
  while (read_text(folder() / "err").find("device:") == std::string::npos && ::waitpid(busy, nullptr, WNOHANG) == 0) std::this_thread::yield();
  int status = 0;
  while (::waitpid(busy, &status, WNOHANG) == 0) ::kill(busy, SIGTERM), std::this_thread::yield();  // until one is no longer the same request
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
}

TEST_F(CommandLine, nobody_listening_ends_no_run) {
  const auto to_a_closed_pipe = [] {
    int ends[2];
    if (::pipe(ends) == 0) ::dup2(ends[1], STDERR_FILENO), ::close(ends[0]), ::close(ends[1]);
  };
  const auto to_a_full_disk = [] { ::dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO); };
  int i = 0;
  for (const std::function<void()>& prepare : {std::function<void()>(to_a_closed_pipe), std::function<void()>(to_a_full_disk)}) {
    const std::string weights = in_folder("w" + std::to_string(i++));
    EXPECT_EQ(run(training({"--save", weights}), prepare).status, 0);
    EXPECT_TRUE(std::filesystem::exists(weights));
  }
}

TEST_F(CommandLine, a_memory_limit_is_told_with_the_largest_tensors) {
  expect_refused(training({"--memory-limit", "300000"}), 1, "out of memory on ");
  expect_refused(training({"--memory-limit", "300k"}), 1, ", limit 307200: ");
  expect_refused(training({"--memory-limit", "300000"}), 1, "; largest: ");
}

TEST_F(CommandLine, a_model_that_does_not_fit_the_input_names_the_layer) {
  expect_refused({"train", "--model", "lenet", "--input", "3x40x40", "--steps", "1"}, 1, "fc1: ");
}

TEST_F(CommandLine, weights_with_wrong_keys_name_all_of_them) {
  ASSERT_EQ(run(training({"--steps", "1", "--save", in_folder("w.safetensors")})).status, 0);
  expect_refused({"train", "--model", "alexnet", "--weights", in_folder("w.safetensors"), "--steps", "1"}, 1, "features.0.weight");
  std::ofstream(in_folder("short.safetensors")) << "abc";
  expect_refused({"eval", "--model", "lenet", "--weights", in_folder("short.safetensors"), "--dataset", "synthetic"}, 1, "short.safetensors");
}

TEST_F(CommandLine, a_loss_that_is_not_a_number_names_step_and_operator) {
  expect_refused(training({"--lr", "1e30", "--optimizer", "sgd", "--epochs", "3"}), 1, "train: the loss of step ");
  expect_refused(training({"--lr", "1e30", "--optimizer", "sgd", "--epochs", "3", "--detect-anomaly"}), 1, "the first operator that made a NaN: ");
}

TEST_F(CommandLine, summary_counts_what_is_known) {
  const Outcome o = run({"summary", "--model", "resnet18", "--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  const Json json = Json::parse(o.out);
  EXPECT_EQ(json["parameters"], 11689512);  // torchvision's count
  EXPECT_GT(json["training_bytes"], json["parameter_bytes"]);
}

TEST_F(CommandLine, summary_takes_every_model_with_its_defaults) {
  for (const std::string_view name : models::names()) {
    const Outcome o = run({"summary", "--model", std::string(name), "--json"});
    ASSERT_EQ(o.status, 0) << name << ": " << o.err;
    const Json json = Json::parse(o.out);
    EXPECT_EQ(json["layers"][0]["output"], (Json{1, 1000})) << name;
    EXPECT_NE(json["training_bytes"].is_number(), json.contains("no_training")) << name << " has a plan or the reason why not";
  }
}

TEST_F(CommandLine, summary_tells_why_a_batch_of_one_cannot_train) {
  for (const char* model : {"resnet18", "mobilenet_v2"}) {
    const Outcome one = run({"summary", "--model", model, "--input", "3x32x32"});
    EXPECT_EQ(one.status, 0) << one.err;
    EXPECT_NE(one.out.find("planned for training nothing, it cannot train on this input: "), std::string::npos) << one.out;
    const Outcome two = run({"summary", "--model", model, "--input", "3x32x32", "--batch-size", "2"});
    EXPECT_NE(two.out.find(" MiB: parameters and statistics, gradients, and an arena of "), std::string::npos) << two.out;
  }
  const Json inception = Json::parse(run({"summary", "--model", "inception_v3", "--json"}).out);
  EXPECT_EQ(inception["parameters"], 27161264) << "the auxiliary classifier counts";
}

TEST_F(CommandLine, devices_lists_platforms_as_json) {
  const Outcome o = run({"devices", "--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_FALSE(Json::parse(o.out)["platforms"].empty());
}

/// Mesa shows its GPUs by itself, and its emulator only to those who name it: a list of ours would name the emulator alone.
TEST_F(CommandLine, devices_that_mesa_emulates_are_listed_where_the_system_shows_no_gpu) {
  constexpr int kNoRight = 77;
  const auto list_beside = [this](const std::string& node) {  // in a /dev of the program's own
    return run({"devices"}, [&node] {
      constexpr mode_t kForAll = S_IFCHR | 0666;
      if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("none", "/dev", "tmpfs", 0, "size=1m") != 0)
        ::_exit(kNoRight);
      if (::mknod("/dev/null", kForAll, ::makedev(1, 3)) != 0 || ::mknod("/dev/urandom", kForAll, ::makedev(1, 9)) != 0 || ::mkdir("/dev/dri", 0755) != 0)
        ::_exit(kNoRight);
      std::ofstream("/dev/dri/" + node).flush();
      ::unsetenv("RUSTICL_ENABLE");
    });
  };
  const Outcome screen = list_beside("card0");
  if (screen.status == kNoRight) GTEST_SKIP() << "this user may not mount or make devices";
  ASSERT_EQ(screen.status, 0) << screen.err;
  if (screen.out.find("llvmpipe") == std::string::npos) GTEST_SKIP() << "Mesa's rusticl is not installed";
  const Outcome gpu = list_beside("renderD128");
  EXPECT_EQ(gpu.status, 0) << gpu.err;
  EXPECT_EQ(gpu.out.find("llvmpipe"), std::string::npos) << gpu.out;
}

}  // namespace
}  // namespace gemel::testing
