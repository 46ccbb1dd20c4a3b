// What the gemel program does with data and weights that are not what they should be: one line that names file, record and value.
#include <cstring>
#include <optional>

#include "datasets/formats/npy.h"
#include "engine/files/safetensors.h"
#include "tests/support/datasets/pictures_folder.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

class InputRefusals : public CommandLine {
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
};

TEST_F(InputRefusals, a_data_set_that_does_not_fit_names_file_and_record) {
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

TEST_F(InputRefusals, hostile_weight_files_are_refused_in_one_line) {
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

TEST_F(InputRefusals, every_key_that_does_not_fit_is_named) {
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

TEST_F(InputRefusals, an_input_too_small_for_the_model_names_the_layer) {
  expect_refused({"train", "--model", "lenet", "--input", "3x12x12", "--limit", "4"}, 1, "gemel: conv2: conv2d: the window ");
  expect_refused({"summary", "--model", "inception_v3", "--input", "3x32x32", "--batch-size", "2"}, 1, "gemel: Mixed_6a: max_pool2d: the window ");
}

}  // namespace
}  // namespace gemel::testing
