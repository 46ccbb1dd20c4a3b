// What the gemel program does with options that it does not take: one line that names them, and status 2.
#include <fmt/format.h>

#include <map>
#include <sstream>

#include "engine/base/error.h"
#include "frontends/cli/command.h"
#include "tests/support/message_of.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

class OptionRefusals : public CommandLine {};

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

TEST_F(OptionRefusals, every_command_names_an_option_that_it_does_not_know) {
  for (const std::string command : {"devices", "summary", "train", "eval", "infer", "ops"})
    for (const std::string option : {"--nonsense", "--nonsense="})
      expect_refused({command, option}, 2, "gemel: " + command + ": option '--nonsense' is unknown");
}

TEST_F(OptionRefusals, a_missing_value_or_one_of_another_type_tells_what_is_accepted) {
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

TEST_F(OptionRefusals, an_empty_value_names_nothing_whatever_option_of_whatever_command_has_it) {
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
  expect_refused({"launch", "--np", "2", "--check", "--print-spec", "train", "--parallel", "ddp"}, 2,
                 "launch: --print-spec is given with --check, and both end without training; accepted: one of them");
  expect_refused({"launch", "--np", "2", "--check", "train", "--parallel", "ddp", "--weights", ""}, 2,
                 "gemel: train: --weights is given an empty value; accepted: ");
}

TEST_F(OptionRefusals, a_name_that_is_too_long_is_told_in_words_of_its_own) {
  const std::string too_long = in_folder(std::string(300, 'a'));
  expect_refused({"tokenize", "--vocab", too_long}, 1, "gemel: read: cannot examine " + too_long + ": File name too long");
}

TEST_F(OptionRefusals, a_number_out_of_range_tells_the_range) {
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

TEST_F(OptionRefusals, a_word_that_is_no_choice_tells_the_choices) {
  for (const char* option : {"--model", "--dataset", "--optimizer", "--lr-schedule", "--shuffle", "--augment", "--normalize", "--frontend", "--gemm",
                             "--recompute", "--denormals", "--precision"})
    expect_refused({"train", option, "zzz"}, 2, std::string("gemel: ") + option + ": 'zzz' is not accepted; accepted: ");
  expect_refused({"train", "--precision", "tf32", "--gemm", "clblast"}, 2,
                 "--precision tf32 is given with --gemm clblast, which computes in float32; accepted: --gemm auto or native");
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

TEST_F(OptionRefusals, what_would_end_a_run_or_take_from_it_is_told_before_it) {
  expect_refused({"train", "--batch-size", "8", "--limit", "13", "--accumulate", "4"}, 1,
                 "train: the last batch of an epoch, 5 of 13 samples in 4 micro-batches, the least of 1: layer4.0.bn1: batch_norm: ");
  expect_refused({"train", "--batch-size", "8", "--limit", "17"}, 1, "train: the last batch of an epoch, 1 of 17 samples: layer4.0.bn1: batch_norm: ");
  EXPECT_EQ(run({"train", "--batch-size", "8", "--limit", "17", "--steps", "2"}).status, 0) << "it ends before";
  expect_refused(training({"--data", in_folder("x")}), 2, "is given with --dataset synthetic, which reads no files; accepted: --dataset cifar10 or npy");
  expect_refused(training({"--save", in_folder("x"), "--profile", in_folder("./x")}), 2, "is given for --save too; accepted: another file");
  EXPECT_FALSE(fs::exists(folder() / "x"));
}

TEST_F(OptionRefusals, an_option_that_another_one_or_the_data_contradict_is_named) {
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

}  // namespace
}  // namespace gemel::testing
