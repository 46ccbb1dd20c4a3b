// Attention by a block of queries (or keys) for each work-group, through local memory, for GPUs. opencl/kernels/gpu/attention/blocks.clh explains the
// blocks. Legend: engine/ops/attention/attention.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "engine/ops/attention/attention_launch.h"

namespace gemel::inline ops {
namespace {

using opencl::DeviceProfile;

constexpr const char* kForwardFile = "gpu/attention/tiles.cl";
constexpr const char* kBackwardFile = "gpu/attention/tiles_backward.cl";
constexpr std::int64_t kColumns = 64, kDepth = 16, kPad = 4, kRowsOfItem = 4;   // as in blocks.clh
constexpr std::int64_t kWidest = 128;                                           // of sums in an item's registers
constexpr std::int64_t kLeastLocalBytes = 32 << 10;                             // that OpenCL promises
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - 256;  // and the rest of a block

/// Rows of a block, and its work-items.
struct Block {
  std::int64_t rows;
  double rate;  // of the arithmetic, over the largest block's: the fewer rows, the more of its time a group reads (estimated)
  std::int64_t group() const { return rows * 16 / kRowsOfItem; }
};
constexpr std::array kBlocks{Block{64, 1}, Block{32, 0.9}, Block{16, 0.75}};
constexpr Block kShortBlock{4, 1};  // where work-items must be short

/// Elements of a vector of sums, with those that no item needs: as in sums.clh.
std::int64_t padded(std::int64_t width) {
  const std::int64_t quarters = ceil_div(width, 4);
  const std::int64_t along = quarters <= 4 ? 4 : quarters % 16 == 0 || (quarters > 8 && quarters % 16 > 8) ? 16 : 8;
  return 4 * round_up(quarters, along);
}

/// At most, of any of the kernels.
std::int64_t local_bytes(const Block& b, std::int64_t widest) {
  const std::int64_t halves = 2 * kDepth * (b.rows + kPad + std::max(kColumns + kPad, padded(widest)));
  return 4 * (halves + 5 * b.rows + 4 * kColumns + b.group() + 8);
}

std::int64_t room(const DeviceProfile& d) { return std::max(d.local_bytes, kLeastLocalBytes); }

bool fits(const Block& b, std::int64_t widest, const DeviceProfile& d) { return b.group() <= d.max_group_size && local_bytes(b, widest) <= room(d); }

/// The block that takes the least time for `rows` of each of so many heads. Two groups share a unit, where that is possible.
Block block_of(std::int64_t rows, std::int64_t heads, std::int64_t widest, const DeviceProfile& d) {
  if (d.longest_loop != opencl::kAnyLoop) return kShortBlock;
  Block best = kBlocks.back();
  double least = std::numeric_limits<double>::infinity();
  for (const Block& b : kBlocks) {
    if (!fits(b, widest, d) || 2 * local_bytes(b, widest) > room(d)) continue;
    const double time = static_cast<double>(ceil_div(ceil_div(rows, b.rows) * heads, d.compute_units) * b.rows) / b.rate;
    if (time < least) best = b;
    // Of the smaller blocks of wide heads, where a driver may choose sub-groups, 8 KB of sums go to memory (ocloc 22.43 for pvc).
    constexpr std::int64_t kWide = 64;
    if (d.least_sub_group_width && widest > kWide) break;
    least = std::min(least, time);
  }
  return best;
}

const char* declines_sizes(const AttentionSizes& s, std::int64_t widest, const DeviceProfile& d) {
  if (widest > kWidest) return "heads are too wide for a work-item's registers";
  if (!fits(d.longest_loop == opencl::kAnyLoop ? kBlocks.back() : kShortBlock, widest, d)) return "heads are too wide for the device's local memory";
  const std::int64_t longest = std::max(s.queries, s.keys), most = kMost / std::max<std::int64_t>(longest, 1);
  const bool is_long = s.heads * std::max(s.head, s.value) > most || longest > most;
  return is_long || s.samples > kMost ? "a sample has about 2^31 elements or more" : nullptr;
}

const char* declines_forward(const Problem& p, const DeviceProfile& d) {
  const AttentionSizes s = attention_sizes(p, kForwardInputs);
  return declines_sizes(s, s.value, d);
}
const char* declines_backward(const Problem& p, const DeviceProfile& d) {
  const AttentionSizes s = attention_sizes(p, kBackwardInputs);
  return declines_sizes(s, std::max(s.head, s.value), d);
}

std::int64_t forward_loop(const Problem& p, const DeviceProfile&) {
  const AttentionSizes s = attention_sizes(p, kForwardInputs);
  return ceil_div(s.keys, kColumns) * (round_up(s.head, kDepth) + kColumns + kDepth);
}
std::int64_t backward_loop(const Problem& p, const DeviceProfile&) {
  const AttentionSizes s = attention_sizes(p, kBackwardInputs);
  return ceil_div(std::max(s.queries, s.keys), kColumns) * (round_up(s.head, kDepth) + round_up(s.value, kDepth) + 2 * kColumns + kDepth);
}

int rank(const Problem&, const DeviceProfile& d) { return d.runs_items_in_lanes() ? 1 : 0; }

/// Whether all heads of all tensors begin at multiples of four elements.
bool has_vectors_of_4(const Launch& l, const AttentionSizes& s) {
  const auto bytes = 4 * static_cast<std::int64_t>(size_of(l.in_spec(0).dtype));
  const auto begins_well = [&](const opencl::Region& r) { return r.offset % bytes == 0; };
  return s.head % 4 == 0 && s.value % 4 == 0 && std::ranges::all_of(l.inputs(), begins_well) && std::ranges::all_of(l.outputs(), begins_well);
}

struct BlockKernel {
  const char *file, *name;
  Block block;
  std::int64_t rows;  // of a head
  AttentionInputsAt in;
  std::string options = {};
};
/// Launches for at most so many samples and heads as drivers take groups.
void run(const Launch& l, const BlockKernel& kernel, const Arguments& tensors) {
  constexpr std::int64_t kGroups = opencl::kMostGroups;
  const AttentionInputsAt in = kernel.in;
  const AttentionSizes s = attention_sizes(l.problem(), in);
  const Shape bias = broadcast_strides(l.in_shape(in.query + 3), s.scores());
  const AttentionDraws draws = draws_of(l, in);
  const std::int64_t group = kernel.block.group();
  const std::string options =
      fmt::format("{} -DHEAD={} -DVALUE={} -DLANES=1 -DGROUP={} -DROWS={} -DVECTOR={}{}{}", type_options(l.in_spec(in.query).dtype), s.head, s.value, group,
                  kernel.block.rows, has_vectors_of_4(l, s) ? 4 : 1, sub_group_option(l.profile()), kernel.options);
  for (std::int64_t sample = 0; sample < s.samples; sample += kGroups)
    for (std::int64_t head = 0; head < s.heads; head += kGroups)
      l.run(kernel.file, kernel.name,
            opencl::range3({ceil_div(kernel.rows, kernel.block.rows) * group, std::min(s.heads - head, kGroups), std::min(s.samples - sample, kGroups)},
                           {group, 1, 1}),
            Arguments(tensors, ints(sample, head, s.heads, s.queries, s.keys), bias[0], bias[1], ints(bias[2], bias[3]), l.attributes().boolean("causal"),
                      l.attributes().real("scale"), draws.stream, static_cast<std::int32_t>(draws.keyed), draws.threshold, draws.scale),
            options);
}

void launch(Launch& l) {
  const AttentionSizes s = attention_sizes(l.problem(), kForwardInputs);
  run(l, {kForwardFile, "attention_tile", block_of(s.queries, s.samples * s.heads, s.value, l.profile()), s.queries, kForwardInputs},
      {l.inputs().first(4), random_state_of(l, kForwardInputs), l.outputs()});
}

/// Whether an item has registers for the sums of dkey and of dvalue at once; else weights are computed once more for each.
bool has_registers_for_both(const AttentionSizes& s, const DeviceProfile& d) {
  constexpr std::int64_t kMany = 40, kSome = 16;  // sums of an item; as has_registers_for in matmul/group_tiles.cpp, by clang 15 and ocloc 22.43
  return (padded(s.head) + padded(s.value)) / (16 / kRowsOfItem) <= (d.least_sub_group_width ? kSome : kMany);
}

void launch_backward(Launch& l) {
  const AttentionSizes s = attention_sizes(l.problem(), kBackwardInputs);
  const opencl::Region& state = random_state_of(l, kBackwardInputs);
  const std::int64_t heads = s.samples * s.heads, widest = std::max(s.head, s.value);
  run(l, {kBackwardFile, "attention_dquery_tile", block_of(s.queries, heads, widest, l.profile()), s.queries, kBackwardInputs, " -DDKEY=1 -DDVALUE=1"},
      {l.inputs().first(5), state, l.in(5), l.in(6), l.in(7), l.out(0), l.workspace()});
  const auto run_second = [&](const char* options) {
    run(l, {kBackwardFile, "attention_dkey_tile", block_of(s.keys, heads, widest, l.profile()), s.keys, kBackwardInputs, options},
        {l.inputs().first(5), state, l.workspace(), l.in(6), l.in(7), l.out(1), l.out(2)});
  };
  if (has_registers_for_both(s, l.profile())) return run_second(" -DDKEY=1 -DDVALUE=1");
  run_second(" -DDKEY=0 -DDVALUE=1");
  run_second(" -DDKEY=1 -DDVALUE=0");
}

}  // namespace

Variant group_tiles_variant() {
  return {.name = "group_tiles",
          .doc = "a block of queries for each work-group, through local memory",
          .target = Target::gpu,
          .needs = {.group_size = kBlocks.back().group()},
          .declines = declines_forward,
          .longest_loop = forward_loop,
          .rank = rank,
          .launch = launch};
}

Variant group_tiles_backward_variant() {
  return {.name = "group_tiles",
          .doc = "a block of queries, then of keys, for each work-group, through local memory",
          .target = Target::gpu,
          .needs = {.group_size = kBlocks.back().group()},
          .declines = declines_backward,
          .longest_loop = backward_loop,
          .rank = rank,
          .workspace_bytes = delta_bytes,
          .launch = launch_backward};
}

}  // namespace gemel::inline ops
