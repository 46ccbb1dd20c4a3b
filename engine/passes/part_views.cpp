// Views of parts: the results of a split along the outermost axis with more than one element are contiguous, so they become views of the input.
#include <utility>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/passes/passes.h"
#include "engine/passes/slot_usage.h"

namespace gemel {
namespace {

/// Where the parts lie in what is split; nothing where they are not ranges of it at which a kernel's argument may begin.
std::vector<Program::Use> ranges_of(const Program::Instruction& split, std::int64_t alignment) {
  Program::Use part = split.inputs[0];
  const std::int64_t axis = split.attributes.integer("axis"), rank = part.spec.shape.rank();
  if (part.spec.shape.product(0, static_cast<int>(axis < 0 ? axis + rank : axis)) != 1) return {};
  std::vector<Program::Use> ranges;
  for (const auto& output : split.outputs) {
    if (part.offset * static_cast<std::int64_t>(size_of(part.spec.dtype)) % alignment != 0) return {};
    part.spec = output.spec;
    ranges.push_back(part);
    part.offset += part.spec.elements();
  }
  return ranges;
}

}  // namespace

/// The whole tensor lives as long as the part that lives longest.
Program view_parts(Session& session, Program program) {
  const auto limits = session.interpreter().arena_limits();
  if (!limits) return program;
  const std::vector<bool> written = written_slots(program);
  const std::vector<Usage> usage = usage_of(program);
  std::vector<std::vector<Program::Use>> places;
  for (const auto& step : program.code) {
    bool may_view = step.op->name == "split" && !written[at(step.inputs[0].slot)];
    for (const auto& u : step.outputs) may_view = may_view && !usage[at(u.slot)].lasts && !written[at(u.slot)];
    places.push_back(may_view ? ranges_of(step, limits->alignment) : std::vector<Program::Use>());
  }
  return without(std::move(program), places);
}

}  // namespace gemel
