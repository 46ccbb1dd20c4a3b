#include "engine/ops/normalisation/channel_reduction.h"

#include <algorithm>
#include <numeric>

#include "engine/base/numbers.h"

namespace gemel {
namespace {

constexpr std::int64_t kSpanElements = 16384;  // fewer are not worth a work-item of their own on a CPU
// An emulator may silently cut a work-item's loops off after 65 535 iterations in all: its spans stay short.
constexpr std::int64_t kEmulatedSpanElements = 4096;
constexpr std::int64_t kBlockElements = 16384;                     // 64 KiB, in a core's second cache
constexpr std::int64_t kRunElements = 8192;                        // of an elementwise pass, for each work-item on a CPU
constexpr std::int64_t kWidth = 32, kLanes = kTileItems / kWidth;  // WIDTH and LANES in the kernels
constexpr std::int64_t kTileRows = 64;                             // fewer rows are not worth a group of their own

/// Groups of WIDTH channels along x, `groups` along y.
opencl::Range tile_range(std::int64_t channels, std::int64_t groups) {
  return opencl::range2({round_up(channels, kWidth), channels ? groups * kLanes : 0}, {kWidth, kLanes});
}

}  // namespace

Columns columns_of(const Shape& x) { return {x.product(0, x.rank() - 1), x.back()}; }

std::vector<std::int64_t> leading_axes(const Shape& x) {
  std::vector<std::int64_t> axes(at(x.rank() - 1));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Spans spans_of(const Columns& columns, const opencl::DeviceProfile& profile, Mapping mapping) {
  const auto [rows, channels] = columns;
  const std::int64_t units = profile.compute_units;
  std::int64_t wanted = ceil_div(rows, kTileRows);
  if (mapping == Mapping::tile) wanted = std::min(wanted, ceil_div(8 * units, std::max<std::int64_t>(1, ceil_div(channels, kWidth))));
  if (mapping == Mapping::rows && !profile.is_emulator) wanted = std::min(rows * channels / kSpanElements, 4 * units);
  if (mapping == Mapping::rows && profile.is_emulator) wanted = ceil_div(rows * channels, kEmulatedSpanElements);
  wanted = std::max<std::int64_t>(1, std::min(wanted, rows));
  const std::int64_t span_rows = std::max<std::int64_t>(1, ceil_div(rows, wanted));
  const std::int64_t block_rows = std::clamp<std::int64_t>(kBlockElements / std::max<std::int64_t>(1, channels), 8, 64);
  return {rows, channels, ceil_div(rows, span_rows), span_rows, block_rows};
}

SpanMemory::SpanMemory(const Spans& s, const opencl::DeviceProfile& profile, Mapping mapping, int lines)
    : sections_({8 * s.spans * s.channels, 4 * lines * s.channels, mapping == Mapping::rows ? 8 * s.spans * s.channels : 0}, profile) {}

void run_spans(Launch& l, const ColumnKernel& kernel, const Spans& s, const SpanMemory& memory, std::vector<opencl::Argument> arguments) {
  const bool tile = kernel.mapping == Mapping::tile;
  arguments.emplace_back(memory.parts(l.workspace()));
  if (!tile) arguments.emplace_back(memory.scratch(l.workspace()));
  for (std::int64_t v : {s.rows, s.channels, s.spans, s.span_rows}) arguments.emplace_back(v);
  if (!tile) arguments.emplace_back(s.block_rows);
  l.device().run(l.device().kernel(kernel.file, kernel.name + (tile ? "_tile" : "_rows"), kernel.options),
                 tile ? tile_range(s.channels, s.spans) : opencl::range1(s.channels ? s.spans : 0, 1), arguments);
}

void run_over_rows(Launch& l, const ColumnKernel& kernel, const Columns& columns, std::vector<opencl::Argument> arguments) {
  const auto [rows, channels] = columns;
  const bool tile = kernel.mapping == Mapping::tile;
  const std::int64_t run_rows = tile ? std::max(kTileRows, ceil_div(rows, opencl::kMostGroups)) : ceil_div(kRunElements, std::max<std::int64_t>(1, channels));
  for (std::int64_t v : {rows, channels, run_rows}) arguments.emplace_back(v);
  if (!tile) arguments.emplace_back(std::int32_t{l.leaves_the_caches()});
  for (opencl::Argument& argument : l.epilogue_arguments()) arguments.push_back(std::move(argument));
  l.device().run(l.device().kernel(kernel.file, kernel.name + (tile ? "_tile" : "_rows"), kernel.options, l.epilogue_text()),
                 tile ? tile_range(channels, ceil_div(rows, run_rows)) : opencl::range1(channels ? ceil_div(rows, run_rows) : 0, 1), arguments);
}

opencl::Range channel_range(std::int64_t channels) { return opencl::range1(round_up(channels, 64), 64); }

}  // namespace gemel
