#include "opencl/pretence.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/base/error.h"

namespace gemel::opencl {
namespace {

constexpr std::string_view kGpu = "gpu", kUnits = ":units=";
constexpr int kMostUnits = 1 << 16;

/// @return 0 where the text is no number of units
int units_of(std::string_view text) {
  int units = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), units);
  return error == std::errc() && end == text.data() + text.size() && units >= 1 && units <= kMostUnits ? units : 0;
}

}  // namespace

void pretend(DeviceProfile& p, std::string_view what) {
  if (what.empty()) return;
  const std::string_view rest = what.substr(std::min(kGpu.size(), what.size()));
  const int units = rest.empty() ? p.compute_units : rest.starts_with(kUnits) ? units_of(rest.substr(kUnits.size())) : 0;
  if (!what.starts_with(kGpu) || units == 0)
    throw UsageError(fmt::format("GEMEL_PRETEND: '{}' is given; accepted: gpu, gpu:units=N with N from 1 to {}", what, kMostUnits));
  p.kind = DeviceKind::gpu;
  p.compute_units = units;
  p.simd_width = 1;
  p.has_real_local_memory = true;
  p.unit_cache_bytes = 0;
}

}  // namespace gemel::opencl
