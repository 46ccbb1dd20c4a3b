// Kernels that GPUs get, compiled for GPUs that are not here: by clang for AMD's gfx1030 and NVIDIA's sm_70, by ocloc for Intel's dg2.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engine/device/dispatch.h"
#include "engine/device/launch.h"
#include "opencl/device/stand_in_device.h"
#include "opencl/memory/block.h"
#include "opencl/program/kernel.h"
#include "opencl/program/offset_arguments.h"
#include "opencl/program/program_cache.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/op_harness.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {
namespace {

using opencl::DeviceProfile;
using opencl::Region;

struct ProgramSource {
  std::string title, options, text;
  friend auto operator<=>(const ProgramSource& a, const ProgramSource& b) { return std::tie(a.options, a.text) <=> std::tie(b.options, b.text); }
};

/// Lists the programs that launches ask for, and runs nothing.
class Listing final : public opencl::StandInDevice {
 public:
  explicit Listing(DeviceProfile profile) : profile_(std::move(profile)) {}
  const std::set<ProgramSource>& programs() const { return programs_; }

  const DeviceProfile& profile() const override { return profile_; }
  const opencl::DeviceSettings& settings() const override { return settings_; }
  opencl::Kernel& kernel(std::string_view file, std::string_view, std::string_view options, std::string_view preface) override {
    programs_.insert({std::string(file), std::string(options), macros_for(profile_) + opencl::with_includes(preface) + opencl::embedded_source(file)});
    return none_;
  }
  opencl::Kernel& generated_kernel(std::string_view title, const std::function<std::string()>& source, std::string_view) override {
    programs_.insert({std::string(title), "", macros_for(profile_) + opencl::with_includes(source())});
    return none_;
  }
  void run(opencl::Kernel&, const opencl::Range&, std::span<const opencl::Argument>) override {}
  void copy(const Region&, const Region&) override {}
  void fill(const Region&, std::span<const std::byte>) override {}
  void native(const std::function<void(void*, void**)>&, std::string_view) override {}

 private:
  DeviceProfile profile_;
  opencl::DeviceSettings settings_;
  std::set<ProgramSource> programs_;
  opencl::Kernel none_{{}, "none"};
};

DeviceProfile a_gpu() {
  return {.platform = "of nobody",
          .name = "a GPU",
          .kind = opencl::DeviceKind::gpu,
          .compute_units = 60,
          .has_real_local_memory = true,
          .cache_bytes = 4 << 20,
          .global_bytes = std::int64_t{8} << 30,
          .max_allocation_bytes = std::int64_t{2} << 30,
          .max_group_size = 256,
          .has_fma = true};
}

/// Asks for the kernels of every variant that a GPU may get, on every sample of every operator.
void launch_all(Listing& device) {
  for (const OpCase& c : all_cases()) {
    const Sample sample = c.op->samples()[static_cast<std::size_t>(c.sample)];
    const Specs out_specs = c.op->infer(sample.inputs, sample.attributes);
    const Problem problem{*c.op, sample.attributes, sample.inputs, out_specs};
    std::vector<opencl::Block> blocks(sample.inputs.size() + out_specs.size() + 2);
    std::vector<Region> in, out;
    for (const Spec& s : sample.inputs) in.push_back({&blocks[in.size()], 0, s.bytes()});
    for (const Spec& s : out_specs) out.push_back({&blocks[in.size() + out.size()], 0, s.bytes()});
    for (const Variant& v : c.op->variants) {
      if (declines(v, problem, device.profile())) continue;
      Launch call({device, {&blocks[blocks.size() - 1], 0, 16}}, problem, in, out,
                  {&blocks[blocks.size() - 2], 0, v.workspace_bytes ? v.workspace_bytes(problem, device.profile()) : 0});
      v.launch(call);
    }
  }
}

std::vector<ProgramSource> programs_of_a_gpu() {
  Listing device(a_gpu());
  launch_all(device);
  return {device.programs().begin(), device.programs().end()};
}

bool is_installed(const std::string& tool) { return std::system(("command -v " + tool + " >/dev/null").c_str()) == 0; }

/// @param command  compiles source.cl in the folder that it runs in; {options} stand for the program's
void expect_all_compile(const std::vector<ProgramSource>& programs, const std::string& command) {
  const TemporaryFolder folder;
  for (const ProgramSource& p : programs) {
    std::ofstream(folder.path() / "source.cl") << p.text;
    std::string line = command;
    line.replace(line.find("{options}"), 9, p.options);
    line = "cd '" + folder.path().string() + "' && " + line + " >log 2>&1";
    EXPECT_EQ(std::system(line.c_str()), 0) << p.title << " " << p.options << "\n" << read_text(folder.path() / "log").substr(0, 2000);
  }
}

const std::string kClang =
    "clang-15 -x cl -cl-std=CL1.2 -Xclang -fdeclare-opencl-builtins -Xclang -finclude-default-header -O1 -w -S -o out {options} source.cl";

TEST(OfflineGpu, is_asked_for_programs_of_most_operators) {
  std::set<std::string> titles;
  for (const ProgramSource& p : programs_of_a_gpu()) titles.insert(p.title);
  EXPECT_GE(titles.size(), 60);
  for (const char* file :
       {"any/convolution/direct.cl", "any/convolution/columns.cl", "gpu/batch_norm.cl", "any/attention/group.cl", "gpu/reduce.cl", "any/update.cl"})
    EXPECT_TRUE(titles.contains(file)) << file;
  for (const char* file : {"cpu/convolution/tiles.cl", "cpu/convolution/winograd.cl", "cpu/attention/tiles.cl"}) EXPECT_FALSE(titles.contains(file)) << file;
}

TEST(OfflineGpu, of_amd_has_code_for_all_programs) {
  if (!is_installed("clang-15")) GTEST_SKIP() << "needs clang-15 (Debian's clang-15)";
  if (!is_full_run()) GTEST_SKIP() << "with --full";
  expect_all_compile(programs_of_a_gpu(), kClang + " --target=amdgcn-amd-amdhsa -mcpu=gfx1030 -nogpulib");
}

// With offsets into whole buffers, as NVIDIA's driver takes them.
TEST(OfflineGpu, of_nvidia_has_code_for_all_programs) {
  if (!is_installed("clang-15")) GTEST_SKIP() << "needs clang-15 (Debian's clang-15)";
  if (!is_full_run()) GTEST_SKIP() << "with --full";
  std::vector<ProgramSource> programs = programs_of_a_gpu();
  for (ProgramSource& p : programs) p.text = opencl::with_offset_arguments(p.text);
  expect_all_compile(programs, kClang + " --target=nvptx64-nvidia-nvcl -Xclang -target-cpu -Xclang sm_70");
}

TEST(OfflineGpu, of_intel_has_code_for_all_programs) {
  if (!is_installed("ocloc")) GTEST_SKIP() << "needs ocloc (Debian's intel-opencl-icd)";
  if (!is_full_run()) GTEST_SKIP() << "with --full";
  expect_all_compile(programs_of_a_gpu(), "ocloc compile -file source.cl -device dg2 -options '-cl-std=CL1.2 {options}' -out_dir out");
}

}  // namespace
}  // namespace gemel::testing
