#include "engine/ops/shape/strided_copies.h"

#include <algorithm>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::inline ops {
namespace {

constexpr std::int64_t kBlock = 8192;           // elements that one work-item of a CPU copies
constexpr std::int64_t kTile = 32, kSide = 16;  // as in move.cl

std::string options_for(DType dtype) {
  switch (size_of(dtype)) {
    case 1:
      return "-DT=uchar";
    case 2:
      return "-DT=ushort";
    case 4:
      return "-DT=uint";
    case 8:
      return "-DT=ulong";
  }
  throw InternalError("moves: unknown size of an element");
}

/// The innermost axis, apart from those around it.
struct Split {
  Move::Axis column{1, 1, 1};
  std::vector<Move::Axis> outer;
  std::int64_t rows = 1;
};
Split split_off(std::vector<Move::Axis> axes) {
  Split s;
  if (!axes.empty()) {
    s.column = axes.back();
    axes.pop_back();
  }
  for (const Move::Axis& a : axes) s.rows *= a.extent;
  s.outer = std::move(axes);
  return s;
}

/// The axis along which the input is contiguous, if the output is contiguous along another.
std::optional<std::size_t> crossed_axis(const Move& folded_move) {
  const auto& axes = folded_move.axes;
  if (axes.size() < 2 || axes.back().to_stride != 1 || axes.back().from_stride == 1) return {};
  for (std::size_t k = 0; k + 1 < axes.size(); ++k)
    if (axes[k].from_stride == 1) return k;
  return {};
}

bool any_element(const Move& m) {
  return std::none_of(m.axes.begin(), m.axes.end(), [](const Move::Axis& a) { return a.extent == 0; });
}

/// Calls f for each box that has elements, folded, once its output is filled.
template <class F>
void each_box(Launch& l, const Moves& moves, F f) {
  if (moves.fill)
    for (int o = 0; o < static_cast<int>(l.problem().outputs.size()); ++o)
      if (l.out_spec(o).elements()) l.device().fill(l.out(o), bytes_from_numbers(l.out_spec(o).dtype, std::span(&*moves.fill, 1)));
  for (const Move& m : moves.boxes)
    if (any_element(m)) f(folded(m));
}

struct MoveKernel {
  const char *file, *name;
};
constexpr MoveKernel kRows{"cpu/move.cl", "move_rows"}, kTiles{"cpu/move.cl", "move_tiles"}, kTilesLocal{"gpu/move.cl", "move_tiles_local"},
    kItems{"any/move.cl", "move_items"};
/// What a kernel gets beside the regions: its own numbers, and the axes around those it knows.
struct MoveArguments {
  std::vector<std::int64_t> numbers;
  const std::vector<Move::Axis>& outer;
};
void run(Launch& l, const MoveKernel& kernel, const Move& m, const opencl::Range& range, const MoveArguments& more) {
  const auto& [numbers, outer] = more;
  Arguments arguments(l.in(m.input), l.out(m.output), m.from, m.to, numbers);
  for (int k = 0; k < Shape::kMaxRank - 1; ++k) {  // innermost first
    const bool given = k < static_cast<int>(outer.size());
    const Move::Axis a = given ? outer[outer.size() - 1 - at(k)] : Move::Axis{1, 0, 0};
    arguments.add(a.extent, a.from_stride, a.to_stride);
  }
  l.run(kernel.file, kernel.name, range, arguments, options_for(l.in_spec(m.input).dtype));
}

/// Both kernels over tiles; `side` is a tile's, `items` the work-items along it.
void launch_crossed(Launch& l, const Moves& moves, const MoveKernel& kernel, std::int64_t side, std::int64_t items) {
  each_box(l, moves, [&](Move m) {
    const std::size_t crossed = *crossed_axis(m);
    const Move::Axis row = m.axes[crossed];
    m.axes.erase(m.axes.begin() + static_cast<std::ptrdiff_t>(crossed));
    const Split s = split_off(m.axes);
    run(l, kernel, m, opencl::range3({ceil_div(s.column.extent, side) * items, ceil_div(row.extent, side) * items, s.rows}, {items, items, 1}),
        {{row.extent, s.column.extent, s.column.from_stride, row.to_stride}, s.outer});
  });
}

}  // namespace

