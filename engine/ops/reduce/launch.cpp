// Launches of reduce.cl.
#include <algorithm>
#include <array>

#include "engine/base/numbers.h"
#include "engine/ops/reduce/reduce.h"

namespace gemel::inline ops {
namespace {

using opencl::DeviceProfile;

constexpr std::int64_t kGroup = 64;               // work-items, as in reduce.cl
constexpr std::int64_t kLanes = 16;               // columns of one work-item of reduce_columns
constexpr std::int64_t kColumns = 32, kRows = 8;  // of a group of reduce_tiles
constexpr std::int64_t kRowElements = 4096;       // of one work-item that sums short rows

Runs runs_of(const Problem& p) { return runs_of(p.inputs[0].shape, reduced_axes(p)); }

/// `reduced` in slices of `length`. A pure function of shape and device, so that sums are the same at every run.
struct Cut {
  std::int64_t slices, length;
};

/// @param series  work-items or groups without a cut @param wanted  how many would fill the device
/// @param least  shortest slice that is worth a second pass
Cut cut(std::int64_t reduced, std::int64_t series, std::int64_t wanted, std::int64_t least) {
  const std::int64_t most = std::max<std::int64_t>(1, reduced / least);
  const std::int64_t slices = std::clamp<std::int64_t>(wanted / std::max<std::int64_t>(1, series), 1, most);
  const std::int64_t length = std::max<std::int64_t>(1, round_up(ceil_div(reduced, slices), kLanes));
  return {std::max<std::int64_t>(1, ceil_div(reduced, length)), length};
}

Cut cut_rows(const Runs& r, const DeviceProfile& d) { return cut(r.reduced, r.outer, 8 * d.compute_units, 16384); }
Cut cut_groups(const Runs& r, const DeviceProfile& d) { return cut(r.reduced, r.outer, 16 * d.compute_units, 1024); }
Cut cut_columns(const Runs& r, const DeviceProfile& d) { return cut(r.reduced, r.outer * ceil_div(r.inner, kLanes), 8 * d.compute_units, 256); }
Cut cut_tiles(const Runs& r, const DeviceProfile& d) { return cut(r.reduced, r.outer * ceil_div(r.inner, kColumns), 8 * d.compute_units, 64); }
Cut cut_column_items(const Runs& r, const DeviceProfile& d) { return cut(r.reduced, r.outer * r.inner, 128 * d.compute_units, 64); }

using CutOf = Cut (*)(const Runs&, const DeviceProfile&);

template <CutOf cut_of>
std::int64_t partial_bytes(const Problem& p, const DeviceProfile& d) {
  const Runs r = runs_of(p);
  const Cut c = cut_of(r, d);
  const std::int64_t bytes_of_sum = p.inputs[0].dtype == DType::int64 ? 8 : 4;
  return c.slices == 1 ? 0 : c.slices * p.outputs[0].elements() * bytes_of_sum;
}

template <Reduction reduction>
std::string options_for(const Launch& l) {
  return type_options(l.in_spec(0).dtype) + (reduction == Reduction::maximum ? " -DMAXIMUM" : "");
}

/// One pass over `runs` of x.
struct Pass {
  opencl::Region x, y;
  Runs runs;
  Cut cut;
  opencl::Argument scale;
  std::string options;
};

opencl::Argument number(DType dtype, double value) {
  if (dtype == DType::int32) return static_cast<std::int32_t>(value);
  if (dtype == DType::int64) return static_cast<std::int64_t>(value);
  return static_cast<float>(value);
}

template <Reduction reduction>
opencl::Argument scale_of(const Launch& l) {
  const double count = static_cast<double>(reduced_count(l.in_shape(0), reduced_axes(l.problem())));
  return number(l.in_spec(0).dtype, reduction == Reduction::mean ? 1 / count : 1);
}

/// Runs a pass, or two through the workspace, where sums are not rounded to two bytes.
template <Reduction reduction, CutOf cut_of, class Run>
void in_passes(const Launch& l, Run run) {
  Runs r = runs_of(l.problem());
  if (l.out_spec(0).elements() == 0) return;
  const Cut c = cut_of(r, l.profile());
  const opencl::Argument scale = scale_of<reduction>(l);
  const std::string options = options_for<reduction>(l);
  if (c.slices == 1) return run(Pass{l.in(0), l.out(0), r, c, scale, options});
  const bool two_bytes = is_two_bytes(l.in_spec(0).dtype);
  run(Pass{l.in(0), l.workspace(), r, c, number(l.in_spec(0).dtype, 1), options + (two_bytes ? " -DTO_SLICES" : "")});
  r.reduced = c.slices;
  run(Pass{l.workspace(), l.out(0), r, Cut{1, r.reduced}, scale, options + (two_bytes ? " -DFROM_SLICES" : "")});
}

template <Reduction reduction>
void launch_rows(Launch& l) {
  in_passes<reduction, cut_rows>(l, [&](const Pass& p) {
    const auto& [x, y, r, c, scale, options] = p;
    const std::int64_t row_block = std::max({std::int64_t{1}, kRowElements / c.length, ceil_div(r.outer, opencl::kMostGroups)});
    l.run("cpu/reduce.cl", "reduce_rows", opencl::range2({c.slices, ceil_div(r.outer, row_block)}, {1, 1}),
          {x, y, r.outer, r.reduced, c.slices, c.length, row_block, scale}, options);
  });
}

template <Reduction reduction>
void launch_groups(Launch& l) {
  in_passes<reduction, cut_groups>(l, [&](const Pass& p) {
    const auto& [x, y, r, c, scale, options] = p;
    l.run("gpu/reduce.cl", "reduce_groups", opencl::range2({r.outer * kGroup, c.slices}, {kGroup, 1}), {x, y, r.reduced, c.slices, c.length, scale}, options);
  });
}

template <Reduction reduction>
void launch_columns(Launch& l) {
  in_passes<reduction, cut_columns>(l, [&](const Pass& p) {
    const auto& [x, y, r, c, scale, options] = p;
    l.run("cpu/reduce.cl", "reduce_columns", opencl::range3({ceil_div(r.inner, kLanes), c.slices, std::min(r.outer, opencl::kMostGroups)}, {1, 1, 1}),
          {x, y, r.outer, r.reduced, r.inner, c.slices, c.length, scale}, options);
  });
}

template <Reduction reduction>
void launch_tiles(Launch& l) {
  in_passes<reduction, cut_tiles>(l, [&](const Pass& p) {
    const auto& [x, y, r, c, scale, options] = p;
    l.run("gpu/reduce.cl", "reduce_tiles",
          opencl::range3({round_up(r.inner, kColumns), c.slices * kRows, std::min(r.outer, opencl::kMostGroups)}, {kColumns, kRows, 1}),
          {x, y, r.outer, r.reduced, r.inner, c.slices, c.length, scale}, options);
  });
}

template <Reduction reduction>
void launch_column_items(Launch& l) {
  in_passes<reduction, cut_column_items>(l, [&](const Pass& p) {
    const auto& [x, y, r, c, scale, options] = p;
    l.run("any/reduce.cl", "reduce_column_items", range_of_places({r.inner, c.slices, r.outer}, l.profile()),
          {x, y, r.outer, r.reduced, r.inner, c.slices, c.length, scale}, options);
  });
}

/// Axes that are kept, or those that are reduced, innermost first. Neighbours of a kind are one axis, so that a kind has half of them at most.
struct Walk {
  std::array<std::int64_t, Shape::kMaxRank / 2> extents, strides;
  std::size_t axes = 0;
  Walk() {
    extents.fill(1);
    strides.fill(0);
  }
};

/// The kept axes, then the reduced ones.
std::array<Walk, 2> walks_of(const Shape& shape, const std::vector<std::int64_t>& reduced) {
  const Shape strides = row_major_strides(shape);
  std::array<Walk, 2> out;
  const Walk* before = nullptr;
  for (int k = shape.rank() - 1; k >= 0; --k) {
    if (shape[k] == 1) continue;
    Walk& walk = out[std::find(reduced.begin(), reduced.end(), k) != reduced.end()];
    if (&walk != before) walk.strides[walk.axes++] = strides[k];
    walk.extents[walk.axes - 1] *= shape[k];
    before = &walk;
  }
  return out;
}

template <Reduction reduction>
void launch_any(Launch& l) {
  const std::array<Walk, 2> walks = walks_of(l.in_shape(0), reduced_axes(l.problem()));
  if (l.out_spec(0).elements() == 0) return;
  Arguments arguments(l.in(0), l.out(0), scale_of<reduction>(l));
  for (const Walk& walk : walks)
    for (std::size_t k = 0; k < walk.extents.size(); ++k) arguments.add(walk.extents[k], walk.strides[k]);
  const auto& kept = walks[0].extents;
  l.run("any/reduce.cl", "reduce_any", range_of_places({kept[0], kept[1], kept[2]}, l.profile()), arguments, options_for<reduction>(l));
}

const char* unless_rows(const Problem& p, const DeviceProfile&) {
  const Runs r = runs_of(p);
  return !r.possible ? "the reduced axes are not neighbours" : r.inner != 1 ? "the reduced axes are not the innermost" : nullptr;
}
const char* unless_columns(const Problem& p, const DeviceProfile&) { return runs_of(p).possible ? nullptr : "the reduced axes are not neighbours"; }

/// Nor where most of a group's columns would lie idle.
const char* unless_wide(const Problem& p, const DeviceProfile& d) {
  if (const char* why = unless_columns(p, d)) return why;
  const Runs r = runs_of(p);
  return r.inner < kColumns / 2 ? "it has few columns" : r.reduced == 0 ? "nothing is reduced" : nullptr;
}

}  // namespace

Runs runs_of(const Shape& shape, const std::vector<std::int64_t>& axes) {
  Runs r;
  int stage = 0;  // 0: before the reduced axes, 1: within, 2: behind
  for (int k = 0; k < shape.rank(); ++k) {
    if (shape[k] == 1) continue;
    const bool gone = std::find(axes.begin(), axes.end(), k) != axes.end();
    if (gone && stage == 0) stage = 1;
    if (!gone && stage == 1) stage = 2;
    if (gone && stage == 2) r.possible = false;
    (stage == 0 ? r.outer : stage == 1 ? r.reduced : r.inner) *= shape[k];
  }
  return r;
}

std::vector<std::int64_t> reduced_axes(const Problem& p) { return normalised_axes(p.op.name.c_str(), p.inputs[0].shape, p.attributes.integers("axes")); }

std::int64_t reduced_count(const Shape& shape, const std::vector<std::int64_t>& axes) {
  std::int64_t count = 1;
  for (std::int64_t k : axes) count *= shape[static_cast<int>(k)];
  return count;
}

template <Reduction reduction>
std::vector<Variant> reduce_variants() {
  return {{.name = "rows",
           .doc = "contiguous rows, sixteen lanes wide",
           .target = Target::cpu,
           .declines = unless_rows,
           .workspace_bytes = partial_bytes<cut_rows>,
           .launch = launch_rows<reduction>},
          {.name = "groups",
           .doc = "a work-group a row, through local memory",
           .target = Target::gpu,
           .needs = {.group_size = kGroup},
           .declines = unless_rows,
           .workspace_bytes = partial_bytes<cut_groups>,
           .launch = launch_groups<reduction>},
          {.name = "columns",
           .doc = "sixteen columns for each work-item",
           .target = Target::cpu,
           .declines = unless_columns,
           .workspace_bytes = partial_bytes<cut_columns>,
           .launch = launch_columns<reduction>},
          {.name = "tiles",
           .doc = "32 columns by 8 rows for each work-group, through local memory",
           .target = Target::gpu,
           .needs = {.group_size = kColumns * kRows},
           .declines = unless_wide,
           .workspace_bytes = partial_bytes<cut_tiles>,
           .launch = launch_tiles<reduction>},
          {.name = "column_items",
           .doc = "one work-item a column",
           .declines = unless_columns,
           .workspace_bytes = partial_bytes<cut_column_items>,
           .launch = launch_column_items<reduction>},
          {.name = "any", .doc = "one work-item an output element, any axes", .launch = launch_any<reduction>}};
}
template std::vector<Variant> reduce_variants<Reduction::sum>();
template std::vector<Variant> reduce_variants<Reduction::mean>();
template std::vector<Variant> reduce_variants<Reduction::maximum>();

}  // namespace gemel::inline ops
