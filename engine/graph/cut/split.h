// split: cuts a captured program into pieces that run one after the other, possibly on different devices, and are differentiated one by one.
// Together they compute the same bits as the whole program, forward and backward.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

/// Values that cross a cut: made or changed before instruction `cut`, and used from there on or an output of the program. Each value is whole and
/// occurs once, in the order in which values are made. A value that a piece does not use passes through it. `tracked` values want a gradient,
/// because an output depends on them by a history; the others must be given without history.
std::vector<Program::Use> crossing(const Program& program, std::size_t cut);

/// A range of instructions as a program of its own, with the same bound memory as the whole program.
struct Section {
  Program program;               // inputs: `own`, then the values that arrive
  std::vector<std::size_t> own;  // indices of the inputs of the whole program that it uses
};
/// Extracts instructions [first, last).
/// @param arrives  values that cross the cut before `first`
/// @param values   outputs of the section
/// @throws UsageError if a value that arrives is changed in place
Section section(const Program& whole, std::size_t first, std::size_t last, const std::vector<Program::Use>& arrives, const std::vector<Program::Use>& values);

/// A section that `run` applies and that can be differentiated. Memory that is bound to the whole program is an input of the piece.
struct Piece {
  /// Inputs: `own`, then `arrives`, then memory that was bound (Program::captured; parameters as leaves).
  /// Outputs: `leaves`; for the last piece the outputs of the whole program.
  Program program;
  std::vector<std::size_t> own;               // indices of the inputs of the whole program that it uses: the batch, the random state
  std::vector<Program::Use> arrives, leaves;  // values that cross its two cuts; slots of the whole program

  /// Parameters that the piece uses, and bound memory that it changes in place (running statistics).
  Values parameters() const;
  Values state() const;
  /// True if the piece changes an input in place. @param input  index in the whole program
  bool changes(std::size_t input) const;
};

/// Cuts a program that was captured with Outside::bound_for_replay; another one may lack histories.
/// @param cuts        instruction cuts[k] begins piece k + 1; empty: one piece
/// @param parameters  leaves to which gradients flow; other bound memory is used without a history
/// @return pieces, valid while `still_holds` is true of their programs: parameters stay frozen or unfrozen, and modules keep their modes
/// @throws UsageError for cuts out of range or order, or a value that crosses a cut and is changed in place behind it
std::vector<Piece> split(const Program& program, const std::vector<std::size_t>& cuts, const Values& parameters);

/// Binds values to some inputs of a piece: the parameters and statistics, in the session that runs the piece, of a model that was captured
/// symbolically.
/// @param values  by index of the inputs of the whole program; those that the piece does not use are ignored
/// @throws ShapeError if a value has another spec than its input
Piece with_bound(Piece piece, const std::map<std::size_t, Value>& values);

/// Values that the forward pass of a piece keeps for its backward pass. `all`: everything that the backward pass reads. `inputs`: the inputs only; the
/// backward pass computes the piece again (engine/gradients/recompute.h). Inputs and piece must stay unchanged until then.
enum class Kept { all, inputs };

/// Applies a piece. Histories begin at inputs that are leaves. Releases inputs that were moved in after their last use.
/// @param inputs  its own inputs, then the values that arrive
/// @throws UsageError for another number of inputs
Values run(Session& session, const Piece& piece, Values inputs, Kept kept = Kept::all);

/// A possible cut of a program: before the first instruction of a module.
struct CutPoint {
  std::size_t index;   // index of that instruction
  std::string module;  // path of the module
  Specs specs;         // specs of the values that cross
  std::int64_t bytes;  // size of these values, without their gradients
};

/// Cut points before the modules of the top two levels, except the first. Of modules that begin at one instruction, only the outermost.
std::vector<CutPoint> cut_points(const Program& program);

/// Indices of the cuts before the given modules, of any depth.
/// @param modules  path of the first module of each piece but the first
/// @throws UsageError for an unknown path, paths out of order, or an empty piece
std::vector<std::size_t> cuts_before(const Program& program, const std::vector<std::string>& modules);

}  // namespace gemel
