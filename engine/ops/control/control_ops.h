// What the records of control flow share: captured parts, and loops over them.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/session.h"
#include "engine/graph/capture/program.h"
#include "engine/ops/common.h"

namespace gemel::control {

using Shared = std::shared_ptr<const Program>;
using Body = std::function<Values(const Values&)>;

Specs outputs_of(const Program& program);
template <class T>
std::vector<T> cut(const std::vector<T>& v, std::size_t from, std::size_t to) {
  return {v.begin() + static_cast<std::ptrdiff_t>(from), v.begin() + static_cast<std::ptrdiff_t>(to)};
}
template <class T>
std::vector<T> join(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
/// An attribute that counts inputs. @throws ShapeError below 0 or above `most`
std::size_t counted(const char* op, const Attributes& a, const char* name, std::size_t most);
/// Of records that run programs: what runs is counted where it runs.
Cost no_cost(const Problem&);

/// Zeros where `values` is empty, of the specs of `like`.
Values or_zeros(Session& session, Values values, const Specs& like);

/// A captured program, and what it gets after its own arguments.
struct Part {
  Shared program;
  Values operands;
};
/// `f` is given its arguments and its operands; what it uses from outside beyond these follows them.
Part capture_part(Session& session, Specs arguments, const Values& operands, const Body& f);

/// Gradients of a program at `inputs` for those `wanted` (by index), zeros where none flows. Recorded, so that a body that
/// does this differentiates again.
Values pull_back(Session& session, const Program& program, const Values& inputs, const Values& output_gradients, const std::vector<std::size_t>& wanted);

/// @throws ShapeError where a program's inputs are not these
void check_takes(const char* op, const char* part, const Program& program, const Specs& given);

/// Whether a loop's trips count up, or down to 0.
enum class Direction { up, down };

/// body(trip, carried, a row of each of `rows`, captured) -> carried, then what is stacked, a row a trip.
struct Loop {
  Shared body;
  Value count;  // int64 []: how many trips, `rows_kept` at most
  Values carried, rows, captured;
  std::int64_t rows_kept = 0;
  Direction direction = Direction::up;
};
/// @return carried after the last trip, then the stacks [rows_kept, ...]; zeros in rows without a trip
Values scan(const Loop& loop);

struct LoopGradients {
  Values carried, rows, captured;  // empty where not wanted
};
struct LoopWants {
  std::vector<bool> rows, captured;
};
/// @param carried, stacks  gradients of the results, empty where none arrived
LoopGradients gradients_of(const Loop& loop, const Values& carried, const Values& stacks, const LoopWants& wants);

/// A new int64 [] with this number, computed at once.
Value number(Session& session, std::int64_t value);

}  // namespace gemel::control
