// The tuning table: its text, what dispatch makes of it, and `gemel tune`.
#include "opencl/program/tuning_table.h"

#include <algorithm>
#include <map>
#include <random>

#include "engine/base/error.h"
#include "engine/device/dispatch.h"
#include "engine/ops/elementwise_kernels.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/ops.h"
#include "tests/support/device/test_device.h"
#include "tests/support/faults/damaged_files.h"
#include "tests/support/message_of.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

using opencl::DeviceProfile;
using opencl::TuningTable;

TEST(TuningTable, comes_back_from_its_text) {
  TuningTable table;
  table.set("conv2d float32 [1]", "gemm");
  table.set("matmul float32 [2]", "native");
  table.clblast["Xgemm"] = {{"MWG", 64}, {"NWG", 32}};
  const TuningTable read = TuningTable::parse(table.text(), "t.json");
  EXPECT_EQ(read.variants(), table.variants());
  EXPECT_EQ(read.clblast, table.clblast);
  EXPECT_EQ(read.text(), table.text());
  table.set("matmul float32 [2]", "");
  EXPECT_EQ(table.variant_for("matmul float32 [2]"), nullptr);
}

TEST(TuningTable, of_another_text_is_refused) {
  for (const char* text : {"", "{", "[]", "{}", R"({"variants": {"a": 1}, "clblast": {}})", R"({"variants": {}, "clblast": {"Xgemm": {"MWG": "x"}}})"}) {
    const std::string message = message_of<DataError>([&] { TuningTable::parse(text, "t.json"); });
    EXPECT_EQ(message.rfind("t.json: not a tuning table (", 0), 0u) << text << ": " << message;
  }
}

TEST(TuningTable, is_refused_after_any_mutation) {
  TuningTable table;
  table.set("conv2d float32 [1]", "gemm");
  table.clblast["Xgemm"] = {{"MWG", 64}, {"NWG", 32}};
  std::mt19937_64 random(3);
  const TemporaryFolder folder;
  for (int i = 0; i < (is_full_run() ? 1000 : 100); ++i) {
    write_text(folder / "t.json", table.text());
    const std::string what = mutate(folder / "t.json", random), text = read_text(folder / "t.json");
    try {
      const TuningTable read = TuningTable::parse(text, "t.json");
      EXPECT_EQ(read.text(), table.text()) << what << " is taken:\n" << text;  // white space, or the bits of a letter that JSON does not tell apart
    } catch (const DataError&) {
    }
  }
}

/// A 3x3 convolution, which many variants take, on a CPU that has a table.
struct Convolution3x3 {
  Specs in{f32({1, 8, 8, 16}), f32({3, 3, 16, 16})}, out{f32({1, 8, 8, 16})};
  Attributes attributes{{"stride", std::vector<std::int64_t>{1, 1}},
                        {"padding", std::vector<std::int64_t>{1, 1}},
                        {"dilation", std::vector<std::int64_t>{1, 1}},
                        {"groups", std::int64_t{1}}};
  Problem problem() const { return {conv2d_def(), attributes, in, out}; }

  std::string chosen(const std::string& tuned) const {
    DeviceProfile profile{.simd_width = 16, .max_allocation_bytes = std::int64_t{1} << 30};
    TuningTable table;
    table.set(tuning_key(problem(), profile), tuned);
    profile.preferences.tuning = std::make_shared<TuningTable>(table);
    return choose(problem(), profile).name;
  }
};

TEST(Tuning, dispatch_takes_the_variant_that_the_table_names) {
  const Convolution3x3 c;
  const std::string usual = c.chosen("");
  for (const char* name : {"direct", "gemm", "tiles", "winograd"}) EXPECT_EQ(c.chosen(name), name);
  EXPECT_EQ(c.chosen("depthwise"), usual) << "it declines the problem";
  EXPECT_EQ(c.chosen("of a later version"), usual);
}

