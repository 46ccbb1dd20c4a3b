#include "opencl/device/counted_launch.h"

#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "engine/base/numbers.h"
#include "opencl/device/stand_in_device.h"
#include "opencl/memory/block.h"
#include "opencl/program/kernel.h"
#include "opencl/program/offset_arguments.h"
#include "opencl/program/program_cache.h"

namespace gemel::opencl {
namespace {

/// Of each `__global` parameter of a kernel, whether it is const; nothing where the source does not spell the kernel's name.
std::optional<std::vector<bool>> const_parameters(const std::string& source, std::string_view kernel) {
  const std::string head = "void " + std::string(kernel) + "(";
  const std::size_t begin = source.find(head);
  if (begin == source.npos) return std::nullopt;
  std::vector<bool> out;
  std::istringstream parameters(parameters_behind(source, begin + head.size() - 1));
  for (std::string parameter; std::getline(parameters, parameter, ',');)
    if (parameter.find("__global") != parameter.npos) out.push_back(parameter.find("const") < parameter.find('*'));
  return out;
}

class Counter final : public StandInDevice {
 public:
  Counter(const DeviceProfile& profile, std::span<const CountedOperand> operands) : profile_(profile), operands_(operands), blocks_(operands.size()) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const int lies_at = operands[i].lies_at;
      regions_.push_back({operands[i].bytes > 0 ? &blocks_[lies_at < 0 ? i : at(lies_at)] : nullptr, 0, operands[i].bytes});
    }
  }
  std::span<const Region> regions() const { return regions_; }
  CountedLaunch take() { return std::move(launch_); }

  const DeviceProfile& profile() const override { return profile_; }
  const DeviceSettings& settings() const override { return settings_; }
  Kernel& kernel(std::string_view file, std::string_view name, std::string_view options, std::string_view preface) override {
    launch_.programs.push_back({std::string(file), std::string(options), std::string(preface), ""});
    return find(name, [&] { return with_includes(preface) + embedded_source(file); });
  }
  Kernel& generated_kernel(std::string_view title, const std::function<std::string()>& source, std::string_view name) override {
    return find(name, [&] {
      std::string text = source();
      launch_.programs.push_back({std::string(title), "", "", text});
      return text;
    });
  }

  void run(Kernel& kernel, const Range& range, std::span<const Argument> arguments) override {
    if (is_empty(range)) return;
    CountedCommand out{.name = kernel.name, .groups = 1, .group_items = 1};
    for (int d = 0; d < range.dimensions; ++d) {
      const std::size_t k = at(d);
      const std::int64_t items = std::max<std::int64_t>(1, range.local[k]);
      out.groups *= ceil_div(range.global[k], items);
      out.group_items *= items;
    }
    const std::optional<std::vector<bool>>& known = parameters_.at(kernel.name);
    std::size_t place = 0;
    std::int64_t of_workspace = 0;
    for (const Argument& argument : arguments)
      if (const Region* region = std::get_if<Region>(&argument); region && is_workspace(*region)) of_workspace += region->bytes;
    const bool stays_in_cache = 2 * of_workspace <= profile_.cache_bytes;
    for (const Argument& argument : arguments) {
      const Region* region = std::get_if<Region>(&argument);
      if (!region) continue;
      const bool holds = is_input(*region), is_const = known && place < known->size() ? (*known)[place] : holds;  // operands of an epilogue are read
      const bool is_cached = stays_in_cache && is_workspace(*region);
      if (is_const || holds) (is_cached ? out.cached_bytes : out.read_bytes) += region->bytes;
      if (!is_const) (is_cached ? out.cached_bytes : out.written_bytes) += region->bytes;
      ++place;
    }
    launch_.commands.push_back(std::move(out));
  }
  void copy(const Region& from, const Region& to) override {
    launch_.commands.push_back({.name = "copy", .read_bytes = from.bytes, .written_bytes = std::min(from.bytes, to.bytes)});
  }
  void fill(const Region& to, std::span<const std::byte>) override { launch_.commands.push_back({.name = "fill", .written_bytes = to.bytes}); }
  void native(const std::function<void(void*, void**)>&, std::string_view name) override {
    if (name != kNoWork) launch_.commands.push_back({.name = std::string(name), .is_native = true});
  }

 private:
  template <class Source>
  Kernel& find(std::string_view name, const Source& source) {
    const auto [it, fresh] = kernels_.try_emplace(std::string(name));
    if (fresh) {
      it->second.name = name;
      parameters_[it->first] = const_parameters(source(), name);
    }
    return it->second;
  }
  bool is_input(const Region& region) const { return lies_in_any(region, &CountedOperand::is_input); }
  bool is_workspace(const Region& region) const { return lies_in_any(region, &CountedOperand::is_workspace); }
  bool lies_in_any(const Region& region, bool CountedOperand::*kind) const {
    for (std::size_t i = 0; i < operands_.size(); ++i)
      if (operands_[i].*kind && region.block && region.block == regions_[i].block) return true;
    return false;
  }

  const DeviceProfile& profile_;
  DeviceSettings settings_;
  std::span<const CountedOperand> operands_;
  std::vector<Block> blocks_;  // never allocated: they tell operands apart
  std::vector<Region> regions_;
  std::map<std::string, Kernel> kernels_;
  std::map<std::string, std::optional<std::vector<bool>>> parameters_;  // by kernel
  CountedLaunch launch_;
};

}  // namespace

CountedLaunch count_launch(const DeviceProfile& profile, std::span<const CountedOperand> operands, const Recording::Launch& launch) {
  Counter counter(profile, operands);
  launch(counter, counter.regions());
  return counter.take();
}

}  // namespace gemel::opencl
