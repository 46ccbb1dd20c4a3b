// What the gemel program does with outputs that cannot be written, or would replace what it uses: one line before any work is done.
#include <fmt/format.h>
#include <linux/securebits.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "engine/base/files/folder_lock.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

class OutputRefusals : public CommandLine {
 protected:
  static Words infer_into(const std::string& output) {
    return {"infer", "--model", "lenet", "--weights", "none.safetensors", "--input", "none.npy", "--output", output};
  }
  static Words bench_into(const std::string& json) { return {"bench", "infer", "--model", "lenet", "--json", json}; }

  /// One line and no other: it is refused before data, weights or a device are looked for.
  void expect_refused_at_once(const Words& arguments, const std::string& line, const std::function<void()>& prepare = {}) {
    const Outcome o = run(arguments, prepare);
    EXPECT_EQ(o.status, 1);
    EXPECT_EQ(o.err, "gemel: " + line + "\n");
  }

  static constexpr int kStaysRoot = 77;
  /// Modes do not stop root, until the program that is started next is root without its rights.
  static void obey_modes() {
    if (::geteuid() == 0 && ::prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0) != 0) ::_exit(kStaysRoot);
  }
};

TEST_F(OutputRefusals, what_is_no_file_is_refused_where_one_is_written_and_not_waited_for) {
  fs::create_directory(folder() / "log");
  ASSERT_EQ(::mkfifo(in_folder("pipe").c_str(), 0600), 0);
  for (const char* option : {"--save", "--profile"})
    expect_refused(training({option, in_folder("pipe")}), 1,
                   "gemel: write: cannot write " + in_folder("pipe") + ": it is no regular file; accepted: a regular file, or a name that is free");
  for (const std::string name : {"run.jsonl", "summary.json"}) {
    fs::create_symlink(in_folder("pipe"), folder() / "log" / name);
    expect_refused(training({"--log-dir", in_folder("log")}), 1, in_folder("log/" + name) + ": it is no regular file; accepted: ");
    fs::remove(folder() / "log" / name);
  }
  fs::create_symlink("run.jsonl", folder() / "log/run.jsonl");
  expect_refused(training({"--log-dir", in_folder("log")}), 1, "gemel: log: cannot open " + in_folder("log/run.jsonl") + ": Too many levels of symbolic links");
}

TEST_F(OutputRefusals, a_validation_loss_that_is_not_a_number_ends_the_run) {
  expect_refused({"train", "--model", "lenet", "--limit", "8", "--lr", "1e25", "--checkpoint-dir", in_folder("c")}, 1,
                 "gemel: train: the validation loss after step 1 is ");
  EXPECT_TRUE(fs::is_empty(folder() / "c")) << "weights that are no numbers are no checkpoint";
}

TEST_F(OutputRefusals, files_that_cannot_be_written_are_found_before_the_work) {
  for (const char* option : {"--save", "--profile"}) {
    expect_refused(training({option, in_folder("none/file")}), 1,
                   "gemel: write: cannot create a file for " + in_folder("none/file") + ": No such file or directory");
    EXPECT_EQ(read_text(folder() / "err").find("epoch"), std::string::npos) << "nothing was trained before";
    const std::string too_long = in_folder(std::string(300, 'a'));
    expect_refused(training({option, too_long}), 1, "gemel: write: cannot write " + too_long + ": File name too long");
  }
  write_text(folder() / "file", "");
  expect_refused(training({"--checkpoint-dir", in_folder("file/c")}), 1,
                 "gemel: checkpoint: cannot make the folder " + in_folder("file/c") + ": Not a directory");
  expect_refused(training({"--log-dir", in_folder("file/log")}), 1, "gemel: log: cannot make the folder " + in_folder("file/log") + ": Not a directory");
}

TEST_F(OutputRefusals, outputs_of_infer_and_bench_that_cannot_be_written_are_found_before_anything_is_opened) {
  const std::string none = in_folder("none/file"), here = folder().string(), too_long = in_folder(std::string(300, 'a'));
  for (const auto& into : {infer_into, bench_into}) {
    expect_refused_at_once(into(none), "write: cannot create a file for " + none + ": No such file or directory");
    expect_refused_at_once(into(here), "write: cannot write " + here + ": Is a directory");
    expect_refused_at_once(into(too_long), "write: cannot write " + too_long + ": File name too long");
  }
}

