// Splitting: a captured program cut into pieces that are applied one after the other, each on a device of its own if wanted, and
// differentiated one by one. Together they compute the bits of the whole, forwards and backwards.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

/// What is made or changed before instruction `cut` and used from there on, or is an output of the program: in the order in which it is
/// made, each value whole and once. What skips a piece passes through it. `tracked`: it wants a gradient, as a history leads from
/// there to an output; the others are to be given without one.
std::vector<Program::Use> crossing(const Program& program, std::size_t cut);

/// A run of instructions as a program of its own, with memory bound as in the whole.
struct Section {
  Program program;               // inputs: `own`, then what arrives
  std::vector<std::size_t> own;  // inputs of the whole that it uses, by index
};
/// @param arrives  what crosses before `first`  @param values  become the outputs
/// @throws UsageError a value that arrives and is changed in place
Section section(const Program& whole, std::size_t first, std::size_t last, const std::vector<Program::Use>& arrives, const std::vector<Program::Use>& values);

/// A section that is applied again (`run`) and differentiated: memory that the whole has bound is an input too.
struct Piece {
  /// Inputs: `own`, then `arrives`, then what was bound (Program::captured, parameters with their histories).
  /// Outputs: `leaves`; of the last piece the whole program's outputs.
  Program program;
  std::vector<std::size_t> own;               // inputs of the whole that it uses, by index: the batch, the random state
  std::vector<Program::Use> arrives, leaves;  // see crossing; slots are the whole program's

  /// What it uses of the parameters that were named, and what it changes in place of memory that was bound (running statistics).
  Values parameters() const;
  Values state() const;
  /// Whether it changes one of `own` in place. @param input  of the whole program, by index
  bool changes(std::size_t input) const;
};

/// Cuts a program that was captured with Outside::bound_for_replay; another one may lack histories.
/// @param cuts        instruction cuts[k] begins piece k + 1; none: one piece
/// @param parameters  leaves to which gradients flow where their memory is bound; what else is bound is used without a history
/// @return pieces that hold no longer than `still_holds` says of their programs: parameters stay frozen or not, modules in their modes
/// @throws UsageError cuts out of range or order; a value that crosses a cut and is changed in place behind it
std::vector<Piece> split(const Program& program, const std::vector<std::size_t>& cuts, const Values& parameters);

/// A piece with some of the whole program's inputs given for good: the parameters and statistics of a model that was captured as names,
/// in the session that runs the piece.
/// @param values  by index of the whole program's inputs; those that the piece does not use are left out
/// @throws ShapeError a value of another spec
Piece with_bound(Piece piece, const std::map<std::size_t, Value>& values);

/// What a piece's forward pass keeps for its backward pass: all that this reads, or the inputs alone, from which it computes the piece
/// again (engine/gradients/recompute.h) and which must stay as they are until then; so must the piece.
enum class Kept { all, inputs };

/// Applies a piece. Values given away are let go after their last use. Histories begin at inputs that are leaves.
/// @param inputs  its own, then what arrives
Values run(Session& session, const Piece& piece, Values inputs, Kept kept = Kept::all);

/// Where a program may be cut: before the first instruction of a module.
struct CutPoint {
  std::size_t index;   // of that instruction
  std::string module;  // its path
  Specs specs;         // of what crosses
  std::int64_t bytes;  // of it, one way; gradients go the other
};

/// A point for each module in the top two levels of names that others run before: of several that begin together, the outermost.
std::vector<CutPoint> cut_points(const Program& program);

/// Cuts before modules, at any depth.
/// @param modules  paths of the first module of each piece but the first
/// @throws UsageError an unknown path, paths out of order, an empty piece
std::vector<std::size_t> cuts_before(const Program& program, const std::vector<std::string>& modules);

}  // namespace gemel
