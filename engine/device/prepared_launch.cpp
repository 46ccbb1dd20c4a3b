#include "engine/device/prepared_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <type_traits>
#include <utility>

#include "engine/base/error.h"
#include "engine/device/device_memory.h"
#include "engine/device/dispatch.h"
#include "engine/ops/catalog.h"
#include "opencl/program/compiler_abort.h"

namespace gemel {
namespace {

constexpr std::size_t kLaunchesKept = 4096;  // beyond, all are forgotten: shapes change without end

/// One operand's memory; its bytes are known beforehand.
opencl::Region region_at(const Value& value, std::int64_t bytes) {
  const opencl::Region& whole = static_cast<const DeviceMemory&>(*value.storage()->memory).region();
  return {whole.block, whole.offset + value.offset() * static_cast<std::int64_t>(size_of(value.dtype())), bytes};
}

class Hash {
 public:
  void add(std::size_t value) {
    sum_ = (sum_ ^ value) * 0x9E3779B97F4A7C15u;
    sum_ ^= sum_ >> 29;
  }
  void add(std::span<const std::int64_t> values) {
    add(values.size());
    for (const std::int64_t v : values) add(static_cast<std::size_t>(v));
  }
  void add(const Spec& spec) {
    add(static_cast<std::size_t>(spec.dtype));
    add(spec.shape.span());
  }
  void add(const Attributes::Item& item) {
    std::visit(
        [this](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, Shape>)
            add(value.span());
          else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
            add(std::span(value));
          else if constexpr (std::is_same_v<T, double>)
            add(std::bit_cast<std::uint64_t>(value));
          else
            add(std::hash<T>()(value));
        },
        item);
  }
  std::size_t sum() const { return sum_; }

 private:
  std::size_t sum_ = 0;
};

const Spec& spec_of(const Spec& spec) { return spec; }
const Spec& spec_of(const Value& value) { return value.spec(); }

template <class Operands>
std::size_t hash_of(const OpDef& op, const Attributes& attributes, const Operands& in) {
  Hash hash;
  hash.add(std::hash<const OpDef*>()(&op));
  for (const auto& [name, item] : attributes.entries()) hash.add(item);
  for (const auto& operand : in) hash.add(spec_of(operand));
  return hash.sum();
}

bool in_catalog(const OpDef& op) { return find_op(op.name) == &op; }

}  // namespace

PreparedLaunch::PreparedLaunch(const LaunchTarget& target, const OpDef& op, Attributes attributes, Specs in, Specs out)
    : target_(target), op_(op), attributes_(std::move(attributes)), inputs_(std::move(in)), outputs_(std::move(out)) {
  if (target.device.settings().profiling && op.cost) cost_ = op.cost(problem());
  choose_variant();
  workspace_name_ = op.name + " workspace";
  for (const Specs* specs : {&inputs_, &outputs_})
    for (const Spec& spec : *specs) operands_.push_back({nullptr, 0, spec.bytes()});
  operands_.emplace_back();
  for (const int input : op.writes) written_.push_back(static_cast<std::size_t>(input));
  for (std::size_t i = inputs_.size(); i < operands_.size(); ++i) written_.push_back(i);
}

void PreparedLaunch::choose_variant() {
  const opencl::DeviceProfile& profile = target_.device.profile();
  variant_ = &choose(problem(), profile, refused_);
  workspace_bytes_ = variant_->workspace_bytes ? variant_->workspace_bytes(problem(), profile) : 0;
  recordings_.clear();
  recordable_ = target_.device.settings().recorded_launches;
}

template <class Operands>
bool PreparedLaunch::computes(const OpDef& op, const Attributes& attributes, const Operands& in) const {
  return &op == &op_ && attributes == attributes_ && std::ranges::equal(in, inputs_, {}, [](const auto& operand) -> const Spec& { return spec_of(operand); });
}

void PreparedLaunch::run(std::span<const Value> in, std::span<const Value> out) {
  auto operand = operands_.begin();
  for (const auto values : {in, out})
    for (const Value& v : values) {
      *operand = region_at(v, operand->bytes);
      ++operand;
    }
  for (;;) try {
      return run_variant();
    } catch (const opencl::CompilerAbort& e) {
      // A recording compiles all its kernels before the first is enqueued; otherwise an earlier one may have changed what the next variant would read.
      if (!recordable_ && overwrites_an_input()) throw;
      refused_.push_back({variant_, e.what()});
      choose_variant();
    }
}

