// Kernels of layer normalisation. Formulas: opencl/kernels/lib/ops/layer_norm.clh; rows that are read once: opencl/kernels/gpu/layer_norm_rows.cl.
#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/common.h"
#include "engine/ops/normalisation/layer_norm.h"

namespace gemel::inline ops {
namespace {

using opencl::DeviceProfile;

constexpr const char* kFile = "layer_norm.cl";
constexpr const char* kRowsFile = "gpu/layer_norm_rows.cl";
constexpr std::int64_t kChunkElements = 4096;  // of the forward pass, for each work-item on a CPU
constexpr std::int64_t kGroup = 64;            // GROUP in layer_norm.cl for GPUs

void launch_rows(Launch& l) {
  const auto [rows, width] = rows_of(l.in_shape(0), l.in_shape(1));
  const std::int64_t chunk = ceil_div(kChunkElements, width);
  l.run("cpu/layer_norm.cl", "layer_norm_rows", opencl::range1(ceil_div(rows, chunk), 1),
        {l.in(0), l.in(1), l.in(2), l.out(0), l.out(1), l.out(2), rows, width, static_cast<float>(l.attributes().real("eps")), chunk},
        type_options(l.in_spec(0).dtype));
}
void launch_group(Launch& l) {
  const auto [rows, width] = rows_of(l.in_shape(0), l.in_shape(1));
  l.run("gpu/layer_norm.cl", "layer_norm_group", opencl::range1(rows * kGroup, kGroup),
        {l.in(0), l.in(1), l.in(2), l.out(0), l.out(1), l.out(2), width, static_cast<float>(l.attributes().real("eps"))}, type_options(l.in_spec(0).dtype));
}

SpanMemory memory_of(const Spans& s, const opencl::DeviceProfile& profile, Mapping mapping) { return SpanMemory(s, profile, mapping, 1); }
template <Mapping mapping>
std::int64_t backward_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  return memory_of(spans_of(rows_of(p.inputs[1].shape, p.inputs[2].shape), profile, mapping), profile, mapping).bytes();
}
template <Mapping mapping>
void launch_backward(Launch& l) {
  const Columns size = rows_of(l.in_shape(1), l.in_shape(2));
  const Spans s = spans_of(size, l.profile(), mapping);
  const SpanMemory memory = memory_of(s, l.profile(), mapping);
  const std::string options = type_options(l.in_spec(1).dtype);
  if (mapping == Mapping::tile) {
    l.run("gpu/layer_norm.cl", "layer_norm_slope_group", opencl::range1(size.rows * kGroup, kGroup),
          {l.in(0), l.in(1), l.in(2), l.in(3), l.in(4), l.out(0), size.channels}, options);
    run_spans(l, {kFile, "layer_norm_sums", mapping, options}, s, memory, {l.in(0), l.in(1), l.in(3), l.in(4)});
  } else {
    run_spans(l, {kFile, "layer_norm_backward", mapping, options}, s, memory, {l.in(0), l.in(1), l.in(2), l.in(3), l.in(4), l.out(0)});
  }
  run_totals(l, {kFile, "layer_norm_totals", mapping, options}, s.channels,
             {s.spans ? memory.parts(l.workspace()) : l.workspace(), l.out(1), l.out(2), s.channels, s.spans});
}

// ---- rows in the registers of a group

constexpr std::int64_t kRowGroup = 256;  // GROUP in layer_norm_rows.cl
constexpr std::int64_t kFew = 3, kMostChunks = 4;
constexpr std::int64_t kLongestRow = kMostChunks * 4 * kRowGroup;

/// How a group holds rows: so many work-items have one, four elements each time.
struct RowShare {
  std::int64_t items, chunks;
  std::int64_t rows() const { return kRowGroup / items; }
};
RowShare share_of(std::int64_t width) {
  std::int64_t items = 16;
  while (items < kRowGroup && ceil_div(width, 4 * items) > kFew) items *= 2;
  return {items, ceil_div(width, 4 * items)};
}

template <int x, int gamma>
Columns rows_of(const Problem& p) {
  return rows_of(p.inputs[x].shape, p.inputs[gamma].shape);
}

template <int x, int gamma>
const char* unless_in_registers(const Problem& p, const DeviceProfile&) {
  return rows_of<x, gamma>(p).channels > kLongestRow ? "its rows are too long for a group's registers" : nullptr;
}

int rank_of_registers(const Problem&, const DeviceProfile& d) { return d.runs_items_in_lanes() ? 1 : 0; }

/// Regions that hold rows begin at multiples of four elements, and so do rows.
std::string options_of(const Launch& l, std::int64_t width, DType dtype, std::initializer_list<opencl::Region> rows) {
  const RowShare share = share_of(width);
  const bool vectors =
      width % 4 == 0 && std::ranges::all_of(rows, [&](const opencl::Region& r) { return r.offset % (4 * static_cast<std::int64_t>(size_of(dtype))) == 0; });
  return fmt::format("{} -DITEMS={} -DCHUNKS={} -DVECTOR={}{}", type_options(dtype), share.items, share.chunks, vectors ? 4 : 1, sub_group_option(l.profile()));
}

void launch_registers(Launch& l) {
  const auto [rows, width] = rows_of<0, 1>(l.problem());
  l.run(kRowsFile, "layer_norm_row", opencl::range1(ceil_div(rows, share_of(width).rows()) * kRowGroup, kRowGroup),
        {l.in(0), l.in(1), l.in(2), l.out(0), l.out(1), l.out(2), rows, narrow<std::int32_t>(width), static_cast<float>(l.attributes().real("eps"))},
        options_of(l, width, l.in_spec(0).dtype, {l.in(0), l.in(1), l.in(2), l.out(0)}));
}

/// A group for each span of rows: two a unit hide each other's waits, and the sums of more would be more to add up.
Spans spans_of_groups(const Columns& size, const DeviceProfile& d) {
  const std::int64_t span_rows = round_up(std::max<std::int64_t>(ceil_div(size.rows, 2 * d.compute_units), 1), share_of(size.channels).rows());
  return {size.rows, size.channels, ceil_div(size.rows, span_rows), span_rows, 0};
}

std::int64_t backward_loop(const Problem& p, const DeviceProfile& d) {
  const Columns size = rows_of<1, 2>(p);
  const RowShare share = share_of(size.channels);
  return ceil_div(spans_of_groups(size, d).span_rows, share.rows()) * (2 * share.chunks + 32);
}

std::int64_t backward_registers_bytes(const Problem& p, const DeviceProfile& d) {
  const Spans s = spans_of_groups(rows_of<1, 2>(p), d);
  return 8 * s.spans * s.channels;
}

void launch_backward_registers(Launch& l) {
  const Spans s = spans_of_groups(rows_of<1, 2>(l.problem()), l.profile());
  const DType dtype = l.in_spec(1).dtype;
  l.run(kRowsFile, "layer_norm_backward_row", opencl::range1(s.spans * kRowGroup, kRowGroup),
        {l.in(0), l.in(1), l.in(2), l.in(3), l.in(4), l.out(0), l.workspace(), s.rows, narrow<std::int32_t>(s.channels), narrow<std::int32_t>(s.span_rows)},
        options_of(l, s.channels, dtype, {l.in(0), l.in(1), l.in(2), l.out(0)}));
  run_totals(l, {kFile, "layer_norm_totals", Mapping::tile, type_options(dtype)}, s.channels, {l.workspace(), l.out(1), l.out(2), s.channels, s.spans});
}

}  // namespace

