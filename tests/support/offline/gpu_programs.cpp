#include "tests/support/offline/gpu_programs.h"

#include <functional>
#include <set>
#include <span>
#include <utility>

#include "engine/device/dispatch.h"
#include "engine/device/launch.h"
#include "engine/ops/ops.h"
#include "opencl/device/stand_in_device.h"
#include "opencl/memory/block.h"
#include "opencl/program/kernel.h"
#include "opencl/program/program_cache.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

using opencl::DeviceProfile;
using opencl::Region;

/// Lists the programs that launches ask for, and runs nothing.
class ProgramListing final : public opencl::StandInDevice {
 public:
  explicit ProgramListing(DeviceProfile profile) : profile_(std::move(profile)) {}
  const std::set<GpuProgram>& programs() const { return programs_; }

  const DeviceProfile& profile() const override { return profile_; }
  const opencl::DeviceSettings& settings() const override { return settings_; }
  opencl::Kernel& kernel(std::string_view file, std::string_view, std::string_view options, std::string_view preface) override {
    const std::string text = macros_for(profile_) + opencl::with_includes(preface) + opencl::embedded_source(file);
    programs_.insert({std::string(file), std::string(options), text, !preface.empty()});
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
  std::set<GpuProgram> programs_;
  opencl::Kernel none_{{}, "none"};
};

DeviceProfile profile_of_some_gpu(int least_sub_group_width) {
  return {.platform = "of nobody",
          .name = "a GPU",
          .kind = opencl::DeviceKind::gpu,
          .compute_units = 60,
          .least_sub_group_width = least_sub_group_width,
          .local_bytes = (least_sub_group_width ? 64 : 48) << 10,
          .has_real_local_memory = true,
          .cache_bytes = 4 << 20,
          .global_bytes = std::int64_t{8} << 30,
          .max_allocation_bytes = std::int64_t{2} << 30,
          .max_group_size = 256,
          .has_fma = true};
}

/// Of a device with matrix units only variants for these.
void launch_variants(ProgramListing& device, const OpDef& op, const Specs& inputs, const Attributes& attributes) {
  const bool of_units = device.profile().matrix_units != opencl::MatrixUnits::none;
  const Specs out_specs = op.infer(inputs, attributes);
  const Problem problem{op, attributes, inputs, out_specs};
  std::vector<opencl::Block> blocks(inputs.size() + out_specs.size() + 2);
  std::vector<Region> in, out;
  for (const Spec& s : inputs) in.push_back({&blocks[in.size()], 0, s.bytes()});
  for (const Spec& s : out_specs) out.push_back({&blocks[in.size() + out.size()], 0, s.bytes()});
  for (const Variant& v : op.variants) {
    if (v.needs.matrix_units != of_units || declines(v, problem, device.profile())) continue;
    Launch call({device, {&blocks[blocks.size() - 1], 0, 16}}, problem, in, out,
                {&blocks[blocks.size() - 2], 0, v.workspace_bytes ? v.workspace_bytes(problem, device.profile()) : 0});
    v.launch(call);
  }
}

/// Problems that fill the largest tiles, which no sample does.
void launch_large_problems(ProgramListing& device) {
  const Spec matrix = f32({1024, 1024}), x = f32({32, 32, 32, 256}), w = f32({3, 3, 256, 256});
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) launch_variants(device, matmul_def(), {matrix, matrix}, {{"transpose_a", ta}, {"transpose_b", tb}});
  Attributes a{{"stride", Axes{1, 1}}, {"padding", Axes{1, 1}}, {"dilation", Axes{1, 1}}, {"groups", 1}};
  launch_variants(device, conv2d_def(), {x, w}, a);
  a.set("shape", x.shape);
  launch_variants(device, conv2d_input_gradient_def(), {x, w}, a);
  a.set("shape", w.shape);
  launch_variants(device, conv2d_weight_gradient_def(), {x, x}, a);
  const Attributes attended{{"scale", 0.125}, {"causal", false}, {"rate", 0.0}, {"stream", std::int64_t{0}}};
  for (const std::int64_t width : {64, 128}) {
    const Spec query = f32({8, 512, 12, width}), bias = f32({1, 1, 1, 1}), statistic = f32({8, 512, 12});
    launch_variants(device, attention_def(), {query, query, query, bias}, attended);
    launch_variants(device, attention_backward_def(), {query, query, query, query, bias, query, statistic, statistic}, attended);
  }
  const Spec rows = f32({1024, 768}), row = f32({768}), of_rows = f32({1024});
  launch_variants(device, layer_norm_def(), {rows, row, row}, {{"eps", 1e-5}});
  launch_variants(device, layer_norm_backward_def(), {rows, rows, row, of_rows, of_rows}, {});
}

std::vector<GpuProgram> programs_of(const DeviceProfile& profile) {
  ProgramListing device(profile);
  for (const OpCase& c : all_cases()) {
    const Sample sample = c.op->samples()[static_cast<std::size_t>(c.sample)];
    launch_variants(device, *c.op, sample.inputs, sample.attributes);
  }
  launch_large_problems(device);
  return {device.programs().begin(), device.programs().end()};
}

}  // namespace

std::vector<GpuProgram> gpu_programs(int least_sub_group_width) { return programs_of(profile_of_some_gpu(least_sub_group_width)); }

std::vector<GpuProgram> unit_programs() {
  DeviceProfile profile = profile_of_some_gpu(0);
  profile.matrix_units = opencl::MatrixUnits::mma_sync;
  profile.compute_units = 1;  // the largest tiles fill it
  std::vector<GpuProgram> out;
  for (const Precision precision : {Precision::float32, Precision::tf32}) {
    profile.preferences.precision = precision;
    for (GpuProgram& p : programs_of(profile)) out.push_back(std::move(p));
  }
  return out;
}

}  // namespace gemel::testing