void PreparedLaunch::run_variant() {
  opencl::Scratch workspace;
  if (workspace_bytes_ > 0) workspace = target_.device.memory().scratch(workspace_bytes_, workspace_name_);
  operands_.back() = workspace.region;
  check_apart();
  if (cost_)
    target_.device.charge(op_.name, cost_->flops, cost_->bytes, [this] { enqueue(); });
  else
    enqueue();
}

/// What is written is exactly another operand's memory, or apart from it. Regions that overlap otherwise are two buffers, and what is read through one
/// while it is written through the other is undefined (OpenCL 1.2, 5.2.1).
void PreparedLaunch::check_apart() const {
  for (const std::size_t w : written_)
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const opencl::Region &a = operands_[w], &b = operands_[i];
      if (a.block != b.block || !a.block || a.bytes == 0 || b.bytes == 0 || a.offset >= b.offset + b.bytes || b.offset >= a.offset + a.bytes ||
          (a.offset == b.offset && a.bytes == b.bytes))
        continue;
      throw InternalError(fmt::format("{}: operand {} at {}, of {} bytes, is written and overlaps operand {} at {}, of {} bytes", op_.name, w, a.offset,
                                      a.bytes, i, b.offset, b.bytes));
    }
}

/// In place, or because an output has an input's memory.
bool PreparedLaunch::overwrites_an_input() const {
  const auto is_input = [&](std::size_t written) {
    return std::ranges::any_of(std::span(operands_).first(inputs_.size()), [&](const opencl::Region& in) {
      return in.block && in.block == operands_[written].block && in.offset == operands_[written].offset;
    });
  };
  return std::ranges::any_of(written_, is_input);
}

void PreparedLaunch::launch_on(opencl::Device& device, std::span<const opencl::Region> operands) const {
  const Problem problem = this->problem();
  Launch call({device, target_.error_word}, problem, operands.first(inputs_.size()), operands.subspan(inputs_.size(), outputs_.size()), operands.back());
  variant_->launch(call);
}

/// The one that fits the operands; null where the launch cannot be recorded.
const opencl::Recording* PreparedLaunch::recording() {
  for (const auto& made : recordings_)
    if (made->fits(operands_)) return made.get();
  if (!recordable_) return nullptr;
  const auto record = [this](opencl::Device& stand_in, std::span<const opencl::Region> operands) { launch_on(stand_in, operands); };
  auto made = opencl::Recording::make(target_.device, operands_, record);
  recordable_ = made != nullptr;
  return made ? recordings_.emplace_back(std::move(made)).get() : nullptr;
}

void PreparedLaunch::enqueue() {
  if (const opencl::Recording* recorded = recording())
    target_.device.replay(*recorded, operands_);
  else
    launch_on(target_.device, operands_);
}

PreparedLaunch* LaunchCache::find(const OpDef& op, const Attributes& attributes, std::span<const Value> in) const {
  const auto [first, last] = launches_.equal_range(hash_of(op, attributes, in));
  const auto it = std::find_if(first, last, [&](const auto& kept) { return kept.second->computes(op, attributes, in); });
  return it == last ? nullptr : it->second.get();
}

std::shared_ptr<PreparedLaunch> LaunchCache::make(const OpDef& op, const Attributes& attributes, const Specs& in, const Specs& out) {
  const std::size_t hash = hash_of(op, attributes, in);
  const auto [first, last] = launches_.equal_range(hash);
  const auto it = std::find_if(first, last, [&](const auto& kept) { return kept.second->computes(op, attributes, in); });
  if (it != last) return it->second;
  auto made = std::make_shared<PreparedLaunch>(target_, op, attributes, in, out);
  if (!in_catalog(op)) return made;
  if (launches_.size() >= kLaunchesKept) launches_.clear();
  return launches_.emplace(hash, std::move(made))->second;
}

}  // namespace gemel
