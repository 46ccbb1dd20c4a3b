// The forward and the backward pass of a piece as two programs, between which others may run: what the second reads of the first is
// saved by name.
#pragma once
#include <cstddef>
#include <functional>
#include <vector>

#include "engine/gradients/autograd.h"
#include "engine/graph/cut/split.h"

namespace gemel {

/// Sections of one program whose inputs are the piece's (its own, what arrives), then a gradient for each output that has a history.
/// Both are for an Executor; what the piece uses of memory is bound.
struct ForwardBackward {
  Section forward;                     // outputs: the piece's, then what is saved
  Section backward;                    // inputs: some of those above by `own`, then what is saved. Outputs: gradients of what arrives and wants one
                                       // (zeros where none flows), then of the parameters that are reached and have no place, all dense,
                                       // then left and right of each product that is postponed
  std::vector<bool> reached;           // [Piece::parameters] whether a gradient flows to it that is not postponed
  std::vector<std::size_t> postponed;  // of Piece::parameters, by index
  std::vector<Program::Use> saved;
};

/// Where gradients of Piece::parameters() go, whether they are added to what lies there, and which products are postponed: as GradientOptions says.
struct GradientPlaces {
  using Postponed = std::function<void(std::size_t parameter, const Value& left, const Value& right)>;
  Values into = {};
  std::vector<bool> adds = {};  // none: no gradient is
  std::function<bool(const Spec& left, const Spec& right)> postpones = {};

  /// Of a pass to so many other values and then to the parameters. @param postponed  gets the factors of each product that is
  GradientOptions behind(std::size_t others, Postponed postponed) const;
};

/// @param kept    `inputs`: the second computes again what it reads, and nothing is saved but copies of state that the first changes
/// @param places  none: all gradients are outputs
ForwardBackward split_backward(Session& session, const Piece& piece, Kept kept = Kept::all, const GradientPlaces& places = {});

}  // namespace gemel
