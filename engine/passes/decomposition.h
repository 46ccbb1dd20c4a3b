// Operators written out in a program: what a function of public operators applies stands in place of an instruction.
#pragma once
#include <functional>
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

/// What `function` applies to a step's inputs, as instructions that make the step's outputs, under its scope. Slots for what is in between are added.
/// @param function  of public operators; each result has memory of its own
std::vector<Program::Instruction> written_out(Session& session, Program& program, const Program::Instruction& step,
                                              const std::function<Values(const Values& inputs)>& function);

/// The program with `composed` in place of each operator of which that is asked for.
/// @param which  of operators that have `composed`
Program decomposed(Session& session, Program program, const std::function<bool(const OpDef&)>& which);

}  // namespace gemel
