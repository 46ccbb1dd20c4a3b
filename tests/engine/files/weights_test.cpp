// Weights as other programs leave them: element types that the engine has not, names behind wrappers, shards, one name of two that are tied.
#include "engine/files/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "frontends/models/texts/bert.h"
#include "frontends/models/texts/gpt2.h"
#include "frontends/models/texts/text_models.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/state/state_dict.h"
#include "tests/support/formats/raw_safetensors.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel {
namespace {

using testing::message_of, testing::raw_bytes, testing::raw_safetensors, testing::RawTensor, testing::TemporaryFolder, testing::write_text;
using List = std::vector<double>;

/// A linear layer of two inputs, and names that it has no use for.
class Net : public nn::Module {
 public:
  explicit Net(const std::string& layer = "fc") : fc(&add<nn::Linear>(layer, 2, 2)) {}
  std::string name_of(const std::string& in_file) const override { return in_file.ends_with("mask") ? "" : in_file; }
  nn::Linear* fc;
};

const std::string kWeight = raw_bytes(std::vector<float>{1, 2, 3, 4}), kBias = raw_bytes(std::vector<float>{5, 6});
std::vector<RawTensor> tensors_behind(const std::string& prefix) {
  return {{prefix + "fc.weight", "F32", {2, 2}, kWeight}, {prefix + "fc.bias", "F32", {2}, kBias}};
}

class Weights : public ::testing::Test {
 protected:
  std::filesystem::path write(const char* name, const std::vector<RawTensor>& tensors) const {
    write_text(folder / name, raw_safetensors(tensors));
    return folder / name;
  }
  nn::Loaded load(const std::filesystem::path& path, nn::Module& net) const { return nn::load_weights(net, *session, path); }
  std::string refused(const std::filesystem::path& path) const {
    Net net;
    const std::string message = message_of<DataError>([&] { load(path, net); });
    return message.starts_with(path.string() + ": ") ? message.substr(path.string().size() + 2) : message;
  }
  void expect_loads(const std::filesystem::path& path, const std::string& prefix = "") const {
    Net net;
    EXPECT_EQ(load(path, net).prefix, prefix);
    EXPECT_EQ(read(net.fc->weight().tensor()), (List{1, 3, 2, 4})) << path;
    EXPECT_EQ(read(net.fc->bias()->tensor()), (List{5, 6})) << path;
  }

