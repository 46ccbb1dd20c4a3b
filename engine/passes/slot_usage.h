// Who uses what in a program: what the fusion passes ask before they leave a slot out.
#pragma once
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

/// One result, each element of it from those at its place; writes nothing.
bool is_elementwise(const Program::Instruction& step);

struct Usage {
  int uses = 0;        // as an input of instructions
  bool lasts = false;  // it is an input or an output of the program, or memory from outside
};
/// [slot]
std::vector<Usage> usage_of(const Program& program);

/// [slot] the instruction that makes it, or -1.
std::vector<int> makers_of(const Program& program);

/// [slot] whether an instruction writes it, or what overlaps it.
std::vector<bool> written_slots(const Program& program);

/// The program without the instructions whose results lie in memory already: what reads them reads them there. Neither those results nor the
/// memory is written by anyone.
/// @param places  [instruction][output] where, by the slots of the program that is given; none for an instruction that stays
Program without(Program program, const std::vector<std::vector<Program::Use>>& places);

/// Whether an instruction after `begin` and before `end` writes what `reader` reads.
bool written_between(const Program& program, std::size_t begin, std::size_t end, const Program::Instruction& reader);

/// Whether a recomputation lies in between: a producer moved over it would keep its inputs all that time, in place of its one result.
bool recomputed_between(const Program& program, std::size_t begin, std::size_t end);

}  // namespace gemel
