// Program: straight-line code over slots, made by a capture. A slot stands for one storage; its uses differ in shape and offset.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel {

/// Slots, inputs, outputs and instructions.
struct Program {
  struct Use {
    int slot = -1;
    Spec spec;
    std::int64_t offset = 0;    // in elements
    std::uint64_t version = 0;  // version of the storage when it was used: (slot, version) identifies one content
    bool tracked = false;       // the value had a history: gradients of a replay flow through this use
    bool operator==(const Use&) const = default;
  };
  struct Instruction {
    const OpDef* op = nullptr;
    Attributes attributes;
    std::vector<Use> inputs, outputs;
    std::string scope;       // path of the module that applied it
    std::vector<int> after;  // indices of instructions that must run before this one, beside its data dependencies; valid until passes run. They may be
                             // later in the program: in_order (engine/graph/capture/instruction_order.h) then reorders it
    std::shared_ptr<const void> owner;  // keeps alive a record made for this program (fusion, custom functions)
  };
  struct Slot {
    std::int64_t bytes = 0;             // size on the device
    std::shared_ptr<Storage> external;  // external memory bound to the program (parameters, statistics, constants), or null
    std::string name;                   // name of a placeholder or variable; else ""
    Spec spec{};                        // spec of the first value of this slot
  };
  std::vector<Slot> slots;
  std::vector<Use> inputs, outputs;
  std::vector<Instruction> code;                   // in program order, which also orders reads and writes of one slot
  Values captured;                                 // values from outside that are the last inputs (body of a loop, branch, piece)
  std::vector<std::function<bool()>> assumptions;  // see Trace::assume
};

/// True if all assumptions of the capture still hold.
bool still_holds(const Program& program);

/// [instruction] what it computes
std::vector<OwnedProblem> problems_of(const Program& program);

/// Slots whose memory an instruction changes in place: inputs that it writes, and outputs in external memory.
std::vector<int> written_by(const Program& program, const Program::Instruction& step);
/// True if two slots share memory: they are one slot, or the memory of one is a range of that of the other.
bool overlap(const Program& program, int a, int b);

/// Treatment of computed values that a capture uses from outside. `bound`: bound to the program as external memory. `passed`: further inputs,
/// listed in `captured`. `bound_for_replay`: bound, in a program that is differentiated by replaying it.
enum class Outside { bound, passed, bound_for_replay };

/// Captures a program: runs `body` once with symbolic inputs and records the operators that it applies. Changes no memory and no versions.
/// @throws UsageError if the body reads a symbolic value, draws from a constant random state, or writes values from outside with Outside::passed
Program capture(Session& session, const Specs& inputs, const std::function<Values(const Values&)>& body, Outside outside = Outside::bound);

/// Applies the operators of a program without bound memory (Outside::passed) under the trace in force, with their histories and writes. Releases each
/// value after its last use; also inputs, if they were moved in.
/// @return the outputs of the program
Values replay(Session& session, const Program& program, Values inputs);

/// Checks that each use is defined before it, slots and specs agree with `infer`, and each slot without external memory is made once.
/// @param after  name of the pass that ran, for the message
/// @throws InternalError if a check fails
void verify(const Program& program, const std::string& after);

/// Listing of a program, one instruction on each line.
std::string to_string(const Program& program);

}  // namespace gemel
