// State dictionaries: names, layouts, refusals, and files.
#include "frontends/nn/state/state_dict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/state/file_layout.h"
#include "tests/support/message_of.h"

namespace gemel::nn {
namespace {

using testing::message_of;

class Net : public Module {
 public:
  explicit Net(std::int64_t classes = 3) {
    conv = &add<Conv2d>("conv", 2, 3, square_kernel(3));
    bn = &add<BatchNorm2d>("bn", 3);
    fc = &add<Linear>("fc", 3, classes);
  }
  Conv2d* conv;
  BatchNorm2d* bn;
  Linear* fc;
};

std::vector<NamedTensor> tensors_of(const std::vector<StateEntry>& state) {
  std::vector<NamedTensor> out;
  for (const StateEntry& e : state) out.push_back({e.name, e.spec, e.bytes});
  return out;
}

std::string refusal(Net& net, Session& session, const std::vector<NamedTensor>& tensors, Mismatch mismatch) {
  return message_of<DataError>([&] { load_state_dict(net, session, tensors, mismatch); });
}

void drop(std::vector<NamedTensor>& tensors, std::string_view name) {
  std::erase_if(tensors, [name](const NamedTensor& t) { return t.name == name; });
}

TEST(StateDict, names_and_file_shapes_come_in_pytorchs_order) {
  const auto specs = state_specs(Net());
  std::string text;
  for (const NamedSpec& s : specs) text += s.name + " " + to_string(s.spec) + "\n";
  EXPECT_EQ(text,
            "conv.weight float32 [3, 2, 3, 3]\nconv.bias float32 [3]\n"
            "bn.weight float32 [3]\nbn.bias float32 [3]\nbn.running_mean float32 [3]\nbn.running_var float32 [3]\n"
            "bn.num_batches_tracked int64 []\nfc.weight float32 [3, 3]\nfc.bias float32 [3]\n");
}

TEST(StateDict, weights_change_layout_at_the_border) {
  const auto session = Session::reference();
  Net net;
  net.materialise(*session);
  const auto state = state_dict(net);
  const std::vector<double> file = numbers_from_bytes(DType::float32, state[0].bytes), memory = read(net.conv->weight().tensor());
  for (std::size_t k = 0; k < 3; ++k)
    for (std::size_t c = 0; c < 2; ++c)
      for (std::size_t rs = 0; rs < 9; ++rs) EXPECT_EQ(file[(k * 2 + c) * 9 + rs], memory[(rs * 2 + c) * 3 + k]);
  const std::vector<double> out_in = numbers_from_bytes(DType::float32, state[7].bytes), in_out = read(net.fc->weight().tensor());
  for (std::size_t o = 0; o < 3; ++o)
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(out_in[o * 3 + i], in_out[i * 3 + o]);
}

TEST(StateDict, layouts_larger_than_a_tile_go_there_and_back) {
  const Spec spec = f32({3, 2, 35, 67});
  std::vector<double> numbers(static_cast<std::size_t>(spec.elements()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  const auto memory = bytes_from_numbers(DType::float32, numbers);
  const auto file = to_file_layout(spec, FileLayout::convolution, memory);
  EXPECT_NE(file, memory);
  EXPECT_EQ(from_file_layout(spec, FileLayout::convolution, file), memory);
}

TEST(StateDict, loading_gives_memory_to_a_module_that_has_none) {
  const auto session = Session::reference(1), other = Session::reference(2);
  Net from, to;
  from.materialise(*session);
  const auto state = state_dict(from);
  EXPECT_TRUE(load_state_dict(to, *other, tensors_of(state)).fresh.empty());
  EXPECT_EQ(read(to.conv->weight().tensor()), read(from.conv->weight().tensor()));
  EXPECT_EQ(&to.fc->weight().tensor().session(), other.get());
  EXPECT_EQ(to.parameters().trainable().size(), 6u);
}

TEST(StateDict, loading_writes_into_the_memory_that_is_there) {
  const auto session = Session::reference(1), other = Session::reference(2);
  Net from, to;
  from.materialise(*session);
  to.materialise(*other);
  const Value before = to.fc->weight().tensor();
  load_state_dict(to, *other, tensors_of(state_dict(from)));
  EXPECT_EQ(read(before), read(from.fc->weight().tensor()));
  EXPECT_EQ(before.node(), to.fc->weight().tensor().node());
}

TEST(StateDict, every_wrong_name_is_in_one_error_and_nothing_changes) {
  const auto session = Session::reference();
  Net net;
  net.materialise(*session);
  const std::vector<double> before = read(net.conv->bias()->tensor());
  const auto state = state_dict(net);
  auto tensors = tensors_of(state);
  const std::vector<std::byte> zeros(64);
  drop(tensors, "bn.weight");
  drop(tensors, "conv.bias");
  drop(tensors, "fc.bias");
  tensors.push_back({"fc.bias", f32({4}), std::span(zeros).first(16)});
  tensors.push_back({"conv.bias", i32({3}), std::span(zeros).first(12)});
  tensors.push_back({"extra.weight", f32({1}), std::span(zeros).first(4)});
  const std::string expected =
      "state dict: 4 names do not fit; missing: bn.weight; unexpected: extra.weight; of another shape or type: "
      "conv.bias is int32 [3], accepted: float32 [3]; fc.bias is float32 [4], accepted: float32 [3]";
  EXPECT_EQ(refusal(net, *session, tensors, Mismatch::refuse), expected);
  EXPECT_EQ(refusal(net, *session, tensors, Mismatch::keep_output_layers), expected);
  EXPECT_EQ(read(net.conv->bias()->tensor()), before);
}

TEST(StateDict, a_missing_batch_count_is_allowed) {
  const auto session = Session::reference();
  Net net, to;
  net.materialise(*session);
  const auto state = state_dict(net);
  auto tensors = tensors_of(state);
  drop(tensors, "bn.num_batches_tracked");
  load_state_dict(to, *session, tensors);
  EXPECT_EQ(read(*to.parameters().find("bn.num_batches_tracked")), std::vector<double>{0});
}

TEST(StateDict, transfer_learning_keeps_the_output_layer_alone) {
  const auto session = Session::reference();
  Net pretrained(5), net(3);
  pretrained.materialise(*session);
  const auto state = state_dict(pretrained);
  const auto tensors = tensors_of(state);
  EXPECT_EQ(output_size_in(net, state_specs(pretrained)), 5);
  EXPECT_NE(refusal(net, *session, tensors, Mismatch::refuse).find("fc.weight is float32 [5, 3], accepted: float32 [3, 3]"), std::string::npos);
  EXPECT_EQ(load_state_dict(net, *session, tensors, Mismatch::keep_output_layers).fresh, (std::vector<std::string>{"fc.weight", "fc.bias"}));
  EXPECT_EQ(read(net.conv->weight().tensor()), read(pretrained.conv->weight().tensor()));
  EXPECT_EQ(net.fc->weight().tensor().shape(), (Shape{3, 3}));
}

TEST(StateDict, half_precision_files_are_widened) {
  const auto session = Session::reference();
  Net net;
  net.materialise(*session);
  const auto state = state_dict(net);
  auto tensors = tensors_of(state);
  const auto halves = bytes_from_numbers(DType::bfloat16, std::vector<double>{0.5, -2, 8});
  for (NamedTensor& t : tensors)
    if (t.name == "fc.bias") t = {"fc.bias", {Shape{3}, DType::bfloat16}, halves};
  load_state_dict(net, *session, tensors);
  EXPECT_EQ(read(net.fc->bias()->tensor()), (std::vector<double>{0.5, -2, 8}));
}

/// As a state dict that was converted whole, its counters too.
TEST(StateDict, a_batch_count_of_a_floating_type_is_a_count) {
  const auto session = Session::reference();
  Net net, to;
  net.materialise(*session);
  const auto state = state_dict(net);
  auto tensors = tensors_of(state);
  for (const auto& [type, count] : {std::pair{DType::float32, 1000.0}, {DType::float16, 2048.0}, {DType::bfloat16, 256.0}}) {
    const auto bytes = bytes_from_numbers(type, std::vector{count});
    for (NamedTensor& t : tensors)
      if (t.name == "bn.num_batches_tracked") t = {t.name, {Shape{}, type}, bytes};
    load_state_dict(to, *session, tensors);
    EXPECT_EQ(read(*to.parameters().find("bn.num_batches_tracked")), std::vector{count});
  }
  for (const double wrong : {0.5, std::numeric_limits<double>::infinity(), std::nan("")}) {
    const auto bytes = bytes_from_numbers(DType::float32, std::vector{wrong});
    for (NamedTensor& t : tensors)
      if (t.name == "bn.num_batches_tracked") t = {t.name, {Shape{}, DType::float32}, bytes};
    EXPECT_NE(refusal(to, *session, tensors, Mismatch::refuse).find("bn.num_batches_tracked is float32 [], accepted: int64 []"), std::string::npos) << wrong;
  }
}

TEST(StateDict, weights_go_through_a_file) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "state_dict_test.safetensors";
  const auto session = Session::reference(1), other = Session::reference(2);
  Net from, to, larger(4);
  from.materialise(*session);
  save_weights(from, path);
  load_weights(to, *other, path);
  EXPECT_EQ(read(to.conv->weight().tensor()), read(from.conv->weight().tensor()));
  const std::string text = message_of<DataError>([&] { load_weights(larger, *other, path); });
  EXPECT_TRUE(text.starts_with(path.string() + ": state dict: 2 names do not fit")) << text;
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace gemel::nn