  TemporaryFolder folder;
  std::unique_ptr<Session> session = Session::reference();
};

TEST_F(Weights, tensors_that_are_set_aside_may_have_any_type_and_others_are_refused_with_theirs) {
  std::vector<RawTensor> tensors = tensors_behind("");
  for (const char* type : {"U8", "I8", "F8_E4M3"}) tensors.push_back({std::string(type) + ".mask", type, {3}, "abc"});
  tensors.push_back({"I16.mask", "I16", {1, 2}, "abcd"});
  tensors.push_back({"U64.mask", "U64", {}, "abcdefgh"});
  tensors.push_back({"F64.mask", "F64", {1}, "abcdefgh"});
  Net net;
  const nn::Loaded loaded = load(write("w", tensors), net);
  EXPECT_EQ(loaded.left_aside, (std::vector<std::string>{"F64.mask", "U8.mask", "I8.mask", "F8_E4M3.mask", "I16.mask", "U64.mask"}));
  EXPECT_EQ(read(net.fc->bias()->tensor()), (List{5, 6}));
  tensors = tensors_behind("");
  tensors[1] = {"fc.bias", "U8", {2}, "ab"};
  tensors.push_back({"extra", "I16", {1}, "ab"});
  EXPECT_EQ(refused(write("w", tensors)),
            "state dict: 2 names do not fit; unexpected: extra; of another shape or type: fc.bias is U8 [2], accepted: float32 [2]");
}

TEST_F(Weights, doubles_that_are_used_are_rounded) {
  Net net;
  load(write("w", {{"fc.weight", "F64", {2, 2}, raw_bytes(std::vector<double>{0.1, 0.2, 1 + 0x1p-40, -1e-60})}, {"fc.bias", "F32", {2}, kBias}}), net);
  EXPECT_EQ(read(net.fc->weight().tensor()), (List{0.1f, 1, 0.2f, -0.0}));
}

TEST_F(Weights, wrappers_before_all_names_are_taken_off) {
  for (const char* prefix : {"", "module.", "_orig_mod.", "model.", "module._orig_mod.", "_orig_mod.module.", "model.module.model."})
    expect_loads(write("w", tensors_behind(prefix)), prefix);
  // Foreign ones count among all.
  std::vector<RawTensor> tensors = tensors_behind("module.");
  tensors.push_back({"module.a.mask", "U8", {1}, "x"});
  expect_loads(write("w", tensors), "module.");
  tensors.back().name = "a.mask";
  EXPECT_EQ(refused(write("w", tensors)), "state dict: 4 names do not fit; missing: fc.weight, fc.bias; unexpected: module.fc.weight, module.fc.bias")
      << "one lacks it";
  EXPECT_EQ(refused(write("w", tensors_behind("net."))), "state dict: 4 names do not fit; missing: fc.weight, fc.bias; unexpected: net.fc.weight, net.fc.bias")
      << "no wrapper";
  Net own("module");
  EXPECT_EQ(load(write("w", {{"module.weight", "F32", {2, 2}, kWeight}, {"module.bias", "F32", {2}, kBias}}), own).prefix, "") << "a name that the model knows";
  EXPECT_EQ(read(own.fc->bias()->tensor()), (List{5, 6}));
  Net wrapped("module");
  EXPECT_EQ(load(write("w", {{"module.module.weight", "F32", {2, 2}, kWeight}, {"module.module.bias", "F32", {2}, kBias}}), wrapped).prefix, "module.")
      << "no more than it takes";
}

TEST_F(Weights, sizes_are_found_behind_wrappers_too) {
  const std::vector<NamedSpec> head{{"_orig_mod.fc.weight", f32({2, 2})}};
  EXPECT_EQ(nn::output_size_in(Net(), head), 2);
  const std::vector<NamedSpec> table{{"module.bert.embeddings.word_embeddings.weight", f32({40, 8})}}, short_table{{"module.wte.weight", f32({50, 8})}},
      tied{{"lm_head.weight", f32({60, 8})}};
  EXPECT_EQ(models::vocabulary_in("bert", table), 40);
  EXPECT_EQ(models::vocabulary_in("gpt2", short_table), 50);
  EXPECT_EQ(models::vocabulary_in("gpt2", tied), 60);
}

/// safetensors.torch.save_model keeps one name of tensors that share memory, and not always the table's.
TEST_F(Weights, of_tied_parameters_one_name_is_enough) {
  models::Gpt2Config config;
  config.vocab_size = 5;
  config.n_positions = 4;
  config.n_embd = 4;
  config.n_layer = 1;
  config.n_head = 1;
  models::Gpt2 from(config), to(config);
  from.materialise(*session);
  const auto state = nn::state_dict(from);
  std::vector<NamedTensor> tensors;
  for (const nn::StateEntry& e : state)
    if (e.name != "transformer.wte.weight") tensors.push_back({e.name, e.spec, e.bytes});
  EXPECT_TRUE(nn::load_state_dict(to, *session, tensors).fresh.empty());
  const auto loaded = nn::state_dict(to);
  for (std::size_t i = 0; i < state.size(); ++i) EXPECT_EQ(loaded[i].bytes, state[i].bytes) << state[i].name;
  std::erase_if(tensors, [](const NamedTensor& t) { return t.name == "lm_head.weight"; });
  EXPECT_EQ(message_of<DataError>([&] { nn::load_state_dict(to, *session, tensors); }), "state dict: 1 names do not fit; missing: transformer.wte.weight");
}

class Shards : public Weights {
 protected:
  Shards() {
    write("model-00001-of-00002.safetensors", {{"fc.bias", "F32", {2}, kBias}, {"a.mask", "U8", {1}, "x"}});
    write("model-00002-of-00002.safetensors", {{"fc.weight", "F32", {2, 2}, kWeight}});
  }
  std::filesystem::path index(const std::map<std::string, std::string>& map) const {
    const nlohmann::json json{{"metadata", {{"total_size", 24}}}, {"weight_map", map}};
    write_text(folder / "model.safetensors.index.json", json.dump(2));
    return folder / "model.safetensors.index.json";
  }
  std::filesystem::path good() const { return index({{"fc.bias", kFirst}, {"a.mask", kFirst}, {"fc.weight", kSecond}}); }
  std::string at_index(const std::string& what) const { return "weights: " + (folder / "model.safetensors.index.json").string() + ": " + what; }
  static constexpr const char *kFirst = "model-00001-of-00002.safetensors", *kSecond = "model-00002-of-00002.safetensors";
};

TEST_F(Shards, load_by_their_index_or_the_folder_that_holds_it) {
  expect_loads(good());
  expect_loads(folder.path());
  const WeightsHeader header(folder.path());
  EXPECT_EQ(header.tensors().size(), 2u);
  EXPECT_EQ(header.foreign().size(), 1u);
  Net net;
  EXPECT_EQ(load(folder.path(), net).left_aside, std::vector<std::string>{"a.mask"});
  // What stands alone in a folder comes first, as transformers has it.
  write("model.safetensors", {{"fc.weight", "F32", {2, 2}, kWeight}, {"fc.bias", "F32", {2}, raw_bytes(std::vector<float>{7, 8})}});
  load(folder.path(), net);
  EXPECT_EQ(read(net.fc->bias()->tensor()), (List{7, 8}));
}

TEST_F(Shards, that_do_not_fit_their_index_are_named) {
  EXPECT_EQ(refused(index({{"fc.bias", kSecond}, {"fc.weight", kSecond}})),
            at_index("tensor 'fc.bias' is not in model-00002-of-00002.safetensors; accepted: an index of the shards beside it"));
  EXPECT_EQ(refused(index({{"fc.bias", "none.safetensors"}})), "read: cannot open " + (folder / "none.safetensors").string() + ": No such file or directory");
  const std::string accepted = "; accepted: an object with a weight_map of tensors and the files in its folder that have them";
  EXPECT_EQ(refused(index({{"fc.bias", "../w"}})), at_index("the file of 'fc.bias' is \"../w\"" + accepted));
  EXPECT_EQ(refused(index({{"fc.bias", "/etc/passwd"}})), at_index("the file of 'fc.bias' is \"/etc/passwd\"" + accepted));
  EXPECT_EQ(refused(index({})), at_index("it has no weight_map" + accepted));
  write(kSecond, {{"fc.weight", "F32", {2, 2}, kWeight}, {"fc.bias", "F32", {2}, kBias}});
  EXPECT_EQ(refused(good()),
            at_index("tensor 'fc.bias' is in model-00001-of-00002.safetensors and in model-00002-of-00002.safetensors; accepted: one shard for each"));
  write_text(folder / kSecond, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 77\n");
  EXPECT_EQ(refused(good()), "safetensors: " + (folder / kSecond).string() +
                                 ": it is a pointer of git-lfs to a file of 77 bytes; accepted: that file, which `git lfs pull` fetches");
  write_text(folder / "other.json", R"({"architectures": ["GPT2LMHeadModel"]})");
  EXPECT_EQ(refused(folder / "other.json"), "weights: " + (folder / "other.json").string() + ": it has no weight_map" + accepted);
  const TemporaryFolder empty;
  EXPECT_EQ(refused(empty.path()), "weights: " + empty.path().string() +
                                       " has no model.safetensors and no model.safetensors.index.json; accepted: a folder that has, or a safetensors file");
}

TEST_F(Shards, of_a_checkpoint_are_no_weights) {
  write_text(folder / kSecond, raw_safetensors({{"fc.weight", "F32", {2, 2}, kWeight}}, {{nn::kCheckpointField, "3"}}));
  EXPECT_NE(refused(good()).find("it is a checkpoint"), std::string::npos);
}

}  // namespace
}  // namespace gemel