TEST(Tuning, the_product_of_a_pointwise_convolution_is_looked_up_as_a_matmul) {
  const Specs images{f32({2, 8, 8, 24})}, filters{f32({2, 8, 8, 144})}, weights{f32({1, 1, 24, 144})};
  Attributes a{{"stride", Axes{1, 1}}, {"padding", Axes{0, 0}}, {"dilation", Axes{1, 1}}, {"groups", std::int64_t{1}}};
  DeviceProfile profile{.simd_width = 16, .max_allocation_bytes = std::int64_t{1} << 30};
  const auto key_of = [&](const OpDef& op, const Specs& in, const Specs& out) {
    const auto gemm = std::ranges::find(op.variants, std::string_view("gemm"), &Variant::name);
    const auto products = gemm->products({op, a, in, out}, profile);
    EXPECT_EQ(products.size(), 1u) << op.name;
    const Problem product = products.at(0).problem();
    const std::string key = tuning_key(product, profile);
    for (const char* name : {"tiles_2", "tiles_7"}) {
      TuningTable table;
      table.set(key, name);
      profile.preferences.tuning = std::make_shared<TuningTable>(table);
      EXPECT_EQ(choose(product, profile).name, std::string(name)) << key;
    }
    return key;
  };
  EXPECT_EQ(key_of(conv2d_def(), {images[0], weights[0]}, filters), "matmul float32 [128, 24], float32 [24, 144] transpose_a=false, transpose_b=false");
  EXPECT_EQ(key_of(conv2d_input_gradient_def(), {filters[0], weights[0]}, images),
            "matmul float32 [128, 144], float32 [24, 144] transpose_a=false, transpose_b=true");
  EXPECT_EQ(key_of(conv2d_weight_gradient_def(), {filters[0], images[0]}, weights),
            "matmul float32 [128, 24], float32 [128, 144] transpose_a=true, transpose_b=false");
}

TEST(Tuning, a_product_with_an_epilogue_is_looked_up_as_the_product) {
  const Convolution3x3 c;
  const auto record = epilogue_record(conv2d_def(), relu_def(), {c.out[0]}, {Reach::product});
  const Problem fused{*record, c.attributes, c.in, c.out};
  EXPECT_EQ(tuning_key(fused, {}), tuning_key(c.problem(), {}));
  EXPECT_NE(record->name, conv2d_def().name);
}

TEST(Tuning, a_product_that_is_added_is_looked_up_as_the_product) {
  const Attributes a{{"transpose_a", true}, {"transpose_b", false}};
  const Specs in{f32({64, 3}), f32({64, 5})}, out{f32({3, 5})}, added{in[0], in[1], out[0]};
  EXPECT_EQ(tuning_key({add_matmul_def(), a, added, out}, {}), tuning_key({matmul_def(), a, in, out}, {}));
}

class Tune : public CommandLine {
 protected:
  /// @param pretence  of GEMEL_PRETEND
  Outcome gemel(std::vector<std::string> words, const std::string& pretence = "") {
    return run(words, [this, pretence] {
      if (!pretence.empty()) ::setenv("GEMEL_PRETEND", pretence.c_str(), 1);
      ::setenv("GEMEL_CACHE_DIR", in_folder("cache").c_str(), 1);
      ::setenv("GEMEL_VERBOSE", "dispatch", 1);
    });
  }
  /// The table's file, as the command says it.
  std::filesystem::path forget() {
    const Outcome o = gemel({"tune", "--forget"});
    EXPECT_EQ(o.status, 0) << o.err;
    return table_of(o);
  }
  static std::filesystem::path table_of(const Outcome& o) {
    const std::string word = "table: ";
    for (const std::string& line : lines_of(o.err))
      if (line.rfind(word, 0) == 0) return line.substr(word.size());
    return {};
  }
  /// The operators of the lines that tell of a measurement.
  static std::vector<std::string> measured(const Outcome& o, const std::string& op) {
    std::vector<std::string> keys;
    for (const std::string& line : lines_of(o.err))
      if (const auto at = line.find(op + " float32"); line.find(" ms ") != std::string::npos && at != std::string::npos) keys.push_back(line.substr(at));
    return keys;
  }
};

constexpr const char* kFirstConvolution = "conv2d float32 [2, 32, 32, 3], float32 [5, 5, 3, 6] stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1";

