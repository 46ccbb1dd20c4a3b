// Uses and makers of the slots of a program, for the fusion passes.
#pragma once
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

/// True for an elementwise operator with one result that writes no input.
bool is_elementwise(const Program::Instruction& step);

struct Usage {
  int uses = 0;        // number of uses as an input of an instruction
  bool lasts = false;  // the slot is an input or output of the program, or external memory
};
/// Usage of each slot, [slot].
std::vector<Usage> usage_of(const Program& program);

/// Index of the instruction that makes each slot, or -1, [slot].
std::vector<int> makers_of(const Program& program);

/// True for slots that an instruction writes in place, also through an overlapping slot, [slot].
std::vector<bool> written_slots(const Program& program);

/// Removes instructions whose results already lie in other slots, and redirects their readers there. No instruction may write these results or slots.
/// @param places  [instruction][output] use that holds the result; empty for an instruction that stays
Program without(Program program, const std::vector<std::vector<Program::Use>>& places);

/// True if an instruction after `begin` and before `end` writes an input of `reader`.
bool written_between(const Program& program, std::size_t begin, std::size_t end, const Program::Instruction& reader);

/// True if a recomputation lies between `begin` and `end`. A producer that moves across it keeps its inputs alive instead of its one result.
bool recomputed_between(const Program& program, std::size_t begin, std::size_t end);

}  // namespace gemel
