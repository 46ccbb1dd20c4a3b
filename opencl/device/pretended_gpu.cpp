#include "opencl/device/pretended_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "engine/base/error.h"

namespace gemel::opencl {
namespace {

constexpr int kMostUnits = 1 << 16, kMostLocalBytes = 1 << 24, kMostGroup = 1 << 12, kMostWidth = 1 << 7;

/// The number behind a word; nothing where the text is another word, or no number in the range.
std::optional<int> number_behind(std::string_view word, std::string_view text, int least, int most) {
  int number = 0;
  if (!text.starts_with(word)) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + word.size(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most) return std::nullopt;
  return number;
}

}  // namespace

void pretend(DeviceProfile& p, std::string_view what) {
  if (what.empty()) return;
  const auto refuse = [what] {
    throw UsageError(
        fmt::format("GEMEL_PRETEND: '{}' is given; accepted: gpu, and behind a colon, with commas between them: units=N with N from 1 to {}, local=N with N "
                    "from 0 to {} bytes, "
                    "group=N with N from 1 to {}, width=N with N from 1 to {}",
                    what, kMostUnits, kMostLocalBytes, kMostGroup, kMostWidth));
  };
  constexpr std::string_view kGpu = "gpu";
  if (!what.starts_with(kGpu)) refuse();
  int units = p.compute_units, width = p.sub_group_width;
  std::int64_t group = p.max_group_size, local_bytes = std::max<std::int64_t>(p.local_bytes, 1);
  char before = ':';
  for (std::string_view rest = what.substr(kGpu.size()); !rest.empty(); before = ',') {
    if (rest.front() != before) refuse();
    const std::string_view item = rest.substr(1, rest.find(',', 1) - 1);
    rest.remove_prefix(1 + item.size());
    if (const auto given = number_behind("units=", item, 1, kMostUnits))
      units = *given;
    else if (const auto bytes = number_behind("local=", item, 0, kMostLocalBytes))
      local_bytes = *bytes;
    else if (const auto items = number_behind("group=", item, 1, kMostGroup))
      group = std::min<std::int64_t>(group, *items);
    else if (const auto lanes = number_behind("width=", item, 1, kMostWidth))
      width = *lanes;
    else
      refuse();
  }
  p.kind = DeviceKind::gpu;
  p.compute_units = units;
  p.simd_width = 1;
  p.sub_group_width = width;
  p.local_bytes = local_bytes;
  p.has_real_local_memory = local_bytes > 0;
  p.max_group_size = group;
  p.unit_cache_bytes = 0;
}

}  // namespace gemel::opencl