constexpr const char* kThroughAProduct =
    "conv2d_input_gradient float32 [2, 10, 10, 16], float32 [5, 5, 6, 16] stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1, shape=[2, 14, 14, 6]";
constexpr const char* kProduct = "matmul float32 [200, 16], float32 [150, 16] transpose_a=false, transpose_b=true";

TEST_F(Tune, measures_each_operator_and_writes_a_table) {
  const std::filesystem::path file = forget();
  TuningTable before;
  before.set("conv2d of another model", "gemm");
  before.set(kFirstConvolution, "of an earlier version");
  before.set(kProduct, "of an earlier version");
  std::ofstream(file) << before.text();
  const Outcome o = gemel({"tune", "--model", "lenet", "--batch-size", "2", "--runs", "1"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(measured(o, "conv2d").size(), 2u) << o.err;
  const auto lines_with = [&, lines = lines_of(o.err)](const std::string& variant, const std::string& key) {
    return std::ranges::count_if(lines,
                                 [&](const std::string& line) { return line.find(" " + variant + " ") != std::string::npos && line.ends_with("  " + key); });
  };
  const bool has_product = lines_with("gemm", kThroughAProduct) > 0;  // by dispatch's choice or the table's
  EXPECT_EQ(std::ranges::count(measured(o, "matmul"), kProduct), has_product) << o.err;
  EXPECT_NE(o.err.find(" operators measured, "), std::string::npos) << o.err;

  ASSERT_EQ(table_of(o), file);
  const std::map<std::string, std::string> after = TuningTable::parse(read_text(file), file.string()).variants();
  EXPECT_NE(o.err.find(" entries changed, " + std::to_string(after.size()) + " in the table"), std::string::npos) << o.err;
  EXPECT_EQ(after.count("conv2d of another model"), 1u) << "what was not measured stays";
  for (const auto& [key, variant] : after) {
    if (key == "conv2d of another model" || (key == kProduct && !has_product)) continue;
    const auto lines = lines_of(o.err);
    EXPECT_TRUE(std::ranges::any_of(
        lines, [&](const std::string& line) { return line.find(" -> " + variant + " ") != std::string::npos && line.ends_with(" " + key); }))
        << key << " -> " << variant << " is said nowhere: " << o.err;
  }
}

TEST_F(Tune, measures_several_batch_sizes_and_inputs_in_one_go) {
  const Outcome o = gemel({"tune", "--model", "lenet", "--batch-size", "1,2", "--input", "1x32x32,3x32x32", "--classes", "7", "--runs", "1"});
  ASSERT_EQ(o.status, 0) << o.err;
  const std::vector<std::string> convolutions = measured(o, "conv2d"), products = measured(o, "matmul");
  for (const char* operands : {"[1, 32, 32, 1], float32 [5, 5, 1, 6]", "[2, 32, 32, 1], float32 [5, 5, 1, 6]", "[1, 32, 32, 3], float32 [5, 5, 3, 6]",
                               "[2, 32, 32, 3], float32 [5, 5, 3, 6]"})
    EXPECT_EQ(std::ranges::count_if(convolutions, [&](const std::string& key) { return key.find(operands) != std::string::npos; }), 1) << operands << o.err;
  EXPECT_TRUE(std::ranges::any_of(products, [](const std::string& key) { return key.find("[84, 7]") != std::string::npos; })) << "--classes: " << o.err;
  EXPECT_NE(gemel({"tune", "--model", "lenet", "--batch-size", "1,,2"}).err.find("--batch-size: '' is not accepted"), std::string::npos);
}

TEST_F(Tune, later_runs_choose_as_the_table_says) {
  const std::filesystem::path file = forget();
  ASSERT_TRUE(std::filesystem::exists(file));
  TuningTable table;
  table.set(kFirstConvolution, "direct");
  table.set(kThroughAProduct, "gemm");
  table.set(kProduct, "columns");
  std::ofstream(file) << table.text();
  const Outcome o = gemel({"bench", "train", "--model", "lenet", "--batch-size", "2", "--runs", "1", "--warmup", "1", "--frontend", "graph"});
  ASSERT_EQ(o.status, 0) << o.err;
  for (const auto& [key, variant] : table.variants())
    EXPECT_NE(o.err.find("dispatch: " + key + " -> " + variant + " (tuned)"), std::string::npos) << key << o.err;
  EXPECT_NE(o.err.find(" (ranked)"), std::string::npos) << "the others";
}

TEST_F(Tune, a_damaged_table_is_named_and_not_used_and_can_be_forgotten) {
  const Words bench{"bench", "infer", "--model", "lenet", "--batch-size", "1", "--runs", "1", "--warmup", "1"};
  const std::filesystem::path file = forget();
  std::ofstream(file) << "{";
  const Outcome o = gemel(bench);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("gemel: warning: " + file.string() + ": not a tuning table"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("gemel tune --forget"), std::string::npos) << o.err;
  EXPECT_EQ(forget(), file);
  EXPECT_EQ(gemel(bench).err.find("warning"), std::string::npos);
}

TEST_F(Tune, ends_when_its_time_is_over_and_says_what_is_left) {
  const Outcome o = gemel({"tune", "--model", "lenet", "--batch-size", "2", "--runs", "1", "--seconds", "0.001"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(measured(o, "conv2d").size() + measured(o, "matmul").size(), 1u) << "of one that was begun in time: " << o.err;
  EXPECT_NE(o.err.find("the time is over: "), std::string::npos) << o.err;
  EXPECT_NE(gemel({"tune", "--seconds", "-1"}).err.find("--seconds"), std::string::npos);
}

TEST_F(Tune, takes_the_times_of_kernels_on_a_gpu) {
  const Outcome o = gemel({"tune", "--model", "lenet", "--batch-size", "2", "--runs", "1", "--seconds", "2"}, "gpu");
  ASSERT_EQ(o.status, 0) << o.err;
  std::size_t timed = 0;
  for (const std::string& line : lines_of(o.err))
    if (const auto ms = line.find(" ms "); ms != std::string::npos && line.find(" float32 ") != std::string::npos) {
      ++timed;
      EXPECT_GT(std::stod(line.substr(line.rfind(' ', ms - 1))), 0) << line;
    }
  EXPECT_GT(timed, 0u) << o.err;
}

TEST_F(Tune, another_drivers_table_is_told_and_not_used) {
  const Words bench{"bench", "infer", "--model", "lenet", "--batch-size", "1", "--runs", "1", "--warmup", "1"};
  const std::filesystem::path file = forget();
  Json table = Json::parse(read_text(file));
  EXPECT_NE(table["driver"], "0.9");
  table["driver"] = "0.9";
  const std::filesystem::path others = file.parent_path() / (file.stem().string().substr(0, file.stem().string().rfind('-')) + "-0123456789abcdef.json");
  std::filesystem::remove(file);
  write_text(others, table.dump());
  EXPECT_EQ(gemel(bench).err.find("warning"), std::string::npos) << "it is empty";
  table["variants"] = {{kFirstConvolution, "direct"}};
  write_text(others, table.dump());
  const Outcome o = gemel(bench);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find(" is of driver 0.9, which is "), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("(tuned)"), std::string::npos) << o.err;
  table["device"]["compute_units"] = 4096;
  write_text(others, table.dump());
  EXPECT_EQ(gemel(bench).err.find("warning"), std::string::npos) << "it is of another device";
}

TEST_F(Tune, what_clblast_refuses_is_named_with_its_file_and_not_used) {
  const std::filesystem::path file = forget();
  TuningTable table;
  table.clblast["Xgemmm"] = {{"MWG", 64}};
  std::ofstream(file) << table.text();
  const Outcome o = gemel({"bench", "infer", "--model", "lenet", "--batch-size", "1", "--runs", "1", "--warmup", "1"});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("gemel: warning: " + file.string() + ": clblast::OverrideParameters of Xgemmm: status "), std::string::npos) << o.err;
}

}  // namespace
}  // namespace gemel::testing
