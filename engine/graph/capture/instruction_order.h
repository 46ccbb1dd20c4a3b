// The order of instructions that were added late and must run early: gradients that are asked for after an update was added, and read
// what the update changes. `after` names them on the update: an instruction that follows it in the program, but runs before it.
#pragma once
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

/// [instruction] those before it in the program that it must run before, by whose `after` it is named.
std::vector<std::vector<int>> overtaken(const Program& program);

/// The program in an order in which it can run: as it is, but that what must run after a later instruction waits for it, and with it all
/// that depends on it. `after` then names earlier instructions only.
/// @throws UsageError where an instruction must run both before an update and after it
Program in_order(Program program);

}  // namespace gemel
