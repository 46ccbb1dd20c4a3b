// Runs on a full disk: what was whole stays whole, and one line says what could not be written.
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/device/test_device.h"
#include "tests/support/program/resume_fixture.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

/// A disk that fills while a run goes on: from the end of the first epoch (by then every kernel is compiled) no file grows over a limit.
class FullDisk : public Resume {
 protected:
  static constexpr const char* kEpochs = "40";

  Outcome run_into(rlim_t limit, const std::vector<std::string>& arguments, const std::function<bool()>& moment) {
    fs::remove(folder() / "err");  // an earlier run's words are no sign of this one
    const pid_t child = start(arguments);
    while (!moment() && ::waitpid(child, nullptr, WNOHANG) == 0) std::this_thread::yield();
    const rlimit full{limit, limit};
    EXPECT_EQ(::prlimit(child, RLIMIT_FSIZE, &full, nullptr), 0);
    return finish(child);
  }
  Outcome run_into(rlim_t limit, const std::vector<std::string>& arguments) {
    return run_into(limit, arguments, [this] { return read_text(folder() / "log" / "run.jsonl").find("\"epoch\":2") != std::string::npos; });
  }
  void expect_last_line(const Outcome& o, const std::string& text) {
    EXPECT_EQ(o.status, 1) << o.err;
    const auto lines = lines_of(o.err);
    EXPECT_EQ(lines.back().rfind("gemel: write: cannot write ", 0), 0u) << o.err;
    EXPECT_NE(lines.back().find(text), std::string::npos) << o.err;
    EXPECT_NE(lines.back().find(": File too large"), std::string::npos) << o.err;
  }
};

TEST_F(FullDisk, keeps_the_last_checkpoint_whole) {
  const std::vector<std::string> length{"--epochs", kEpochs};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), length.begin(), length.end());
    return training(more);
  };
  ASSERT_EQ(run(with({"--save", in_folder("whole.safetensors")})).status, 0);
  const std::vector<std::string> kept{"--checkpoint-dir", in_folder("c"), "--checkpoint-every", "1", "--log-dir", in_folder("log")};
  expect_last_line(run_into(100'000, with(kept)), in_folder("c/checkpoint-"));
  EXPECT_EQ(events("log").back()["status"], "failed");
  EXPECT_EQ(temporaries(), 0u);
  ASSERT_EQ(checkpoints().size(), 2u);
  auto again = kept;
  again.insert(again.end(), {"--resume", "auto", "--save", in_folder("resumed.safetensors")});
  const int last = *checkpoints().rbegin();
  const Outcome o = run(with(again));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("resume: going on after step " + std::to_string(last) + " "), std::string::npos) << o.err;
  EXPECT_TRUE(read_text(folder() / "whole.safetensors") == read_text(folder() / "resumed.safetensors"));
}

