// Reductions over the rows of x [rows, C] for each channel: how kernels divide the work, on CPUs and on GPUs.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/device/launch.h"
#include "engine/ops/workspace_sections.h"

namespace gemel::inline ops {

/// Extents of x [..., C] as [rows, C].
struct Columns {
  std::int64_t rows, channels;
};
Columns columns_of(const Shape& x);
/// All axes but that of the channels.
std::vector<std::int64_t> leading_axes(const Shape& x);

enum class Mapping {
  rows,  // CPU: a span of rows a work-item, loops along the channels
  tile   // GPU: a work-group of 32 channels x 8 rows
};
inline constexpr std::int64_t kTileItems = 32 * 8;  // of a work-group

/// Rows divided into spans, which are reduced in parallel and then combined in order.
struct Spans {
  std::int64_t rows, channels, spans, span_rows;
  std::int64_t block_rows;  // rows that a CPU work-item reduces before it adds up, few enough for its cache
};
Spans spans_of(const Columns& columns, const opencl::DeviceProfile& profile, Mapping mapping);

/// Workspace of a reduction in three sections: the parts, two numbers for each span and channel; `lines` numbers for each channel; and for Mapping::rows two
/// more for each span and channel, for the current block.
class SpanMemory {
 public:
  SpanMemory(const Spans& spans, const opencl::DeviceProfile& profile, Mapping mapping, int lines);
  std::int64_t bytes() const { return sections_.bytes(); }
  opencl::Region parts(const opencl::Region& workspace) const { return sections_.in(workspace, 0); }
  opencl::Region lines(const opencl::Region& workspace) const { return sections_.in(workspace, 1); }
  opencl::Region scratch(const opencl::Region& workspace) const { return sections_.in(workspace, 2); }

 private:
  Sections<3> sections_;
};

/// Where a file lies that has kernels for CPUs, and one of its name that has them for GPUs.
std::string path_of(std::string_view file, Mapping mapping);
/// A kernel NAME_rows or NAME_tile, of a file for CPUs or of one for GPUs.
struct ColumnKernel {
  std::string_view file;
  std::string_view name;
  Mapping mapping;
  std::string options = {};
};
/// Enqueues a reduction.
/// @param first  leading arguments of the kernel
void run_spans(Launch& l, const ColumnKernel& kernel, const Spans& spans, const SpanMemory& memory, Arguments first);
/// Enqueues a kernel that combines the spans of each channel.
void run_totals(const Launch& l, const ColumnKernel& kernel, std::int64_t channels, const Arguments& arguments);
/// Enqueues an elementwise pass over runs of rows, with the epilogue of a fused record. On a GPU also where there are no channels or rows.
void run_over_rows(Launch& l, const ColumnKernel& kernel, const Columns& columns, Arguments first);
/// Range of one work-item a channel.
opencl::Range channel_range(std::int64_t channels);

}  // namespace gemel::inline ops
