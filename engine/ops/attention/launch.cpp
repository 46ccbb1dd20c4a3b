// Variants of attention: kernels for CPUs, with blocks in a work-item's private memory, and kernels for devices whose lanes are work-items.
// Legend: engine/ops/attention/attention.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/ops/attention/attention_launch.h"
#include "engine/ops/ops.h"
#include "engine/ops/workspace_sections.h"

namespace gemel::inline ops {
namespace {

using opencl::DeviceProfile;

constexpr const char* kBackwardTiles = "cpu/attention/tiles_backward.cl";
constexpr const char* kGroups = "any/attention/group.cl";
constexpr std::int64_t kRandomKeys = 64;        // that blocks of random numbers serve
constexpr std::int64_t kBlockFloats = 1 << 15;  // of the keys and values of a block: with what else a work-item has they stay in the second cache
constexpr std::int64_t kMostQueries = 128;      // of a block: so many make what packing keys costs small
constexpr std::int64_t kWidest = 1024;          // E + V up to which a work-item's blocks are small enough for its stack
constexpr std::int64_t kPageFloats = 1024;      // of a page of memory
constexpr std::int64_t kShortestPart = 128;     // keys: fewer are not worth a part of their own
constexpr std::int64_t kGroup = 64, kRowsOfGroup = 16, kItemsOfRow = 4;  // as in attention_group.cl
constexpr std::int64_t kDropoutElements = 1 << 14;                       // of one work-item on a CPU

/// What kernels of attention take last: PROBLEM in attention.clh.
void add_problem(Arguments& arguments, const Launch& l, AttentionInputsAt in) {
  const AttentionSizes s = attention_sizes(l.problem(), in);
  const Shape bias = broadcast_strides(l.in_shape(in.query + 3), s.scores());
  const AttentionDraws draws = draws_of(l, in);
  arguments.add(s.heads, s.queries, s.keys, bias[0], bias[1], bias[2], bias[3], l.attributes().boolean("causal"), l.attributes().real("scale"), draws.stream,
                static_cast<std::int64_t>(draws.keyed), draws.threshold, draws.scale);
}

// ---- on CPUs

std::int64_t width_of(const DeviceProfile& d) { return d.has_wide_vectors() ? 16 : 8; }

/// Extents that kernels are built for.
struct Tiling {
  std::int64_t rows, queries, keys;  // MR, QUERIES, KEYS
  std::string options(const AttentionSizes& s, const DeviceProfile& d, DType dtype) const {
    return fmt::format("{} -DHEAD={} -DVALUE={} -DWIDTH={} -DLANES={} -DMR={} -DQUERIES={} -DKEYS={}", type_options(dtype), s.head, s.value, width_of(d),
                       width_of(d), rows, queries, keys);
  }
};

/// Of keys, where `floats` go with each.
std::int64_t keys_of_block(const DeviceProfile& d, std::int64_t floats, std::int64_t most) {
  return d.runs_vectors() ? std::clamp(kBlockFloats / floats / kRandomKeys * kRandomKeys, kRandomKeys, most) : kRandomKeys;
}

std::int64_t rows_of_tile(const DeviceProfile& d) { return d.has_wide_vectors() ? 8 : 4; }
Tiling forward_tiling(const AttentionSizes& s, const DeviceProfile& d) {
  return {rows_of_tile(d), d.runs_vectors() ? kMostQueries : 8, keys_of_block(d, s.head + s.value, 512)};
}
Tiling backward_tiling(const AttentionSizes& s, const DeviceProfile& d) {
  const std::int64_t keys = keys_of_block(d, 2 * (s.head + s.value), 128);
  return {rows_of_tile(d), d.runs_vectors() ? keys : 8, keys};
}

/// How the keys are shared among work-items: in `parts` of `keys` each, the last of which may have fewer.
struct Parts {
  std::int64_t parts, keys;
};
/// As many that each unit has two work-items, of which there are `items` for all keys.
Parts parts_of(std::int64_t keys, std::int64_t items, const DeviceProfile& d) {
  const std::int64_t wanted = items ? ceil_div(2 * d.compute_units, items) : 1, most = std::max<std::int64_t>(keys / kShortestPart, 1);
  const std::int64_t length = round_up(std::max<std::int64_t>(ceil_div(keys, std::clamp<std::int64_t>(wanted, 1, most)), 1), kRandomKeys);
  return {std::max<std::int64_t>(ceil_div(keys, length), 1), length};
}

/// How a forward pass is shared: each work-item has `block` queries of one head and a part of the keys.
struct Share {
  std::int64_t block, blocks;
  Parts parts;
};
Share share_of(const AttentionSizes& s, const Tiling& t, const DeviceProfile& d) {
  const std::int64_t pairs = s.samples * s.heads, most = std::max<std::int64_t>(ceil_div(s.queries, t.rows), 1);
  const std::int64_t wanted = std::max(ceil_div(s.queries, t.queries), pairs ? ceil_div(4 * d.compute_units, pairs) : 1);
  const std::int64_t block = round_up(std::max<std::int64_t>(ceil_div(s.queries, std::min(wanted, most)), 1), t.rows), blocks = ceil_div(s.queries, block);
  return {block, blocks, parts_of(s.keys, pairs * blocks, d)};
}

template <AttentionInputsAt in>
const char* unless_tiles(const Problem& p, const DeviceProfile&) {
  const AttentionSizes s = attention_sizes(p, in);
  return s.head + s.value > kWidest ? "heads are too wide for its blocks" : nullptr;
}
/// Above or below groups of work-items, which any device runs.
int rank_of_blocks(const Problem&, const DeviceProfile& d) { return d.runs_vectors() ? 1 : -1; }

/// Where the parts' results lie in the workspace: y, top and sum.
Sections<3> part_results(const AttentionSizes& s, const Parts& p, const DeviceProfile& d) {
  const std::int64_t statistic = 4 * p.parts * s.statistic().elements();
  return {{statistic * s.value, statistic, statistic}, d};
}

struct ForwardKernel {
  const char *file, *name;
  std::string options;
  std::int64_t items;  // for each part of the keys
  Parts parts;
  Arguments own = {};  // before the problem's
};
/// Runs it and joins the parts.
void run_parts(Launch& l, const ForwardKernel& kernel) {
  const AttentionSizes s = attention_sizes(l.problem(), kForwardInputs);
  const auto [parts, part_keys] = kernel.parts;
  const Sections<3> sections = part_results(s, kernel.parts, l.profile());
  const auto section = [&](std::size_t i) { return sections.in(l.workspace(), i); };
  const std::array<opencl::Region, 3> results = parts == 1 ? std::array{l.out(0), l.out(1), l.out(2)} : std::array{section(0), section(1), section(2)};
  Arguments arguments(l.inputs().first(4), random_state_of(l, kForwardInputs), results, s.samples, parts, part_keys, kernel.own);
  add_problem(arguments, l, kForwardInputs);
  l.run(kernel.file, kernel.name, opencl::range1(kernel.items * parts, 1), arguments, kernel.options + (parts == 1 ? "" : " -DPARTS"));
  const std::int64_t rows = s.statistic().elements();
  if (parts > 1)
    l.run("cpu/attention/join.cl", "attention_join", opencl::range1(rows, 1),
          {results[0], results[1], results[2], l.out(0), l.out(1), l.out(2), rows, s.value, parts}, type_options(l.in_spec(0).dtype));
}

std::int64_t bytes_of(const AttentionSizes& s, const Parts& parts, const DeviceProfile& d) { return parts.parts == 1 ? 0 : part_results(s, parts, d).bytes(); }

const char* unless_one(const Problem& p, const DeviceProfile& d) {
  return p.inputs[0].shape[1] != 1 ? "there is not one query" : unless_tiles<kForwardInputs>(p, d);
}
/// Heads of a work-item: a page of memory holds their keys, or their values.
std::int64_t heads_of_item(const AttentionSizes& s) {
  return std::clamp<std::int64_t>(kPageFloats / std::max(s.head, s.value), 1, std::max<std::int64_t>(s.heads, 1));
}
std::int64_t items_of_one(const AttentionSizes& s) { return s.samples * ceil_div(s.heads, heads_of_item(s)); }
Parts parts_of_one(const AttentionSizes& s, const DeviceProfile& d) { return parts_of(s.keys, items_of_one(s), d); }
std::int64_t one_bytes(const Problem& p, const DeviceProfile& d) {
  const AttentionSizes s = attention_sizes(p, kForwardInputs);
  return bytes_of(s, parts_of_one(s, d), d);
}
void launch_one(Launch& l) {
  const AttentionSizes s = attention_sizes(l.problem(), kForwardInputs);
  const std::string options = Tiling{1, 1, kRandomKeys}.options(s, l.profile(), l.in_spec(0).dtype);
  run_parts(l,
            {"cpu/attention/one.cl", "attention_one", fmt::format("{} -DHEADS={}", options, heads_of_item(s)), items_of_one(s), parts_of_one(s, l.profile())});
}

std::int64_t forward_bytes(const Problem& p, const DeviceProfile& d) {
  const AttentionSizes s = attention_sizes(p, kForwardInputs);
  return bytes_of(s, share_of(s, forward_tiling(s, d), d).parts, d);
}

void launch_tiles(Launch& l) {
  const AttentionSizes s = attention_sizes(l.problem(), kForwardInputs);
  const Tiling t = forward_tiling(s, l.profile());
  const Share share = share_of(s, t, l.profile());
  run_parts(l, {"cpu/attention/tiles.cl",
                "attention_tiles",
                t.options(s, l.profile(), l.in_spec(0).dtype),
                s.samples * s.heads * share.blocks,
                share.parts,
                {share.block}});
}

/// Parts' sums of dquery lie in the workspace, but for a single one in float, which is dquery.
bool sums_apart(const Problem& p, const Parts& parts) { return parts.parts > 1 || is_two_bytes(p.outputs[0].dtype); }
Parts backward_parts(const AttentionSizes& s, const DeviceProfile& d) { return parts_of(s.keys, s.samples * s.heads, d); }

std::int64_t backward_bytes(const Problem& p, const DeviceProfile& d) {
  const Parts parts = backward_parts(attention_sizes(p, kBackwardInputs), d);
  return sums_apart(p, parts) ? 4 * parts.parts * p.outputs[0].elements() : 0;
}

void launch_backward_tiles(Launch& l) {
  const AttentionSizes s = attention_sizes(l.problem(), kBackwardInputs);
  const Parts parts = backward_parts(s, l.profile());
  const bool apart = sums_apart(l.problem(), parts);
  const std::string options = backward_tiling(s, l.profile()).options(s, l.profile(), l.in_spec(1).dtype);
  Arguments arguments(l.inputs().first(8), random_state_of(l, kBackwardInputs), apart ? l.workspace() : l.out(0), l.out(1), l.out(2), s.samples, parts.parts,
                      parts.keys);
  add_problem(arguments, l, kBackwardInputs);
  l.run(kBackwardTiles, "attention_backward_tiles", opencl::range1(s.samples * s.heads * parts.parts, 1), arguments, options);
  constexpr std::int64_t kRun = 4096;
  const std::int64_t count = l.out_spec(0).elements();
  if (apart) l.run(kBackwardTiles, "attention_totals", opencl::range1(ceil_div(count, kRun), 1), {l.workspace(), l.out(0), count, parts.parts, kRun}, options);
}

// ---- where lanes are work-items

std::string group_options(const AttentionSizes& s, DType dtype) {
  return fmt::format("{} -DHEAD={} -DVALUE={} -DLANES=1", type_options(dtype), ceil_div(s.head, kItemsOfRow), ceil_div(s.value, kItemsOfRow));
}

/// Launches for at most so many samples and heads as drivers take groups.
void run_group(const Launch& l, const char* kernel, std::int64_t rows, const Arguments& tensors, AttentionInputsAt in) {
  constexpr std::int64_t kMost = opencl::kMostGroups;
  const AttentionSizes s = attention_sizes(l.problem(), in);
  const std::int64_t items = ceil_div(rows, kRowsOfGroup) * kGroup;
  for (std::int64_t sample = 0; sample < s.samples; sample += kMost)
    for (std::int64_t head = 0; head < s.heads; head += kMost) {
      Arguments arguments(tensors, s.head, s.value, sample, head);
      add_problem(arguments, l, in);
      l.run(kGroups, kernel, opencl::range3({items, std::min(s.heads - head, kMost), std::min(s.samples - sample, kMost)}, {kGroup, 1, 1}), arguments,
            group_options(s, l.in_spec(0).dtype));
    }
}

void launch_group(Launch& l) {
  run_group(l, "attention_group", l.in_shape(0)[1], {l.inputs().first(4), random_state_of(l, kForwardInputs), l.outputs()}, kForwardInputs);
}

void launch_backward_group(Launch& l) {
  const opencl::Region& state = random_state_of(l, kBackwardInputs);
  run_group(l, "attention_dquery_group", l.in_shape(1)[1], {l.inputs().first(5), state, l.in(5), l.in(6), l.in(7), l.out(0), l.workspace()}, kBackwardInputs);
  run_group(l, "attention_dkey_group", l.in_shape(2)[1], {l.inputs().first(5), state, l.workspace(), l.in(6), l.in(7), l.out(1), l.out(2)}, kBackwardInputs);
}

// ---- of weights

void launch_dropout(Launch& l) {
  const Shape& shape = l.in_shape(0);
  const std::int64_t rows = shape.product(0, 3), keys = shape[3], cpu = l.profile().runs_vectors();
  const std::int64_t run = cpu ? round_up(std::clamp<std::int64_t>(keys, 1, kDropoutElements), kRandomKeys) : kRandomKeys;
  const std::int64_t row_block = std::max(cpu ? ceil_div(kDropoutElements, run) : 1, ceil_div(rows, opencl::kMostGroups));
  const double rate = l.attributes().real("rate");
  l.run("any/attention/dropout.cl", "attention_dropout", opencl::range2({ceil_div(keys, run), ceil_div(rows, row_block)}, {1, 1}),
        {l.in(0), l.in(1), l.out(0), rows, shape[1], shape[2], keys, row_block, run, l.attributes().integer("stream"),
         static_cast<std::int64_t>(keyed_by(l.in_spec(1))), static_cast<float>(dropout_threshold(rate)), static_cast<float>(dropout_scale(rate))},
        fmt::format("-DLANES={}", cpu ? width_of(l.profile()) : 1));
}

}  // namespace

AttentionDraws draws_of(const Launch& l, AttentionInputsAt in) {
  const bool drops = static_cast<int>(l.problem().inputs.size()) > in.state;
  const double rate = l.attributes().real("rate");
  return {l.attributes().integer("stream"), drops ? keyed_by(l.in_spec(in.state)) : Keyed::none, static_cast<float>(drops ? dropout_threshold(rate) : 0),
          static_cast<float>(dropout_scale(rate))};
}

const opencl::Region& random_state_of(const Launch& l, AttentionInputsAt in) {
  return static_cast<int>(l.problem().inputs.size()) > in.state ? l.in(in.state) : l.in(in.query + 3);
}

std::int64_t delta_bytes(const Problem& p, const DeviceProfile&) { return 4 * attention_sizes(p, kBackwardInputs).statistic().elements(); }

std::vector<Variant> attention_variants() {
  return {{.name = "one_query",
           .doc = "a share of the keys for each work-item, which are read once where they lie",
           .target = Target::cpu,
           .needs = {.private_blocks = true},
           .declines = unless_one,
           .rank = rank_of_blocks,
           .workspace_bytes = one_bytes,
           .launch = launch_one},
          {.name = "tiles",
           .doc = "a block of queries for each work-item, in tiles of registers",
           .target = Target::cpu,
           .needs = {.private_blocks = true},
           .declines = unless_tiles<kForwardInputs>,
           .rank = rank_of_blocks,
           .workspace_bytes = forward_bytes,
           .launch = launch_tiles},
          group_tiles_variant(),
          {.name = "groups", .doc = "a work-group for 16 queries, four items each", .needs = {.group_size = kGroup}, .launch = launch_group}};
}

std::vector<Variant> attention_backward_variants() {
  return {{.name = "tiles",
           .doc = "a share of the keys for each work-item, in tiles of registers",
           .target = Target::cpu,
           .needs = {.private_blocks = true},
           .declines = unless_tiles<kBackwardInputs>,
           .rank = rank_of_blocks,
           .workspace_bytes = backward_bytes,
           .launch = launch_backward_tiles},
          group_tiles_backward_variant(),
          {.name = "groups",
           .doc = "a work-group for 16 queries, then for 16 keys, four items each",
           .needs = {.group_size = kGroup},
           .workspace_bytes = delta_bytes,
           .launch = launch_backward_group}};
}

std::vector<Variant> attention_dropout_variants() { return {{.name = "runs", .doc = "a run of keys for each work-item", .launch = launch_dropout}}; }

}  // namespace gemel::inline ops
