#include "engine/ops/normalisation/channel_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/base/numbers.h"

namespace gemel::inline ops {
namespace {

constexpr std::int64_t kSpanElements = 16384;                      // fewer are not worth a work-item of their own on a CPU
constexpr std::int64_t kLoopsOfSpan = 4;                           // over its elements, of which an emulator runs few
constexpr std::int64_t kBlockElements = 16384;                     // 64 KiB, in a core's second cache
constexpr std::int64_t kRunElements = 8192;                        // of an elementwise pass, for each work-item on a CPU
constexpr std::int64_t kWidth = 32, kLanes = kTileItems / kWidth;  // WIDTH and LANES in the kernels
constexpr std::int64_t kMostSpans = 128;                           // that a group combines by the way
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
  if (mapping == Mapping::tile) {
    const std::int64_t blocks = std::max<std::int64_t>(1, ceil_div(channels, kWidth));
    wanted = std::min({wanted, ceil_div(8 * units, blocks), std::max(kMostSpans, ceil_div(2 * units, blocks))});
  }
  if (mapping == Mapping::rows)
    wanted = std::max(std::min(rows * channels / kSpanElements, 4 * units), ceil_div(rows * channels, profile.longest_loop / kLoopsOfSpan));
  wanted = std::max<std::int64_t>(1, std::min(wanted, rows));
  const std::int64_t span_rows = std::max<std::int64_t>(1, ceil_div(rows, wanted));
  const std::int64_t block_rows = std::clamp<std::int64_t>(kBlockElements / std::max<std::int64_t>(1, channels), 8, 64);
  return {rows, channels, ceil_div(rows, span_rows), span_rows, block_rows};
}

SpanMemory::SpanMemory(const Spans& s, const opencl::DeviceProfile& profile, Mapping mapping, int lines)
    : sections_({8 * s.spans * s.channels, 4 * lines * s.channels, mapping == Mapping::rows ? 8 * s.spans * s.channels : 0}, profile) {}

std::string path_of(std::string_view file, Mapping mapping) { return fmt::format("{}/{}", mapping == Mapping::tile ? "gpu" : "cpu", file); }

namespace {

opencl::Kernel& kernel_of(const Launch& l, const ColumnKernel& k, std::string_view epilogue = {}) {
  return l.device().kernel(path_of(k.file, k.mapping), fmt::format("{}_{}", k.name, k.mapping == Mapping::tile ? "tile" : "rows"), k.options, epilogue);
}

}  // namespace

void run_spans(Launch& l, const ColumnKernel& kernel, const Spans& s, const SpanMemory& memory, Arguments arguments) {
  const bool tile = kernel.mapping == Mapping::tile;
  arguments.add(memory.parts(l.workspace()));
  if (!tile) arguments.add(memory.scratch(l.workspace()));
  arguments.add(s.rows, s.channels, s.spans, s.span_rows);
  if (!tile) arguments.add(s.block_rows);
  l.device().run(kernel_of(l, kernel), tile ? tile_range(s.channels, s.spans) : opencl::range1(s.channels ? s.spans : 0, 1), arguments);
}

void run_totals(const Launch& l, const ColumnKernel& kernel, std::int64_t channels, const Arguments& arguments) {
  l.device().run(kernel_of(l, kernel), kernel.mapping == Mapping::tile ? tile_range(channels, 1) : channel_range(channels), arguments);
}

void run_over_rows(Launch& l, const ColumnKernel& kernel, const Columns& columns, Arguments arguments) {
  const auto [rows, channels] = columns;
  const bool tile = kernel.mapping == Mapping::tile;
  const std::int64_t blocks = std::max<std::int64_t>(1, ceil_div(channels, kWidth));
  const std::int64_t run_rows = tile ? std::max({kTileRows, ceil_div(rows * blocks, 4 * l.profile().compute_units), ceil_div(rows, opencl::kMostGroups)})
                                     : ceil_div(kRunElements, std::max<std::int64_t>(1, channels));
  arguments.add(rows, channels, run_rows);
  if (!tile) arguments.add(l.leaves_the_caches());
  arguments.add(l.epilogue_arguments());
  l.device().run(kernel_of(l, kernel, l.epilogue_text()),
                 tile ? tile_range(std::max<std::int64_t>(1, channels), std::max<std::int64_t>(1, ceil_div(rows, run_rows)))
                      : opencl::range1(channels ? ceil_div(rows, run_rows) : 0, 1),
                 arguments);
}

opencl::Range channel_range(std::int64_t channels) { return opencl::range1(round_up(channels, 64), 64); }

}  // namespace gemel::inline ops
