#include "opencl/device/pretended_gpu.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

#include "engine/base/error.h"
#include "opencl/device/known_gpus.h"

namespace gemel::opencl {
namespace {

/// A number that a pretence may give.
struct Fact {
  std::int64_t least, most;
  void (*set)(DeviceProfile&, std::int64_t);
};

void set_local(DeviceProfile& p, std::int64_t bytes) {
  p.local_bytes = bytes;
  p.has_real_local_memory = bytes > 0;
}

const std::map<std::string_view, Fact>& facts() {
  static const std::map<std::string_view, Fact> known{
      {"units", {1, 1 << 16, [](DeviceProfile& p, std::int64_t n) { p.compute_units = static_cast<int>(n); }}},
      {"wave", {1, 1 << 7, [](DeviceProfile& p, std::int64_t n) { p.sub_group_width = static_cast<int>(n); }}},
      {"local", {0, 1 << 24, set_local}},
      {"group", {1, 1 << 12, [](DeviceProfile& p, std::int64_t n) { p.max_group_size = std::min(p.max_group_size, n); }}},  // the driver refuses larger ones
      {"tf32", {0, 1, [](DeviceProfile& p, std::int64_t n) { p.matrix_units = n ? MatrixUnits::mma_model : MatrixUnits::none; }}},
      {"cache", {0, std::int64_t{1} << 32, [](DeviceProfile& p, std::int64_t n) { p.cache_bytes = n; }}},
      {"gflops", {1, 1'000'000'000, [](DeviceProfile& p, std::int64_t n) { p.stated_gflops = static_cast<double>(n); }}},
      {"gbs", {1, 1'000'000, [](DeviceProfile& p, std::int64_t n) { p.stated_gbs = static_cast<double>(n); }}}};
  return known;
}

[[noreturn]] void refuse(std::string_view what, std::string_view given_by) {
  std::vector<std::string> numbers, names;
  for (const auto& [name, fact] : facts()) numbers.push_back(fmt::format("{}=N with N from {} to {}", name, fact.least, fact.most));
  for (const KnownGpu& gpu : known_gpus()) names.emplace_back(gpu.name);
  throw UsageError(fmt::format("{}: '{}' is given; accepted: gpu, and behind a colon, with commas between them: {}; name=GPU with GPU one of {}", given_by,
                               what, fmt::join(numbers, ", "), fmt::join(names, ", ")));
}

/// Of one item behind the colon. @return whether it is one
bool apply(DeviceProfile& p, std::string_view item) {
  const std::size_t equals = item.find('=');
  if (equals == item.npos) return false;
  const std::string_view word = item.substr(0, equals), value = item.substr(equals + 1);
  if (word == "name") {
    const auto gpu = std::ranges::find(known_gpus(), value, &KnownGpu::name);
    if (gpu == known_gpus().end()) return false;
    p.pretended = gpu->name;
    p.compute_units = gpu->units;
    p.sub_group_width = gpu->wave;
    p.max_group_size = std::min(p.max_group_size, gpu->group);
    p.cache_bytes = gpu->cache_bytes;
    p.stated_gflops = gpu->gflops;
    p.stated_gbs = gpu->gbs;
    if (gpu->has_tf32) p.matrix_units = MatrixUnits::mma_model;
    if (gpu->takes_offsets) p.overlaps_sub_buffers = false;
    set_local(p, gpu->local_bytes);
    return true;
  }
  const auto fact = facts().find(word);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (fact == facts().end() || error != std::errc() || end != value.data() + value.size() || number < fact->second.least || number > fact->second.most)
    return false;
  fact->second.set(p, number);
  return true;
}

}  // namespace

void pretend(DeviceProfile& profile, std::string_view what, std::string_view given_by) {
  if (what.empty()) return;
  constexpr std::string_view kGpu = "gpu";
  if (!what.starts_with(kGpu)) refuse(what, given_by);
  DeviceProfile p = profile;
  p.pretended = "a GPU";
  p.kind = DeviceKind::gpu;
  p.simd_width = 1;
  p.stages_transfers = true;
  p.cache_bytes = p.unit_cache_bytes = 0;
  p.matrix_units = MatrixUnits::none;
  set_local(p, std::max<std::int64_t>(p.local_bytes, 1));
  char before = ':';
  for (std::string_view rest = what.substr(kGpu.size()); !rest.empty(); before = ',') {
    if (rest.front() != before) refuse(what, given_by);
    const std::string_view item = rest.substr(1, rest.find(',', 1) - 1);
    rest.remove_prefix(1 + item.size());
    if (!apply(p, item)) refuse(what, given_by);
  }
  if (p.stated_gflops > 0 && p.stated_gbs > 0) p.flops_a_byte = p.stated_gflops / p.stated_gbs;
  profile = std::move(p);
}

}  // namespace gemel::opencl