TEST_F(FullDisk, is_named_with_the_file_that_was_written) {
  const std::vector<std::string> logged = training({"--epochs", kEpochs, "--log-dir", in_folder("log")});
  auto saved = logged;
  saved.insert(saved.end(), {"--save", in_folder("w.safetensors")});
  write_text(folder() / "w.safetensors", "as it was");
  expect_last_line(run_into(100'000, saved), in_folder("w.safetensors"));
  EXPECT_EQ(read_text(folder() / "w.safetensors"), "as it was");
}

/// Whole records of an event file: a length, its checksum, so many bytes, theirs.
bool holds_whole_records(const fs::path& file) {
  constexpr std::size_t kBefore = 12, kBehind = 4;
  const std::string bytes = read_text(file);
  std::size_t at = 0;
  while (at + kBefore <= bytes.size()) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    at += kBefore + length + kBehind;
  }
  return at == bytes.size() && at > 0;
}

TEST_F(FullDisk, takes_lines_from_the_log_and_nothing_from_the_run) {
  constexpr rlim_t kSmall = 4000;  // which the log comes to in the fifth epoch, and what is printed of fewer than thirty does not
  const Outcome o = run_into(kSmall, training({"--epochs", "16", "--log-dir", in_folder("log")}));
  EXPECT_EQ(o.status, 0) << o.err;
  const std::string warning =
      "log: warning: write: cannot write " + in_folder("log/run.jsonl") + ": File too large; the run goes on, and its record lacks what does not fit";
  EXPECT_EQ(std::ranges::count(lines_of(o.err), warning), 1) << o.err;
  EXPECT_NE(o.out.find("epoch 16: "), std::string::npos) << o.out;
  EXPECT_GT(events("log").size(), 10u) << "whole lines, or they could not be read";
  EXPECT_LE(fs::file_size(folder() / "log/run.jsonl"), kSmall);
  for (const auto& entry : fs::directory_iterator(folder() / "log")) {
    const bool is_event_file = entry.path().filename().string().starts_with("events.out.");
    EXPECT_TRUE(!is_event_file || holds_whole_records(entry.path()));
  }
}

TEST_F(FullDisk, leaves_the_weights_elsewhere_and_says_where) {
  const Words length{"--epochs", "8"};
  ASSERT_EQ(run(training(joined(length, {"--save", in_folder("whole.safetensors")}))).status, 0);
  fs::create_directory(folder() / "lost");
  const pid_t child = start(training(joined(length, {"--save", in_folder("lost/w.safetensors"), "--log-dir", in_folder("log")})));
  while (read_text(folder() / "log" / "run.jsonl").find("\"step\"") == std::string::npos && ::waitpid(child, nullptr, WNOHANG) == 0) std::this_thread::yield();
  fs::remove_all(folder() / "lost");
  const Outcome o = finish(child);
  EXPECT_EQ(o.status, 1) << o.err;
  const std::string rescued = in_folder("log/rescued-" + std::to_string(child) + "-w.safetensors");
  EXPECT_EQ(lines_of(o.err).back(),
            "gemel: write: cannot create a file for " + in_folder("lost/w.safetensors") + ": No such file or directory; it is in " + rescued + " instead")
      << o.err;
  EXPECT_TRUE(read_text(rescued) == read_text(folder() / "whole.safetensors"));
}

/// On a disk of its own that is smaller than what is written there.
TEST_F(FullDisk, of_a_few_pages_ends_no_run_by_a_signal) {
  fs::create_directory(folder() / "disk");
  constexpr int kNoRight = 77;
  const auto small_disk = [this] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", in_folder("disk").c_str(), "tmpfs", 0, "size=32k") != 0)
      ::_exit(kNoRight);
  };
  const Outcome saved = run(training({"--steps", "1", "--save", in_folder("disk/w.safetensors"), "--log-dir", in_folder("log")}), small_disk);
  if (saved.status == kNoRight) GTEST_SKIP() << "this user may not mount";
  const std::string full = ": No space left on device";
  EXPECT_EQ(saved.status, 1);
  EXPECT_NE(saved.err.find("gemel: write: cannot write " + in_folder("disk/w.safetensors") + full + "; it is in " + in_folder("log/rescued-")),
            std::string::npos)
      << saved.err;
  expect_refused(training({"--steps", "1", "--checkpoint-dir", in_folder("disk/c")}), 1,
                 "gemel: write: cannot write " + in_folder("disk/c/checkpoint-1.safetensors") + full, small_disk);
  expect_refused(training({"--steps", "40", "--profile", in_folder("disk/trace.json")}), 1, "gemel: write: cannot write " + in_folder("disk/trace.json") + full,
                 small_disk);
  const Outcome logged = run(training({"--steps", "200", "--log-dir", in_folder("disk/log")}), small_disk);
  EXPECT_EQ(logged.status, 0) << logged.err;
  EXPECT_NE(logged.err.find("log: warning: write: cannot write " + in_folder("disk/log/")), std::string::npos) << logged.err;
  const auto full_disk = [&] {
    small_disk();
    std::ofstream(in_folder("disk/filling")) << std::string(1 << 20, 'x');
  };
  const Outcome full_before = run(training({"--steps", "1", "--log-dir", in_folder("disk/log")}), full_disk);
  EXPECT_EQ(full_before.status, 0) << full_before.err;
  EXPECT_NE(full_before.err.find("log: warning: write: cannot write " + in_folder("disk/log/")), std::string::npos) << full_before.err;
  // What goes with a run, here PoCL's kernels, finds room elsewhere where TMPDIR is full too.
  const Outcome temporary = run(training({"--memory-limit", "1000"}), [&] {
    full_disk();
    ::unsetenv("POCL_CACHE_DIR");
    ::setenv("GEMEL_CACHE_DIR", in_folder("disk").c_str(), 1);
    ::setenv("TMPDIR", in_folder("disk").c_str(), 1);
  });
  EXPECT_NE(temporary.err.find("the memory limit is reached"), std::string::npos) << temporary.err;
  if (!test_device().profile().is_pocl()) return;
  EXPECT_EQ(temporary.err.rfind("gemel: warning: kernel cache: " + in_folder("disk/"), 0), 0u) << temporary.err;
  EXPECT_NE(temporary.err.find("; PoCL compiles into /"), std::string::npos) << temporary.err;
  EXPECT_EQ(temporary.err.find("; PoCL compiles into " + in_folder("disk")), std::string::npos) << temporary.err;
}

TEST_F(FullDisk, is_told_of_outputs_too) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"ops"}, {"train", "--help"}, {"--help"}})
    expect_refused(words, 1, "gemel: write: cannot write standard output: No space left on device",
                   [] { ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO); });
  const std::vector<std::string> bench{"bench", "infer", "--model", "lenet", "--frontend", "graph", "--runs", "1"};
  expect_refused(bench, 1, "gemel: write: cannot write standard output", [] { ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO); });
  expect_refused(bench, 1, "gemel: write: cannot write standard output", [] { ::close(STDOUT_FILENO); });
}

}  // namespace
}  // namespace gemel::testing