TEST_F(OutputRefusals, outputs_into_folders_that_are_closed_to_the_user_are_found_before_the_work) {
  if (run({"--version"}, obey_modes).status == kStaysRoot) GTEST_SKIP() << "root keeps its rights here";
  fs::create_directory(folder() / "closed");
  fs::create_directory(folder() / "log");
  write_text(folder() / "log/run.jsonl", "");
  fs::permissions(folder() / "closed", fs::perms(0555));
  fs::permissions(folder() / "log/run.jsonl", fs::perms(0444));
  const std::string closed = in_folder("closed"), denied = ": Permission denied";
  const auto refused = [&](const Words& arguments, const std::string& what) { expect_refused_at_once(arguments, what + denied, obey_modes); };
  const auto refused_file = [&](const Words& arguments, const std::string& file) { refused(arguments, "write: cannot create a file for " + file); };
  const Words eval{"eval", "--model", "lenet", "--weights", "w"}, generate{"generate", "--weights", "w", "--vocab", "v", "--prompt", "p"},
      tune{"tune", "--model", "lenet"};
  for (const Words& command : {training({}), eval, infer_into(in_folder("y.npy")), bench_into(in_folder("b.json")), generate, tune}) {
    refused_file(joined(command, {"--profile", closed + "/trace.json"}), closed + "/trace.json");
    refused(joined(command, {"--log-dir", closed + "/log"}), "log: cannot make the folder " + closed + "/log");
  }
  refused_file(training({"--log-dir", closed}), closed + "/summary.json");
  refused(training({"--log-dir", in_folder("log")}), "log: cannot open " + in_folder("log/run.jsonl"));
  refused_file(training({"--save", closed + "/w.safetensors"}), closed + "/w.safetensors");
  refused(training({"--checkpoint-dir", closed + "/c"}), "checkpoint: cannot make the folder " + closed + "/c");
  refused_file(training({"--checkpoint-dir", closed}), closed + "/checkpoint");
  refused_file(infer_into(closed + "/y.npy"), closed + "/y.npy");
  refused_file(bench_into(closed + "/b.json"), closed + "/b.json");
  expect_refused(training({}), 1, " cannot be made" + denied + "; accepted: a folder that can be written", [&] {
    ::unsetenv("POCL_CACHE_DIR");
    ::setenv("GEMEL_CACHE_DIR", closed.c_str(), 1);
    obey_modes();
  });
  EXPECT_NE(read_text(folder() / "err").find("gemel: GEMEL_CACHE_DIR: " + closed + "/pocl/"), std::string::npos) << read_text(folder() / "err");
}

TEST_F(OutputRefusals, an_output_replaces_nothing_that_the_command_uses) {
  fs::create_directories(folder() / "data");
  for (const char* name : {"data/images.npy", "w.safetensors", "x.npy", "vocab.txt"}) write_text(folder() / name, "what was there");
  fs::create_symlink("w.safetensors", folder() / "link");
  const auto path = [this](const char* name) { return in_folder(name); };
  const Words infer{"infer", "--model", "lenet", "--weights", path("w.safetensors"), "--input", path("x.npy")};
  const auto refused = [](const char* option, const std::string& file, const std::string& rest) {
    return fmt::format("gemel: --{}: '{}' is {}; accepted: another file", option, file, rest);
  };
  expect_refused(joined(infer, {"--output", path("link")}), 2, refused("output", path("link"), "given for --weights too"));
  expect_refused(joined(infer, {"--output", path("x.npy")}), 2, refused("output", path("x.npy"), "given for --input too"));
  const Words train{"train", "--model", "lenet", "--dataset", "npy", "--data", path("data")};
  expect_refused(joined(train, {"--save", path("data/images.npy")}), 2, refused("save", path("data/images.npy"), "a file of --data"));
  expect_refused(joined(train, {"--save", path("a"), "--profile", path("./a")}), 2, refused("profile", path("./a"), "given for --save too"));
  expect_refused(joined(train, {"--log-dir", path("log"), "--save", path("log/run.jsonl")}), 2, refused("save", path("log/run.jsonl"), "a file of --log-dir"));
  expect_refused(joined(train, {"--checkpoint-dir", path("c"), "--profile", path("c/checkpoint-1.safetensors")}), 2,
                 refused("profile", path("c/checkpoint-1.safetensors"), "a file of --checkpoint-dir"));
  expect_refused({"train", "--model", "bert", "--config", "tiny", "--vocab", path("vocab.txt"), "--save", path("vocab.txt")}, 2,
                 refused("save", path("vocab.txt"), "given for --vocab too"));
  for (const char* name : {"data/images.npy", "w.safetensors", "x.npy", "vocab.txt"}) EXPECT_EQ(read_text(folder() / name), "what was there") << name;
  const std::string weights = path("own.safetensors");
  ASSERT_EQ(run(training({"--steps", "1", "--save", weights})).status, 0);
  EXPECT_EQ(run(training({"--steps", "1", "--weights", weights, "--save", weights})).status, 0) << "trained further";
}

TEST_F(OutputRefusals, a_folder_that_another_run_writes_into_is_named_before_anything_is_computed) {
  for (const std::string op : {"log", "checkpoint"}) {
    fs::create_directories(folder() / op);
    const FolderLock other(folder() / op, op);
    const Outcome o = run(training({"--" + op + "-dir", in_folder(op)}));
    EXPECT_EQ(o.status, 1);
    EXPECT_EQ(o.err.rfind("gemel: " + op + ": " + in_folder(op) + " is in use by another run, process " + std::to_string(::getpid()) + " on ", 0), 0u) << o.err;
    EXPECT_EQ(lines_of(o.err).size(), 1u) << o.err;
  }
}

TEST_F(OutputRefusals, arguments_that_are_no_text_do_not_break_the_log) {
  ASSERT_EQ(run(training({"--steps", "1", "--log-dir", in_folder("log"), "--save", in_folder("\xff\xfe.safetensors")})).status, 0);
  EXPECT_EQ(events("log").back()["status"], "ok");
  const Outcome bench = run({"bench", "infer", "--model", "lenet", "--frontend", "eager", "--runs", "1", "--json", in_folder("\xff.json")});
  EXPECT_EQ(bench.status, 0) << bench.err;
}

}  // namespace
}  // namespace gemel::testing
