// Pruning: the part of a program that some of its values and instructions need.
#pragma once
#include <cstddef>
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

/// What is asked of a program.
struct Wanted {
  std::vector<Program::Use> values;      // become the outputs
  std::vector<int> instructions;         // to be run for what they do
  std::vector<Program::Use> given = {};  // not computed: further inputs, after the program's own
  std::vector<int> without = {};         // instructions that are not run, whatever needs them
};

struct Pruned {
  Program program;                  // slots and instructions renumbered
  std::vector<std::size_t> inputs;  // which inputs of the whole program these are
};

/// Keeps what the wanted values and instructions are computed from, and what `after` says must run before; a later instruction that `after`
/// names is not needed for it, and stays later in the program: see in_order. A write to a variable (external memory) runs only if it is
/// asked for, or comes before something asked for by `after`; a write to a value that the program makes, also in external memory, belongs
/// to that value, unless it is filled anew before it is read.
/// @throws UsageError where what is given is a part of another value, or changed in place after it is computed
Pruned prune(const Program& program, Wanted wanted);

}  // namespace gemel
