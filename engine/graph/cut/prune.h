// prune: extracts the part of a program that computes some of its values and instructions.
#pragma once
#include <cstddef>
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

/// Part of a program to extract.
struct Wanted {
  std::vector<Program::Use> values;      // outputs of the part
  std::vector<int> instructions;         // to run for their side effects
  std::vector<Program::Use> given = {};  // not computed: inputs of the part, after those of the program
  std::vector<int> without = {};         // instructions to leave out, even if they are needed
};

struct Pruned {
  Program program;                  // with slots and instructions renumbered
  std::vector<std::size_t> inputs;  // index of each input in the whole program
};

/// Extracts the instructions that compute the wanted values and instructions, and the earlier ones that `after` names. Keeps the order of the program;
/// see in_order for later instructions that `after` names. Keeps a write to a variable (external memory) only if it is wanted or named by `after`. Keeps
/// a write to a value that the program makes, also one in external memory, with that value, unless the value is filled again before it is read.
/// @throws UsageError if a given value is a part of another one, or is changed in place after it is computed
Pruned prune(const Program& program, Wanted wanted);

}  // namespace gemel
