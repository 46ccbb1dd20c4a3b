// Shared by the records of control flow: captured bodies, and loops over them.
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
/// Returns an attribute that is a number of inputs.
/// @throws ShapeError if it is below 0 or above `most`
std::size_t counted(const char* op, const Attributes& a, const char* name, std::size_t most);
/// Cost of a record that runs programs: none, for their operators are counted when they run.
Cost no_cost(const Problem&);

/// Replaces empty values by zeros of the specs of `like`.
Values or_zeros(Session& session, Values values, const Specs& like);

/// A captured program, and the operands that follow its own arguments.
struct Part {
  Shared program;
  Values operands;
};
/// Captures f(arguments, operands). Values that it uses from outside are appended to the operands.
Part capture_part(Session& session, Specs arguments, const Values& operands, const Body& f);

/// Returns the gradients of a program at `inputs` for the inputs `wanted`, zeros where none flows. They are recorded, so that a body that calls this can be
/// differentiated again.
Values pull_back(Session& session, const Program& program, const Values& inputs, const Values& output_gradients, const std::vector<std::size_t>& wanted);

/// @throws ShapeError if the program's inputs do not have the specs `given`
void check_takes(const char* op, const char* part, const Program& program, const Specs& given);

/// Direction of a loop's trip number: up from 0, or down to 0.
enum class Direction { up, down };

/// A loop of body(trip, carried, one row of each of `rows`, captured) -> carried, followed by the values to stack, one row a trip.
struct Loop {
  Shared body;
  Value count;  // int64 [], number of trips, at most `rows_kept`
  Values carried, rows, captured;
  std::int64_t rows_kept = 0;
  Direction direction = Direction::up;
};
/// Runs a loop.
/// @return carried after the last trip, then the stacks [rows_kept, ...], with zeros in rows without a trip
Values scan(const Loop& loop);

struct LoopGradients {
  Values carried, rows, captured;  // empty if not wanted
};
struct LoopWants {
  std::vector<bool> rows, captured;
};
/// Returns the gradients of a loop's inputs.
/// @param carried, stacks  gradients of the results, empty where none arrived
LoopGradients gradients_of(const Loop& loop, const Values& carried, const Values& stacks, const LoopWants& wants);

/// Returns a new int64 [] of this value, computed at once.
Value number(Session& session, std::int64_t value);

}  // namespace gemel::control
