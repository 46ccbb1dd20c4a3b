// Reductions over the rows of x [rows, C] for each channel: how kernels share them, on CPUs and on GPUs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/device/launch.h"
#include "engine/ops/workspace_sections.h"

namespace gemel {

/// x [..., C] as [rows, C].
struct Columns {
  std::int64_t rows, channels;
};
Columns columns_of(const Shape& x);
/// All axes but that of the channels.
std::vector<std::int64_t> leading_axes(const Shape& x);

enum class Mapping {
  rows,  // CPU: a span of rows for each work-item, loops along the channels
  tile   // GPU: a group of 32 channels x 8 rows
};
inline constexpr std::int64_t kTileItems = 32 * 8;  // of a work-group

/// Rows are cut into spans, which are reduced side by side and then combined in order.
struct Spans {
  std::int64_t rows, channels, spans, span_rows;
  std::int64_t block_rows;  // that a CPU work-item reduces before it adds up: few enough to stay in its cache
};
Spans spans_of(const Columns& columns, const opencl::DeviceProfile& profile, Mapping mapping);

/// Workspace in three sections: two numbers for each span and channel; `lines` numbers for each channel; and by rows
/// again two for each span and channel, the current block's.
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

/// Kernels NAME_rows and NAME_tile of a file.
struct ColumnKernel {
  const char* file;
  std::string name;
  Mapping mapping;
  std::string options = {};
};
/// Enqueues a reduction; `first` are its leading arguments.
void run_spans(Launch& l, const ColumnKernel& kernel, const Spans& spans, const SpanMemory& memory, std::vector<opencl::Argument> first);
/// Enqueues an elementwise pass over runs of rows, with what a fused record appends.
void run_over_rows(Launch& l, const ColumnKernel& kernel, const Columns& columns, std::vector<opencl::Argument> first);
/// One work-item a channel.
opencl::Range channel_range(std::int64_t channels);

}  // namespace gemel
