#include "opencl/device/recording.h"

#include <algorithm>
#include <utility>

#include "engine/base/numbers.h"
#include "opencl/device/stand_in_device.h"
#include "opencl/memory/block.h"

namespace gemel::opencl {
namespace {

bool coincide(const Region& a, const Region& b) { return a.block == b.block && a.offset == b.offset; }

/// Stands in for a device in a launch: finds its kernels, and keeps what would be enqueued.
class Recorder final : public StandInDevice {
 public:
  Recorder(Device& device, std::span<const Region> operands, std::span<const std::size_t> first) : device_(device), blocks_(operands.size()) {
    for (std::size_t i = 0; i < operands.size(); ++i) stand_ins_.push_back({operands[i].block ? &blocks_[first[i]] : nullptr, 0, operands[i].bytes});
  }
  std::span<const Region> stand_ins() const { return stand_ins_; }
  bool complete() const { return complete_; }
  std::vector<Recording::Entry> take() { return std::move(entries_); }

  const DeviceProfile& profile() const override { return device_.profile(); }
  const DeviceSettings& settings() const override { return device_.settings(); }
  Allocator& memory() override { return device_.memory(); }
  Kernel& kernel(std::string_view file, std::string_view name, std::string_view options, std::string_view preface) override {
    return device_.kernel(file, name, options, preface);
  }
  Kernel& generated_kernel(std::string_view title, const std::function<std::string()>& source, std::string_view name) override {
    return device_.generated_kernel(title, source, name);
  }

  void run(Kernel& kernel, const Range& range, std::span<const Argument> arguments) override {
    if (is_empty(range)) return;
    Recording::Run run{&kernel, range, {}};
    run.arguments.reserve(arguments.size());
    for (const Argument& argument : arguments) std::visit([&](const auto& value) { run.arguments.emplace_back(kept(value)); }, argument);
    entries_.emplace_back(std::move(run));
  }
  void copy(const Region& from, const Region& to) override { entries_.emplace_back(Recording::Copy{kept(from), kept(to)}); }
  void fill(const Region& to, std::span<const std::byte> pattern) override {
    entries_.emplace_back(Recording::Fill{kept(to), {pattern.begin(), pattern.end()}});
  }
  void native(const std::function<void(void*, void**)>&, std::string_view) override { complete_ = false; }

 private:
  template <class T>
  static T kept(const T& number) {
    return number;
  }
  Recording::Place kept(const Region& region) const {
    const auto it = std::ranges::find_if(stand_ins_, [&](const Region& r) { return region.block && r.block == region.block; });
    if (it == stand_ins_.end()) return {region};
    return {{nullptr, region.offset, region.bytes}, narrow<int>(it - stand_ins_.begin())};
  }

  Device& device_;
  std::vector<Block> blocks_;  // never allocated: they tell operands apart
  std::vector<Region> stand_ins_;
  std::vector<Recording::Entry> entries_;
  bool complete_ = true;
};

}  // namespace

std::unique_ptr<const Recording> Recording::make(Device& device, std::span<const Region> operands, const Launch& launch) {
  auto made = std::make_unique<Recording>();
  for (const Region& operand : operands)
    made->first_.push_back(at(std::ranges::find_if(operands, [&](const Region& r) { return coincide(r, operand); }) - operands.begin()));
  Recorder recorder(device, operands, made->first_);
  launch(recorder, recorder.stand_ins());
  made->entries_ = recorder.take();
  return recorder.complete() ? std::move(made) : nullptr;
}

bool Recording::fits(std::span<const Region> operands) const {
  for (std::size_t i = 1; i < operands.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const bool same = coincide(operands[i], operands[j]);
      if (same != (first_[i] == first_[j])) return false;
    }
  return true;
}

}  // namespace gemel::opencl
