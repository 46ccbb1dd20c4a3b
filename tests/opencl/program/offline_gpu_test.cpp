// Kernels that GPUs get, compiled for AMD's, NVIDIA's and Intel's GPUs that are not here: all have code, and those on which a training's time depends take no
// more registers, stack and local memory than offline_figures.tsv says and divide no 64-bit numbers. After a change that is meant to move figures
//   GEMEL_TEST_WRITE_FIGURES=1 ./gemel test --filter OfflineFigures
// writes the lines of each target whose compiler is here anew. NVIDIA's driver compiles by a compiler of its own: its figures are near, not the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/device/test_device.h"
#include "tests/support/offline/figure_table.h"
#include "tests/support/offline/gpu_programs.h"
#include "tests/support/offline/offline_compiler.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {
namespace {

constexpr const char* kFigureFile = GEMEL_SOURCE_DIR "/tests/opencl/program/offline_figures.tsv";
constexpr const char* kWriteAnew = "if that is meant: GEMEL_TEST_WRITE_FIGURES=1 ./gemel test --filter OfflineFigures";

/// A program that takes much of a training's time. Without an epilogue, so that each stands for one program.
struct HotProgram {
  std::string_view title, options;  // {}: those of the largest tile; {1}: the sub-group, {2}, {3}: as hot_programs says
};
constexpr HotProgram kHotPrograms[] = {
    {"any/update.cl", ""},
    {"gpu/batch_norm.cl", ""},
    {"gpu/batch_norm_pass.cl", ""},
    {"gpu/layer_norm.cl", "-DT=float"},
    {"gpu/layer_norm.cl", "-DT=float -DSTORED_AS=bfloat16"},
    {"gpu/layer_norm_rows.cl", "-DT=float -DITEMS=64 -DCHUNKS=3 -DVECTOR=4{1}"},
    {"gpu/softmax.cl", "-DT=float"},
    {"gpu/move.cl", "-DT=uint"},
    {"any/move.cl", "-DT=uint"},
    {"any/gather.cl", "-DT=uint -DINDEX=long"},
    {"gpu/reduce.cl", "-DT=float"},
    {"any/reduce.cl", "-DT=float"},
    {"any/convolution/depthwise.cl", "-DWIDTH=1"},
    {"gpu/convolution/depthwise.cl", "-DWINDOW_ROWS=3 -DWINDOW_COLUMNS=3 -DROW_STRIDE=2 -DCOLUMN_STRIDE=2 -DRUN=4 -DFORWARD=1{1}"},
    {"gpu/convolution/depthwise.cl", "-DWINDOW_ROWS=5 -DWINDOW_COLUMNS=5 -DROW_STRIDE=1 -DCOLUMN_STRIDE=1 -DRUN=4 -DFORWARD=1{1}"},
    {"gpu/convolution/depthwise.cl", "-DWINDOW_ROWS=3 -DWINDOW_COLUMNS=3 -DROW_STRIDE=1 -DCOLUMN_STRIDE=1 -DRUN=4 -DFORWARD=0{1}"},
    {"any/convolution/columns.cl", "-DWIDTH=4"},
    {"gpu/convolution/tiles.cl", "{} -DFORWARD=1"},
    {"gpu/convolution/tiles.cl", "{} -DFORWARD=0"},
    {"gpu/convolution/weight_tiles.cl", "{}"},
    {"gpu/convolution/winograd.cl", "-DWIDTH=2 -DGROUP=128{1}"},
    {"gpu/gemm.cl", "{} -DTURNED_A=0 -DTURNED_B=0"},
    {"gpu/pooling.cl", "-DWIDTH=4"},
    {"gpu/attention/tiles.cl", "-DT=float -DHEAD=64 -DVALUE=64 -DLANES=1 -DGROUP=256 -DROWS=64 -DVECTOR=4{1}"},
    {"gpu/attention/tiles.cl", "-DT=float -DHEAD=128 -DVALUE=128 -DLANES=1 {3} -DVECTOR=4{1}"},
    {"gpu/attention/tiles_backward.cl", "-DT=float -DHEAD=64 -DVALUE=64 -DLANES=1 -DGROUP=256 -DROWS=64 -DVECTOR=4{1} -DDKEY=1 -DDVALUE={2}"},
    {"gpu/attention/tiles_backward.cl", "-DT=float -DHEAD=128 -DVALUE=128 -DLANES=1 {3} -DVECTOR=4{1} -DDKEY=1 -DDVALUE=0"},
    {"any/random.cl", "-DLANES=1"},
    {"add_item_float32_float32_float32", ""},
    {"relu_item_float32_float32", ""},
    {"gelu_item_float32_float32", ""},
};

/// The same on matrix units: the largest tiles in float32, by three products, and in TF32.
constexpr const char* kSplitTile = "-DROWS=128 -DCOLUMNS=128 -DDEPTH=16 -DGROUP=256 -DWARP_COLUMNS=4 -DVECTOR=4 -DUNITS=MMA_SYNC -DSPLIT=1";
constexpr const char* kTf32Tile = "-DROWS=128 -DCOLUMNS=128 -DDEPTH=16 -DGROUP=128 -DWARP_COLUMNS=2 -DVECTOR=4 -DUNITS=MMA_SYNC -DSPLIT=0";
constexpr HotProgram kHotUnitPrograms[] = {
    {"gpu/gemm.cl", "{} -DTURNED_A=0 -DTURNED_B=0"},
    {"gpu/convolution/tiles.cl", "{} -DFORWARD=1"},
    {"gpu/convolution/tiles.cl", "{} -DFORWARD=0"},
    {"gpu/convolution/weight_tiles.cl", "{}"},
};

/// Kernels that compute products, and how much of the arithmetic of their inner loops is fused multiply-adds, in percent. 85 are wanted; attention has
/// exponents and sums of rows between its products, which are a fifth on gfx90a, where an instruction may add up two.
const std::map<std::string_view, int> kProducts{
    {"gemm_tile", 85}, {"conv_tile", 85}, {"conv_weight_tile", 85}, {"attention_tile", 84}, {"attention_dquery_tile", 80}, {"attention_dkey_tile", 80}};

const std::vector<GpuProgram>& all_programs(const OfflineTarget& target) {
  static std::map<int, std::vector<GpuProgram>> programs;
  std::vector<GpuProgram>& of_width = programs[target.least_sub_group_width];
  if (of_width.empty()) of_width = gpu_programs(target.least_sub_group_width);
  return of_width;
}

std::string sub_group_option(const OfflineTarget& target) {
  return target.least_sub_group_width ? fmt::format(" -DSUB_GROUP={}", target.least_sub_group_width) : "";
}

/// Of the largest tile whose results the target's work-items have registers for.
std::string tile_options(const OfflineTarget& target) {
  return fmt::format("-DROWS=128 -DCOLUMNS={} -DDEPTH=8 -DGROUP=256 -DITEM_COLUMNS=16 -DVECTOR=4{}", target.least_sub_group_width ? 64 : 128,
                     sub_group_option(target));
}

const OfflineCompiler& offline_compiler() {
  static const OfflineCompiler compiler;
  return compiler;
}

/// What a target's programs of a title and without an epilogue are built with, each in brackets.
std::string options_of(std::string_view title, const OfflineTarget& target) {
  std::set<std::string> options;
  for (const GpuProgram& p : all_programs(target))
    if (p.title == title && !p.has_epilogue) options.insert("[" + p.options + "]");
  std::string out;
  for (const std::string& o : options) out += " " + o;
  return out;
}

const std::vector<GpuProgram>& all_unit_programs() {
  static const std::vector<GpuProgram> programs = unit_programs();
  return programs;
}

std::vector<GpuProgram> hot_unit_programs() {
  std::vector<GpuProgram> out;
  for (const HotProgram& hot : kHotUnitPrograms)
    for (const char* tile : {kSplitTile, kTf32Tile}) {
      const std::string options = fmt::format(fmt::runtime(hot.options), tile);
      const auto found =
          std::ranges::find_if(all_unit_programs(), [&](const GpuProgram& p) { return p.title == hot.title && p.options == options && !p.has_epilogue; });
      if (found == all_unit_programs().end())
        ADD_FAILURE() << "no matrix unit is asked for " << hot.title << " [" << options << "]";
      else
        out.push_back(*found);
    }
  return out;
}

std::vector<GpuProgram> hot_programs(const OfflineTarget& target) {
  const std::vector<GpuProgram>& programs = all_programs(target);
  std::vector<GpuProgram> out;
  for (const HotProgram& hot : kHotPrograms) {
    const bool chooses = target.least_sub_group_width > 0;
    const int dvalue = chooses ? 0 : 1;  // whether there are registers for both gradients
    const char* wide_block = chooses ? "-DGROUP=256 -DROWS=64" : "-DGROUP=128 -DROWS=32";
    const std::string options = fmt::format(fmt::runtime(hot.options), tile_options(target), sub_group_option(target), dvalue, wide_block);
    const auto found = std::ranges::find_if(programs, [&](const GpuProgram& p) { return p.title == hot.title && p.options == options && !p.has_epilogue; });
    if (found == programs.end())
      ADD_FAILURE() << "no GPU is asked for " << hot.title << " [" << options << "]; accepted:" << options_of(hot.title, target);
    else
      out.push_back(*found);
  }
  return out;
}

/// All with --full; else one of each file, for one target of each maker.
std::vector<GpuProgram> programs_for(const OfflineTarget& target) {
  std::vector<GpuProgram> out;
  if (is_full_run()) {
    out = all_programs(target);
    if (target.has_units) out.insert(out.end(), all_unit_programs().begin(), all_unit_programs().end());
    return out;
  }
  std::set<std::string> titles;
  for (const HotProgram& hot : kHotPrograms) titles.insert(std::string(hot.title));  // compiled for their figures
  for (const GpuProgram& p : all_programs(target))
    if (target.is_main && !p.is_generated() && titles.insert(p.title).second) out.push_back(p);
  return out;
}

std::vector<KernelFigures> figures_or_failure(const GpuProgram& program, const OfflineTarget& target) {
  try {
    return offline_compiler().figures(program, target);
  } catch (const std::exception& e) {
    ADD_FAILURE() << program.title << " " << program.options << " for " << target.name << ":\n" << e.what();
    return {};
  }
}

Figures figures_of_hot_programs(const OfflineTarget& target) {
  Figures out;
  for (const GpuProgram& p : hot_programs(target)) {
    const std::vector<KernelFigures> of_program = figures_or_failure(p, target);
    EXPECT_FALSE(of_program.empty()) << p.title << " " << p.options << " for " << target.name;
    for (const KernelFigures& f : of_program) out[{p.title, p.options, f.name, target.name}] = f;
  }
  if (!target.has_units) return out;
  for (const GpuProgram& p : hot_unit_programs())
    for (const KernelFigures& f : figures_or_failure(p, target)) out[{p.title, p.options, f.name, target.name}] = f;
  return out;
}

/// What is missing is a failure where all compilers are wanted, as in continuous integration.
#define SKIP_OR_FAIL(lacking)                                                 \
  do {                                                                        \
    if (std::getenv("GEMEL_TEST_NEEDS_COMPILERS")) GTEST_FAIL() << (lacking); \
    GTEST_SKIP() << (lacking);                                                \
  } while (false)

TEST(OfflineGpu, is_asked_for_programs_of_most_operators) {
  std::set<std::string> titles;
  for (const GpuProgram& p : all_programs(kOfflineTargets[0])) titles.insert(p.title);
  EXPECT_GE(titles.size(), 60);
  for (const char* file :
       {"any/convolution/direct.cl", "any/convolution/columns.cl", "gpu/batch_norm.cl", "any/attention/group.cl", "gpu/reduce.cl", "any/update.cl"})
    EXPECT_TRUE(titles.contains(file)) << file;
  for (const char* file : {"cpu/convolution/tiles.cl", "cpu/convolution/winograd.cl", "cpu/attention/tiles.cl"}) EXPECT_FALSE(titles.contains(file)) << file;
}

TEST(OfflineGpu, hot_kernels_divide_no_64_bit_numbers) {
  if (const std::string lacking = offline_compiler().lacks_for_ptx(); !lacking.empty()) SKIP_OR_FAIL(lacking);
  for (const GpuProgram& p : hot_programs(kOfflineTargets[0]))
    for (const auto& [kernel, count] : offline_compiler().divisions(p))
      ADD_FAILURE() << kernel << " (" << p.title << " " << p.options << ") divides 64-bit numbers " << count << " times";
}

// Also of GPUs of which the table has no figures, with --full.
TEST(OfflineGpu, matrix_units_spill_no_register) {
  const std::vector<OfflineTarget> all{{"sm_80", GpuMaker::nvidia}, {"sm_90", GpuMaker::nvidia}, {"sm_86", GpuMaker::nvidia}, {"sm_89", GpuMaker::nvidia}};
  for (const OfflineTarget& target : std::span(all).first(is_full_run() ? 4 : 2)) {
    if (const std::string lacking = offline_compiler().lacks(target); !lacking.empty()) SKIP_OR_FAIL(lacking);
    for (const GpuProgram& p : is_full_run() ? all_unit_programs() : hot_unit_programs())
      for (const KernelFigures& f : figures_or_failure(p, target))
        EXPECT_EQ(std::pair(f.spill_bytes, f.stack_bytes), std::pair(0, 0)) << f.name << " (" << p.title << " " << p.options << ", " << target.name << ")";
  }
}

class OfflineTargets : public ::testing::TestWithParam<OfflineTarget> {};
class OfflineFigures : public ::testing::TestWithParam<OfflineTarget> {};

TEST_P(OfflineTargets, have_code_for_all_kernels) {
  if (const std::string lacking = offline_compiler().lacks(GetParam()); !lacking.empty()) SKIP_OR_FAIL(lacking);
  if (!is_full_run() && !GetParam().is_main) GTEST_SKIP() << "with --full";
  for (const GpuProgram& p : programs_for(GetParam())) EXPECT_FALSE(figures_or_failure(p, GetParam()).empty()) << p.title << " " << p.options;
}

TEST_P(OfflineFigures, of_hot_kernels_are_no_worse_than_the_table) {
  const OfflineTarget& target = GetParam();
  if (const std::string lacking = offline_compiler().lacks(target); !lacking.empty()) SKIP_OR_FAIL(lacking);
  const Figures compiled = figures_of_hot_programs(target);
  for (const auto& [place, figures] : compiled)
    if (const auto product = kProducts.find(place.kernel); product != kProducts.end() && target.maker == GpuMaker::amd) {
      EXPECT_GE(figures.fma_percent, product->second) << place.kernel << " (" << place.program << " " << place.options << ", " << target.name << ")";
    }
  FigureTable table = read_figure_table(read_text(kFigureFile));
  const std::string tools = offline_compiler().tools(target);
  if (std::getenv("GEMEL_TEST_WRITE_FIGURES")) {
    table.replace(target.name, tools, compiled);
    write_text(kFigureFile, to_text(table));
    return;
  }
  if (table.tools.contains(target.name) && table.tools[target.name] != tools)
    SKIP_OR_FAIL("the table has figures of " + table.tools[target.name] + ", here is " + tools);
  for (const std::string& line : worse_than(table, target.name, compiled)) ADD_FAILURE() << line << "\n" << kWriteAnew;
}

std::string target_name(const ::testing::TestParamInfo<OfflineTarget>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(, OfflineTargets, ::testing::ValuesIn(kOfflineTargets), target_name);
INSTANTIATE_TEST_SUITE_P(, OfflineFigures, ::testing::ValuesIn(kOfflineTargets), target_name);

}  // namespace
}  // namespace gemel::testing
