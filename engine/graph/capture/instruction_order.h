// Order of instructions that were added late but must run early, such as gradients that were requested after an update was added and that read what
// the update changes. The `after` list of the update then names instructions that follow it in the program.
#pragma once
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

/// For each instruction: earlier instructions of the program that must run after it, because their `after` names it.
std::vector<std::vector<int>> overtaken(const Program& program);

/// Reorders a program so that it can run: moves an instruction that must run after a later one behind it, with all that depends on it. All other
/// instructions keep their order. Afterwards `after` names earlier instructions only.
/// @throws UsageError if an instruction must run both before and after an update
Program in_order(Program program);

}  // namespace gemel
