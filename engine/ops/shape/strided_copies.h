// Operators that only move elements, each as a few strided copies with shared kernels.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/op.h"
#include "engine/device/launch.h"
#include "engine/ops/common.h"

namespace gemel::inline ops {

/// A box of elements: output[to + sum_k i_k to_stride_k] = input[from + sum_k i_k from_stride_k] for all 0 <= i_k < extent_k.
struct Move {
  struct Axis {
    std::int64_t extent, from_stride, to_stride;
  };
  int input = 0, output = 0;
  std::int64_t from = 0, to = 0;  // in elements
  std::vector<Axis> axes{};       // outermost first in the output
};

/// The moves of an operator: fills its outputs with a value if boxes leave gaps, then moves the boxes.
struct Moves {
  std::vector<Move> boxes;
  std::optional<double> fill{};
};

/// Returns a box whose axis k has extent `extents[k]`, with the strides of dense tensors of shapes `from` and `to`.
Move box(const Shape& extents, const Shape& from, const Shape& to);

/// Drops axes of extent 1 and merges neighbouring axes that are contiguous on both sides.
Move folded(Move move);

/// Returns why boxes cannot be moved by rows, or by tiles, or nullptr.
const char* unless_rows(const Moves& moves);
const char* unless_tiles(const Moves& moves);
void launch_rows(Launch& l, const Moves& moves);
void launch_items(Launch& l, const Moves& moves);
void launch_tiles(Launch& l, const Moves& moves);
void launch_tiles_local(Launch& l, const Moves& moves);

/// Cost: twice the output's bytes, no FLOPs.
Cost move_cost(const Problem& problem);

/// Returns the variants of an operator that only moves elements.
/// @tparam moves_of  returns the moves of a problem
template <Moves (*moves_of)(const Problem&)>
std::vector<Variant> move_variants() {
  using opencl::DeviceProfile;
  return {
      {"rows", "contiguous rows, a block for each work-item", [](const Problem& p, const DeviceProfile&) { return unless_rows(moves_of(p)); },
       [](const Problem&, const DeviceProfile& d) { return d.is_cpu() ? 3 : 0; }, nullptr, [](Launch& l) { launch_rows(l, moves_of(l.problem())); }},
      {"tiles", "transposed tiles, one for each work-item", [](const Problem& p, const DeviceProfile&) { return unless_tiles(moves_of(p)); },
       [](const Problem&, const DeviceProfile& d) { return d.is_cpu() ? 2 : 0; }, nullptr, [](Launch& l) { launch_tiles(l, moves_of(l.problem())); }},
      {"tiles_local", "transposed tiles through local memory",
       [](const Problem& p, const DeviceProfile& d) {
         const char* why = unless_group_of<16 * 16>(p, d);
         return why ? why : unless_tiles(moves_of(p));
       },
       [](const Problem&, const DeviceProfile& d) { return d.has_real_local_memory ? 2 : 0; }, nullptr,
       [](Launch& l) { launch_tiles_local(l, moves_of(l.problem())); }},
      {"items", "one work-item an element, any strides", never_declines, rank_anywhere, nullptr, [](Launch& l) { launch_items(l, moves_of(l.problem())); }}};
}

}  // namespace gemel::inline ops
