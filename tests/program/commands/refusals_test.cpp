// What the gemel program does with bad input: one line that names it, and the right status.
#include <fmt/format.h>
#include <linux/securebits.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstring>
#include <map>
#include <optional>

#include "datasets/formats/npy.h"
#include "engine/base/error.h"
#include "engine/base/files/folder_lock.h"
#include "engine/files/safetensors.h"
#include "frontends/cli/command.h"
#include "tests/support/datasets/pictures_folder.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

class Refusals : public CommandLine {
 protected:
  /// A safetensors file with this header and 36 bytes of data, whatever the header says. @param length  of it, as the file gives it
  std::string weights_with(const std::string& header, std::optional<std::uint64_t> length = {}) const {
    const std::uint64_t given = length.value_or(header.size());
    std::string text(8, '\0');
    std::memcpy(text.data(), &given, 8);
    write_text(folder() / "hostile.safetensors", text + header + std::string(36, '\0'));
    return in_folder("hostile.safetensors");
  }

  /// images.npy and labels.npy in a folder of that name.
  std::string arrays(const std::string& name, std::int64_t images, const std::vector<std::int64_t>& labels) const {
    write_pictures(folder() / name, images, labels);
    return in_folder(name);
  }
  static Words on(const std::string& dataset, const std::string& path) {
    return {"train", "--model", "lenet", "--steps", "1", "--batch-size", "2", "--dataset", dataset, "--data", path};
  }

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

/// A command, what it cannot do without, and of each a value that it refuses only behind its command line: no option's empty value has it start.
struct Called {
  std::string name;
  int (*run)(const cli::Arguments&);
  std::vector<std::pair<std::string, std::string>> given;
  Words behind = {};