std::vector<Variant> layer_norm_variants() {
  return {{.name = "row_in_registers",
           .doc = "rows of a work-group in its registers, which are read once",
           .target = Target::gpu,
           .needs = {.group_size = kRowGroup},
           .declines = unless_in_registers<0, 1>,
           .rank = rank_of_registers,
           .launch = launch_registers},
          {.name = "group_a_row",
           .doc = "a work-group a row, through local memory",
           .target = Target::gpu,
           .needs = {.group_size = kGroup},
           .launch = launch_group},
          {.name = "rows", .doc = "a run of rows for each work-item, eight lanes wide", .target = Target::cpu, .launch = launch_rows}};
}

std::vector<Variant> layer_norm_backward_variants() {
  return {{.name = "row_in_registers",
           .doc = "a span of rows for each work-group, in its registers, which are read once for all gradients",
           .target = Target::gpu,
           .needs = {.group_size = kRowGroup},
           .declines = unless_in_registers<1, 2>,
           .longest_loop = backward_loop,
           .rank = rank_of_registers,
           .workspace_bytes = backward_registers_bytes,
           .launch = launch_backward_registers},
          {.name = "group_a_row",
           .doc = "a work-group a row, and tiles for the sums over rows",
           .target = Target::gpu,
           .needs = {.group_size = kTileItems},
           .workspace_bytes = backward_bytes<Mapping::tile>,
           .launch = launch_backward<Mapping::tile>},
          {.name = "rows",
           .doc = "a span of rows for each work-item, eight lanes wide",
           .target = Target::cpu,
           .workspace_bytes = backward_bytes<Mapping::rows>,
           .launch = launch_backward<Mapping::rows>}};
}

}  // namespace gemel::inline ops
