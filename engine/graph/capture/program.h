// Program: straight-line code over slots, as a capture leaves it. A slot is one storage; uses of it differ in shape and offset.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel {

struct Program {
  struct Use {
    int slot = -1;
    Spec spec;
    std::int64_t offset = 0;    // in elements
    std::uint64_t version = 0;  // of the storage when it was used: (slot, version) names one content
    bool tracked = false;       // the handle had a history: a replay lets gradients through here, and only here
    bool operator==(const Use&) const = default;
  };
  struct Instruction {
    const OpDef* op = nullptr;
    Attributes attributes;
    std::vector<Use> inputs, outputs;
    std::string scope;       // path of the module that applied it
    std::vector<int> after;  // instructions (by index) that must run before, beyond what data says; until passes have run. Those that
                             // come later in the program do so where they are run too: in_order (engine/graph/capture/instruction_order.h) moves them
    std::shared_ptr<const void> owner;  // keeps a record made for this program alive (fusion, custom functions)
  };
  struct Slot {
    std::int64_t bytes = 0;             // on the device
    std::shared_ptr<Storage> external;  // memory bound for good (parameters, statistics, constants), or null
    std::string name;                   // of a placeholder or a variable; "" for the others
    Spec spec{};                        // of the value by which it became known
  };
  std::vector<Slot> slots;
  std::vector<Use> inputs, outputs;
  std::vector<Instruction> code;                   // in program order; a write is ordered against reads of the same slot by it
  Values captured;                                 // values from outside that became the last inputs (a loop's body, a branch, a piece)
  std::vector<std::function<bool()>> assumptions;  // see Trace::assume
};

/// Whether what the capture took for granted is still so.
bool still_holds(const Program& program);

/// Slots whose memory an instruction changes for others to see: inputs that its record writes, and outputs in memory from outside.
std::vector<int> written_by(const Program& program, const Program::Instruction& step);
/// Whether a write to one slot may change what the other holds: they are one, or one's memory is a range of the other's.
bool overlap(const Program& program, int a, int b);

/// What happens to concrete values from outside: bound for good, or passed as further inputs, listed in `captured`. `bound_for_replay`:
/// bound, in a program that is differentiated by applying it again, so that all of it is recorded with its history.
enum class Outside { bound, passed, bound_for_replay };

/// Runs `body` once with symbolic inputs and records what it applies. Writes nothing: versions are put back afterwards.
/// @throws UsageError for reading a symbolic value, a constant random state, a body that writes outside values when passed
Program capture(Session& session, const Specs& inputs, const std::function<Values(const Values&)>& body, Outside outside = Outside::bound);

/// Applies a program without memory bound for good (Outside::passed) again, operator by operator, under the trace in force: with
/// histories, so it differentiates, and with its writes. What is not used any more is let go, inputs too where they are given away.
Values replay(Session& session, const Program& program, Values inputs);

/// Checks that every use is defined before it, slots and specs agree with `infer`, and each slot without memory is made once.
/// @param after  names the pass that ran, for the message. @throws InternalError
void verify(const Program& program, const std::string& after);

/// A readable listing: one instruction a line.
std::string to_string(const Program& program);

}  // namespace gemel