  /// With the option's value in place of what is given for it.
  cli::Arguments with(const std::string& option, const Words& words) const {
    cli::Arguments out;
    for (const auto& [name_given, value] : given)
      if (name_given != option) out.insert(out.end(), {name_given, value});
    return joined(joined(out, words), behind);
  }
};

/// Options that take a value, as a command's help lists them.
Words options_with_values(const std::string& help) {
  Words out;
  for (const std::string& line : lines_of(help)) {
    std::istringstream words(line);
    std::string option, value;
    if (words >> option >> value && option.starts_with("--") && value == "arg") out.push_back(option);
  }
  return out;
}

TEST_F(Refusals, every_command_names_an_option_that_it_does_not_know) {
  for (const std::string command : {"devices", "summary", "train", "eval", "infer", "ops"})
    for (const std::string option : {"--nonsense", "--nonsense="})
      expect_refused({command, option}, 2, "gemel: " + command + ": option '--nonsense' is unknown");
}

TEST_F(Refusals, a_missing_value_or_one_of_another_type_tells_what_is_accepted) {
  expect_refused({"train", "--lr"}, 2, "gemel: train: --lr is given without a value; accepted: a number: learning rate");
  expect_refused({"train", "--lr", "fast"}, 2, "gemel: train: --lr: 'fast' is not accepted; accepted: a number: learning rate");
  expect_refused({"train", "--steps", "1.5"}, 2, "--steps: '1.5' is not accepted; accepted: a whole number: updates");
  expect_refused({"train", "--steps", "99999999999999999999"}, 2, "--steps: 99999999999999999999 is out of range; accepted: a whole number: updates");
  expect_refused({"train", "--lr", "1e999"}, 2, "--lr: 1e999 is out of range; accepted: a number: learning rate");
  expect_refused({"train", "--seed", "x"}, 2, "--seed: 'x' is not accepted; accepted: a whole number");
  expect_refused({"train", "--limit", "1", "--limit", "2"}, 2, "--limit is given more than once; accepted: once");
  expect_refused({"train", "--freeze-norm=yes"}, 2, "--freeze-norm is given a value; accepted: --freeze-norm alone");
  expect_refused({"summary"}, 2, "gemel: summary: --model is missing; accepted: model: lenet, perceptron, alexnet");
  expect_refused({"eval", "--model", "lenet"}, 2, "--weights is missing; accepted: safetensors file");
  expect_refused({"infer", "--batch-size", "many"}, 2, "--batch-size: 'many' is not accepted; accepted: a whole number: samples at a time");
  expect_refused({"summary", "lenet"}, 2, "summary: 'lenet' is no option; accepted: options, which begin with --");
  expect_refused({"generate", "--prompt=", "more"}, 2, "generate: 'more' is no option; accepted: options, which begin with --");
  expect_refused({"ops", "add", "multiply"}, 2, "ops: 'multiply' is one word too many; accepted: name and options, which begin with --");
}

TEST_F(Refusals, an_empty_value_names_nothing_whatever_option_of_whatever_command_has_it) {
  const std::pair<std::string, std::string> model{"--model", "lenet"}, weights{"--weights", "w"}, wrong{"--seed", "-1"};
  const std::vector<Called> commands{{"train", cli::train, {wrong}},
                                     {"eval", cli::eval, {model, weights, wrong}},
                                     {"infer", cli::infer, {model, weights, wrong}},
                                     {"launch", cli::launch, {{"--np", "0"}}, {"train", "--parallel", "ddp"}},
                                     {"bench", cli::bench, {{"--work", "infer"}, wrong}},
                                     {"tune", cli::tune, {wrong}},
                                     {"summary", cli::summary, {model, {"--batch-size", "0"}}},
                                     {"generate", cli::generate, {weights, {"--vocab", "v"}, {"--prompt", "p"}, wrong}},
                                     {"tokenize", cli::tokenize, {{"--vocab", "none"}}},
                                     {"ops", cli::ops, {}}};
  for (const Called& command : commands) {
    const Words options = options_with_values(run({command.name, "--help"}).out);
    EXPECT_FALSE(options.empty()) << command.name;
    for (const std::string& option : options) {
      const auto said = [&](const Words& words) { return message_of<UsageError>([&] { command.run(command.with(option, words)); }); };
      const std::string names_nothing = command.name + ": " + option + " is given an empty value; accepted: ",
                        is_no_number = option + ": '' is not accepted; accepted: ";
      if (option == "--text" || option == "--prompt") {  // a text may be empty
        EXPECT_EQ(said({option + "="}), said({option, ""}));
        EXPECT_EQ(said({option + "="}).find(names_nothing), std::string::npos) << said({option + "="});
        continue;
      }
      EXPECT_TRUE(said({option + "="}).starts_with(names_nothing)) << said({option + "="});
      const std::string apart = said({option, ""});
      EXPECT_TRUE(apart.find(names_nothing) != std::string::npos || apart.find(is_no_number) != std::string::npos) << command.name << ": " << apart;
    }
    if (options.empty()) continue;
    expect_refused(joined({command.name}, command.with(options[0], {options[0] + "="})), 2, options[0] + " is given an empty value; accepted: ");
  }
  expect_refused({"launch", "--np", "2", "--check", "train", "--parallel", "ddp", "--weights", ""}, 2,
                 "gemel: train: --weights is given an empty value; accepted: ");
}

TEST_F(Refusals, a_name_that_is_too_long_is_told_in_words_of_its_own) {
  const std::string too_long = in_folder(std::string(300, 'a'));
  expect_refused({"tokenize", "--vocab", too_long}, 1, "gemel: read: cannot examine " + too_long + ": File name too long");
}

TEST_F(Refusals, a_number_out_of_range_tells_the_range) {
  const std::map<std::string, std::string> outside{
      {"--epochs", "0"},     {"--steps", "-1"},      {"--batch-size", "0"}, {"--lr", "nan"},        {"--weight-decay", "-1"},
      {"--momentum", "1.5"}, {"--clip-norm", "inf"}, {"--limit", "-1"},     {"--eval-every", "-1"}, {"--checkpoint-every", "-1"},
      {"--seed", "-1"},      {"--threads", "9999"},  {"--classes", "-1"},   {"--dropout", "1.1"},   {"--memory-limit", "-1"},
      {"--accumulate", "0"}, {"--workers", "-1"}};
  for (const auto& [option, value] : outside) expect_refused({"train", option, value}, 2, "gemel: " + option + ": " + value + " is out of range; accepted: ");
  for (const char* text : {"8X", "G", "1.5G", "8GB"})
    expect_refused({"train", "--memory-limit", text}, 2, std::string("gemel: --memory-limit: '") + text + "' is not accepted; accepted: bytes, such as ");
  for (const Words& command : {Words{"train"}, Words{"eval", "--model", "lenet", "--weights", "w"}, Words{"summary", "--model", "lenet"}}) {
    Words arguments = command;
    arguments.insert(arguments.end(), {"--classes", "1000001"});
    expect_refused(arguments, 2, "gemel: --classes: 1000001 is out of range; accepted: " + std::string(command[0] == "summary" ? "1" : "0") + " to 1000000");
  }
  expect_refused({"summary", "--model", "lenet", "--batch-size", "0"}, 2, "--batch-size: 0 is out of range; accepted: 1 to ");
  expect_refused({"eval", "--model", "lenet", "--weights", "w", "--batch-size", "0"}, 2, "--batch-size: 0 is out of range; accepted: 1 to ");
}

TEST_F(Refusals, a_word_that_is_no_choice_tells_the_choices) {
  for (const char* option :
       {"--model", "--dataset", "--optimizer", "--lr-schedule", "--shuffle", "--augment", "--normalize", "--frontend", "--gemm", "--recompute", "--denormals"})
    expect_refused({"train", option, "zzz"}, 2, std::string("gemel: ") + option + ": 'zzz' is not accepted; accepted: ");
  expect_refused({"train", "--graph-passes", "dead-code,"}, 2, "graph passes: '' is unknown; accepted: all, none, ");
  const std::string no_blocks =
      "gemel: --recompute: blocks is given with --model lenet, which has no repeated blocks; accepted: none, or another model: resnet18, resnet50, ";
  for (const Words& command : {Words{"train"}, Words{"bench", "train"}, Words{"summary"}}) {
    Words arguments = command;
    arguments.insert(arguments.end(), {"--model", "lenet", "--recompute", "blocks"});
    expect_refused(arguments, 2, no_blocks);
  }
  expect_refused({"bench", "infer", "--recompute", "blocks"}, 2, "gemel: bench: --recompute is given with infer, which trains nothing; accepted: train");
  expect_refused({"train", "--freeze-backbone=1"}, 2, "; accepted: --freeze-backbone alone");
  expect_refused({"train", "--input", "3x-1x2"}, 2, "--input: '3x-1x2' is not accepted; accepted: 3 extents from 1 to 65536, such as 3x32x32");
}

TEST_F(Refusals, without_an_opencl_platform_it_says_how_to_get_one) {
  const auto none = [this] {
    fs::create_directory(folder() / "empty");
    ::setenv("OCL_ICD_VENDORS", (in_folder("empty") + "/").c_str(), 1);
    ::unsetenv("OCL_ICD_FILENAMES");
  };
  expect_refused(training({}), 1, "gemel: platform: no OpenCL platform is found; accepted: any OpenCL driver, for instance the package pocl-opencl-icd", none);
  const Outcome o = run({"devices"}, none);
  EXPECT_EQ(o.status, 0) << "an empty list is an answer: " << o.err;
  EXPECT_NE(o.out.find("no OpenCL platform is installed"), std::string::npos) << o.out;
}

TEST_F(Refusals, no_emulator_stands_in_for_a_pocl_that_cannot_write_its_cache) {
  if (test_device().profile().platform != "Portable Computing Language") GTEST_SKIP() << "PoCL is not what the tests run on";
  const auto unwritable = [] {
    ::setenv("HOME", "/proc/none", 1);
    for (const char* name : {"GEMEL_CACHE_DIR", "POCL_CACHE_DIR", "XDG_CACHE_HOME", "GEMEL_PLATFORM", "GEMEL_DEVICE"}) ::unsetenv(name);
  };
  for (const Words& words : {training({"--platform", "pocl"}), training({"--device", "cpu"})})
    expect_refused(words, 1, "offers none where its cache cannot be written: POCL_CACHE_DIR names /proc/none", [&] {
      unwritable();
      ::setenv("POCL_CACHE_DIR", "/proc/none", 1);
    });
  const Outcome o = run(training({"--platform", "pocl", "--memory-limit", "1000"}), unwritable);
  EXPECT_EQ(o.err.rfind("gemel: warning: kernel cache: /proc/none/.cache/gemel/pocl/", 0), 0u) << "another folder was not asked for: " << o.err;
  EXPECT_NE(o.err.find("the memory limit is reached"), std::string::npos) << "it goes on as it would: " << o.err;
}

TEST_F(Refusals, a_cache_folder_that_was_asked_for_and_cannot_be_made_is_named) {
  for (const std::vector<std::string>& words : {training({}), {"devices"}})
    expect_refused(words, 1, "gemel: GEMEL_CACHE_DIR: /proc/none/pocl/", [] {
      ::unsetenv("POCL_CACHE_DIR");
      ::setenv("GEMEL_CACHE_DIR", "/proc/none", 1);
    });
}

TEST_F(Refusals, what_pocl_would_crash_on_is_named) {
  const std::vector<std::pair<const char*, const char*>> bad{{"POCL_MAX_PTHREAD_COUNT", "-1"},
                                                             {"POCL_MAX_PTHREAD_COUNT", "99999999999"},
                                                             {"POCL_CPU_MAX_CU_COUNT", "four"},
                                                             {"POCL_PTHREAD_MIN_THREADS", "-1"},
                                                             {"POCL_TRACING", "cq"},
                                                             {"POCL_OFFLINE_COMPILE", "1"},
                                                             {"POCL_MAX_WORK_GROUP_SIZE", "0"},
                                                             {"POCL_MAX_WORK_GROUP_SIZE", "2"},
                                                             {"POCL_DEBUG_LLVM_PASSES", "1"},
                                                             {"POCL_STARTUP_DELAY", "1000000"}};
  for (const auto& [name, value] : bad)
    expect_refused({"devices"}, 2, std::string("gemel: ") + name + ": '" + value + "' is not accepted; accepted: ", [&] { ::setenv(name, value, 1); });
  const auto bind_too_many = [] {
    ::setenv("POCL_AFFINITY", "1", 1);
    ::setenv("POCL_MAX_PTHREAD_COUNT", "4000", 1);
  };
  expect_refused({"devices"}, 2, "gemel: POCL_MAX_PTHREAD_COUNT: '4000' is not accepted; accepted: digits, 0..", bind_too_many);
  const Outcome o = run({"devices"}, [] {
    ::unsetenv("POCL_AFFINITY");
    ::setenv("POCL_MAX_PTHREAD_COUNT", "100", 1);
  });
  EXPECT_EQ(o.status, 0) << "more threads than processors, each of which would be bound to one: " << o.err;
}

TEST_F(Refusals, limits_too_low_for_drivers_are_one_line) {
  const auto expect_limit = [this](const char* line, int of, rlim_t least) {
    expect_refused({"devices"}, 1, line, [=] {
      const rlimit limit{least, least};
      ::setrlimit(of, &limit);
    });
  };
  expect_limit("gemel: stack size: its limit (ulimit -s) is 512 KiB", RLIMIT_STACK, 512 << 10);
  expect_limit("gemel: open files: their limit (ulimit -n) is 20; accepted: 64 or more", RLIMIT_NOFILE, 20);
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer maps terabytes";
#endif
  expect_limit("gemel: data size: its limit (ulimit -d) leaves ", RLIMIT_DATA, 100 << 20);
  for (const rlim_t megabytes : {300, 500, 900})
    expect_refused(training({}), 1, "gemel: address space: its limit (ulimit -v) leaves ", [=] {
      const rlimit limit{megabytes << 20, megabytes << 20};
      ::setrlimit(RLIMIT_AS, &limit);
    });
}

TEST_F(Refusals, ranks_in_the_environment_are_digits) {
  const auto launched_as = [](const char* rank, const char* size) {
    return [=] {
      ::setenv("OMPI_COMM_WORLD_RANK", rank, 1);
      ::setenv("OMPI_COMM_WORLD_SIZE", size, 1);
    };
  };
  const Words ddp = training({"--parallel", "ddp"});
  for (const char* rank : {"one", "0x1", "-1", "1 ", "99999999999", "+0"})
    expect_refused(ddp, 1, "gemel: OMPI_COMM_WORLD_RANK: '" + std::string(rank) + "' is not accepted; accepted: digits", launched_as(rank, "2"));
  expect_refused(ddp, 1, "gemel: OMPI_COMM_WORLD_SIZE: '2ranks' is not accepted", launched_as("0", "2ranks"));
  expect_refused(ddp, 1, "gemel: OMPI_COMM_WORLD_RANK: 2 is not a rank of 2 (OMPI_COMM_WORLD_SIZE); accepted: one of 0..1", launched_as("2", "2"));
  expect_refused({"train", "--no-such-option"}, 2, "--no-such-option", launched_as("one", "2"));
}

TEST_F(Refusals, what_would_end_a_run_or_take_from_it_is_told_before_it) {
  expect_refused({"train", "--batch-size", "8", "--limit", "13", "--accumulate", "4"}, 1,
                 "train: the last batch of an epoch, 5 of 13 samples in 4 micro-batches, the least of 1: layer4.0.bn1: batch_norm: ");
  expect_refused({"train", "--batch-size", "8", "--limit", "17"}, 1, "train: the last batch of an epoch, 1 of 17 samples: layer4.0.bn1: batch_norm: ");
  EXPECT_EQ(run({"train", "--batch-size", "8", "--limit", "17", "--steps", "2"}).status, 0) << "it ends before";
  expect_refused(training({"--data", in_folder("x")}), 2, "is given with --dataset synthetic, which reads no files; accepted: --dataset cifar10 or npy");
  expect_refused(training({"--save", in_folder("x"), "--profile", in_folder("./x")}), 2, "is given for --save too; accepted: another file");
  EXPECT_FALSE(fs::exists(folder() / "x"));
}

TEST_F(Refusals, an_option_that_another_one_or_the_data_contradict_is_named) {
  expect_refused(training({"--accumulate", "9"}), 2, "gemel: --accumulate: 9 micro-batches of a --batch-size of 8; accepted: at most one a sample");
  const Words linear = training({"--lr-schedule", "linear"});
  expect_refused(joined(linear, {"--warmup", "1000000000000"}), 2, "gemel: --warmup: 1000000000000 steps of a run of 5; accepted: at most all of them");
  expect_refused(joined(linear, {"--warmup", "4", "--steps", "3"}), 2, "gemel: --warmup: 4 steps of a run of 3; accepted: ");
  expect_refused({"train", "--model", "bert", "--config", "tiny", "--classes", "1"}, 2,
                 "gemel: --classes: 1 is given with --model bert, whose texts have 2 or more; accepted: ");
  const Words bert{"--model", "bert", "--config", "tiny"};
  expect_refused(joined({"summary", "--input", "513"}, bert), 2, "gemel: --input: 513 tokens for a model of 512 positions; accepted: ");
  expect_refused(joined({"train", "--max-length", "513"}, bert), 2, "gemel: --max-length: 513 tokens for a model of 512 positions; accepted: ");
  const std::string long_name(300, 'a');
  expect_refused({"train", "--model", "bert", "--config", long_name}, 1, "gemel: read: cannot examine " + long_name + ": File name too long");
}

TEST_F(Refusals, a_device_that_is_not_there_is_a_wrong_usage_also_where_the_environment_names_it) {
  expect_refused(training({"--device", "7"}), 2, "gemel: device: none that is '7'");
  expect_refused(training({"--device", "toaster"}), 2, "gemel: device: 'toaster' is unknown; accepted: ");
  const auto with = [this](const char* name, const char* value, const std::string& text) {
    expect_refused(training({}), 2, text, [name, value] { ::setenv(name, value, 1); });
  };
  with("GEMEL_PLATFORM", "nonesuch", "gemel: platform: 'nonesuch' is not found; accepted: ");
  with("GEMEL_DEVICE", "toaster", "gemel: device: 'toaster' is unknown; accepted: ");
  with("GEMEL_ALLOCATOR", "nonesuch", "gemel: GEMEL_ALLOCATOR: 'nonesuch' is unknown; accepted: exact");
  with("GEMEL_VERBOSE", "nonesuch", "gemel: GEMEL_VERBOSE: 'nonesuch' is unknown; accepted: dispatch, kernels");
  with("GEMEL_VERBOSE", "dispatch,kernel", "gemel: GEMEL_VERBOSE: 'kernel' is unknown; accepted: dispatch, kernels");
}

TEST_F(Refusals, what_is_no_file_is_refused_where_one_is_written_and_not_waited_for) {
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

TEST_F(Refusals, a_model_larger_than_the_memory_names_the_tensor) {
  expect_refused(training({"--classes", "100000", "--memory-limit", "10000000"}), 1, "bytes asked for fc3.weight float32 [84, 100000]");
}

TEST_F(Refusals, a_data_set_that_does_not_fit_names_file_and_record) {
  expect_refused(on("npy", in_folder("none")), 1, "none/images.npy: No such file or directory");
  expect_refused(on("npy", arrays("short", 3, {0, 1})), 1, "short/labels.npy has 2 labels; " + in_folder("short") + "/images.npy has 3 pictures");
  expect_refused(on("npy", arrays("below", 3, {0, 1, -1})), 1, "below/labels.npy: record 2 (from 0) has label -1; accepted: ");
  expect_refused(on("npy", arrays("above", 3, {0, std::int64_t{1} << 40, 1})), 1, "above/labels.npy: record 1 (from 0) has label 1099511627776; accepted: ");
  const std::string cut = arrays("cut", 3, {0, 1, 2});
  fs::resize_file(fs::path(cut) / "images.npy", 1000);
  expect_refused(on("npy", cut), 1, "cut/images.npy: the file has ");
  fs::remove(fs::path(cut) / "labels.npy");
  write_text(fs::path(cut) / "images.npy", "\x93NUMPY\x01");
  expect_refused(on("npy", cut), 1, "cut/images.npy: ");
  expect_refused(on("npy", ""), 2, "--data is given an empty value");
  const Words fewer{"--classes", "2"};
  Words train = on("npy", arrays("three", 3, {0, 1, 2})),
        eval{"eval", "--model", "lenet", "--weights", "none", "--dataset", "npy", "--data", in_folder("three")};
  for (Words* command : {&train, &eval}) {
    command->insert(command->end(), fewer.begin(), fewer.end());
    expect_refused(*command, 1, "three/labels.npy: record 2 (from 0) has label 2; accepted: 0..1");
  }
  expect_refused({"train", "--model", "lenet", "--dataset", "npy", "--data", arrays("fits", 3, {0, 1, 2}), "--input", "3x16x16"}, 2,
                 "the pictures are [3, 32, 32]");

  fs::create_directory(folder() / "cifar");
  expect_refused(on("cifar10", in_folder("cifar")), 1, "cifar/data_batch_1.bin is missing; expected: a file of 30730000 bytes");
  write_text(folder() / "cifar" / "data_batch_1.bin", std::string(3073, '\0'));
  expect_refused(on("cifar10", in_folder("cifar")), 1, "cifar/data_batch_1.bin has 3073 bytes; expected: 30730000");
  write_text(folder() / "wrong.tar.gz", "this is no archive");
  expect_refused(on("cifar10", in_folder("wrong.tar.gz")), 1, "wrong.tar.gz: no tar archive, nor one compressed by gzip");
  expect_refused(on("cifar10", in_folder("none.tar.gz")), 1, "none.tar.gz does not exist");
}

TEST_F(Refusals, hostile_weight_files_are_refused_in_one_line) {
  const std::string bias = R"("conv1.bias":{"dtype":"F32","shape":[6],"data_offsets":)";
  const std::vector<std::pair<std::string, std::string>> files{
      {"{this is no JSON}", "the header is no valid JSON"},
      {"[]", "the header does not start with '{'"},
      {"{" + bias + "[0,24]}," + bias + "[0,24]}}", "tensor 'conv1.bias' stands twice"},
      {"{" + bias + R"([0,24]},"conv2.bias":{"dtype":"F32","shape":[6],"data_offsets":[12,36]}})", "overlaps"},
      {"{" + bias + "[-24,0]}}", "the negative number -24"},
      {"{" + bias + "[24,0]}}", "which run backwards"},
      {"{" + bias + "[8,32]}}", "leaves a hole"},
      {"{" + bias + "[0,28]}}", "has 28 bytes at data_offsets [0, 28]; F32 [6] needs 24"},
      {"{" + bias + "[0,18446744073709551615]}}", "tensor 'conv1.bias'"},
      {R"({"conv1.bias":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", "whose size overflows"},
      {R"({"two\nlines\u001b[31m":{"dtype":"F7","shape":[],"data_offsets":[0,0]}})", R"(tensor 'two\nlines\x1b[31m' has dtype F7)"},
      {R"({"a":)" + std::string(100'000, '['), "tensor 'a' has an array where none belongs"},
  };
  const auto refused = [this](const std::string& weights, const std::string& why) {
    expect_refused({"eval", "--model", "lenet", "--limit", "4", "--weights", weights}, 1, why);
  };
  for (const auto& [header, why] : files) refused(weights_with(header), why);
  refused(weights_with("{}", std::uint64_t{1} << 63), "the header's length is given as 9223372036854775808 bytes");
  refused(weights_with("{}", 5000), "the file is truncated");
  const std::vector<float> pixels(3 * 32 * 32, 0.5f);
  datasets::write_npy(folder() / "x.npy", f32({1, 3, 32, 32}), std::as_bytes(std::span(pixels)));
  expect_refused({"infer", "--model", "lenet", "--input", in_folder("x.npy"), "--output", in_folder("y.npy"), "--weights", weights_with(files[2].first)}, 1,
                 "stands twice");
  EXPECT_FALSE(fs::exists(folder() / "y.npy"));
}

TEST_F(Refusals, every_key_that_does_not_fit_is_named) {
  ASSERT_EQ(run(training({"--steps", "1", "--save", in_folder("w.safetensors")})).status, 0);
  const SafetensorsFile file(folder() / "w.safetensors");
  std::vector<NamedTensor> tensors(file.tensors().begin(), file.tensors().end());
  for (NamedTensor& t : tensors) {
    if (t.name == "fc1.weight") t.name = "fc9.weight";
    if (t.name == "conv1.bias") t.spec.shape = Shape{2, 3};
  }
  write_safetensors(folder() / "v.safetensors", tensors);
  for (const Words& command : {Words{"eval", "--limit", "4"}, Words{"train", "--limit", "4"}}) {
    Words arguments = command;
    arguments.insert(arguments.end(), {"--model", "lenet", "--weights", in_folder("v.safetensors")});
    expect_refused(arguments, 1,
                   "v.safetensors: state dict: 3 names do not fit; missing: fc1.weight; unexpected: fc9.weight; of another shape or type: "
                   "conv1.bias is float32 [2, 3], accepted: float32 [6]");
  }
}

TEST_F(Refusals, an_input_too_small_for_the_model_names_the_layer) {
  expect_refused({"train", "--model", "lenet", "--input", "3x12x12", "--limit", "4"}, 1, "gemel: conv2: conv2d: the window ");
  expect_refused({"summary", "--model", "inception_v3", "--input", "3x32x32", "--batch-size", "2"}, 1, "gemel: Mixed_6a: max_pool2d: the window ");
}

TEST_F(Refusals, a_validation_loss_that_is_not_a_number_ends_the_run) {
  expect_refused({"train", "--model", "lenet", "--limit", "8", "--lr", "1e25", "--checkpoint-dir", in_folder("c")}, 1,
                 "gemel: train: the validation loss after step 1 is ");
  EXPECT_TRUE(fs::is_empty(folder() / "c")) << "weights that are no numbers are no checkpoint";
}

TEST_F(Refusals, files_that_cannot_be_written_are_found_before_the_work) {
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

TEST_F(Refusals, outputs_of_infer_and_bench_that_cannot_be_written_are_found_before_anything_is_opened) {
  const std::string none = in_folder("none/file"), here = folder().string(), too_long = in_folder(std::string(300, 'a'));
  for (const auto& into : {infer_into, bench_into}) {
    expect_refused_at_once(into(none), "write: cannot create a file for " + none + ": No such file or directory");
    expect_refused_at_once(into(here), "write: cannot write " + here + ": Is a directory");
    expect_refused_at_once(into(too_long), "write: cannot write " + too_long + ": File name too long");
  }
}

TEST_F(Refusals, outputs_into_folders_that_are_closed_to_the_user_are_found_before_the_work) {
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

TEST_F(Refusals, an_output_replaces_nothing_that_the_command_uses) {
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

TEST_F(Refusals, a_folder_that_another_run_writes_into_is_named_before_anything_is_computed) {
  for (const std::string op : {"log", "checkpoint"}) {
    fs::create_directories(folder() / op);
    const FolderLock other(folder() / op, op);
    const Outcome o = run(training({"--" + op + "-dir", in_folder(op)}));
    EXPECT_EQ(o.status, 1);
    EXPECT_EQ(o.err.rfind("gemel: " + op + ": " + in_folder(op) + " is in use by another run, process " + std::to_string(::getpid()) + " on ", 0), 0u) << o.err;
    EXPECT_EQ(lines_of(o.err).size(), 1u) << o.err;
  }
}

TEST_F(Refusals, arguments_that_are_no_text_do_not_break_the_log) {
  ASSERT_EQ(run(training({"--steps", "1", "--log-dir", in_folder("log"), "--save", in_folder("\xff\xfe.safetensors")})).status, 0);
  EXPECT_EQ(events("log").back()["status"], "ok");
  const Outcome bench = run({"bench", "infer", "--model", "lenet", "--frontend", "eager", "--runs", "1", "--json", in_folder("\xff.json")});
  EXPECT_EQ(bench.status, 0) << bench.err;
}

}  // namespace
}  // namespace gemel::testing
