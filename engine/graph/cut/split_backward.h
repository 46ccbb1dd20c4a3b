// split_backward: the forward and the backward pass of a piece as two programs. The values that the second reads of the first are saved explicitly, so
// other pieces can run in between.
#pragma once
#include <cstddef>
#include <functional>
#include <vector>

#include "engine/gradients/autograd.h"
#include "engine/graph/cut/split.h"

namespace gemel {

/// Two sections of one program, each for an Executor. Inputs of that program: the piece's own inputs, the values that arrive, then a gradient for each
/// output with a history. Memory that the piece uses is bound.
struct ForwardBackward {
  Section forward;                     // outputs: those of the piece, then the saved values
  Section backward;                    // inputs: some of those above by `own`, then the saved values. Outputs: gradients of the values that arrive
                                       // and want one (zeros if none flows), then of the reached parameters without a place, all dense, then
                                       // left and right factor of each postponed product
  std::vector<bool> reached;           // [Piece::parameters] true if a gradient flows to it that is not postponed
  std::vector<std::size_t> postponed;  // indices into Piece::parameters
  std::vector<Program::Use> saved;
};

/// Places of the gradients of Piece::parameters(), whether they are added to the contents, and which products are postponed. See GradientOptions.
struct GradientPlaces {
  using Postponed = std::function<void(std::size_t parameter, const Value& left, const Value& right)>;
  Values into = {};
  std::vector<bool> adds = {};  // empty: none is added
  std::function<bool(const Spec& left, const Spec& right)> postpones = {};

  /// Options of a backward pass to `others` other inputs, followed by the parameters. @param postponed  receives the factors of postponed products
  GradientOptions behind(std::size_t others, Postponed postponed) const;
};

/// Captures the forward and the backward pass of a piece and separates them.
/// @param kept    `inputs`: the backward pass computes the piece again; saved are only copies of state that the forward pass changes
/// @param places  empty: all gradients are outputs
ForwardBackward split_backward(Session& session, const Piece& piece, Kept kept = Kept::all, const GradientPlaces& places = {});

}  // namespace gemel