Move box(const Shape& extents, const Shape& from, const Shape& to) {
  const Shape from_strides = row_major_strides(from), to_strides = row_major_strides(to);
  Move m;
  for (int k = 0; k < extents.rank(); ++k) m.axes.push_back({extents[k], from_strides[k], to_strides[k]});
  return m;
}

Move folded(Move move) {
  std::vector<Move::Axis> axes;
  for (const Move::Axis& a : move.axes) {
    if (a.extent == 1) continue;
    if (!axes.empty() && axes.back().from_stride == a.from_stride * a.extent && axes.back().to_stride == a.to_stride * a.extent)
      axes.back() = {axes.back().extent * a.extent, a.from_stride, a.to_stride};
    else
      axes.push_back(a);
  }
  move.axes = std::move(axes);
  return move;
}

const char* unless_rows(const Moves& moves) {
  for (const Move& m : moves.boxes) {
    const Move::Axis column = split_off(folded(m).axes).column;
    if (column.from_stride != 1 || column.to_stride != 1) return "the innermost axis is not contiguous on both sides";
  }
  return nullptr;
}

const char* unless_tiles(const Moves& moves) {
  for (const Move& m : moves.boxes) {
    if (!any_element(m)) continue;
    const Move f = folded(m);
    const auto crossed = crossed_axis(f);
    if (!crossed) return "the two sides are not contiguous along different axes";
    std::int64_t matrices = 1;  // around the two axes that change places
    for (std::size_t k = 0; k + 1 < f.axes.size(); ++k)
      if (k != *crossed) matrices *= f.axes[k].extent;
    if (std::max(matrices, ceil_div(f.axes[*crossed].extent, kSide)) > opencl::kMostGroups) return "it has too many tiles for a launch";
  }
  return nullptr;
}

void launch_rows(Launch& l, const Moves& moves) {
  each_box(l, moves, [&](const Move& m) {
    const Split s = split_off(m.axes);
    const std::int64_t columns = s.column.extent, column_block = columns > 2 * kBlock ? kBlock : columns;
    const std::int64_t row_block = std::max({std::int64_t{1}, kBlock / columns, ceil_div(s.rows, opencl::kMostGroups)});
    run(l, kRows, m, opencl::range2({ceil_div(columns, column_block), ceil_div(s.rows, row_block)}, {1, 1}),
        {{s.rows, columns, row_block, column_block}, s.outer});
  });
}

void launch_items(Launch& l, const Moves& moves) {
  each_box(l, moves, [&](const Move& m) {
    Split s = split_off(m.axes);
    // Work-items walk along all but two of the outer axes: where many run at a time, along short ones.
    if (l.profile().runs_items_in_lanes()) std::ranges::stable_sort(s.outer, {}, &Move::Axis::extent);
    const auto extent = [&](std::size_t k) { return k < s.outer.size() ? s.outer[s.outer.size() - 1 - k].extent : 1; };
    run(l, kItems, m, range_of_places({s.column.extent, extent(0), extent(1)}, l.profile()),
        {{s.column.extent, s.column.from_stride, s.column.to_stride}, s.outer});
  });
}

void launch_tiles(Launch& l, const Moves& moves) { launch_crossed(l, moves, kTiles, kTile, 1); }
void launch_tiles_local(Launch& l, const Moves& moves) { launch_crossed(l, moves, kTilesLocal, kSide, kSide); }

Cost move_cost(const Problem& p) {
  Cost cost;
  for (const Spec& s : p.outputs) cost.bytes += 2 * s.bytes();
  return cost;
}

}  // namespace gemel::inline ops
