// A model's step as a whole and in pieces, for tests of how programs are cut.
#pragma once
#include <memory>
#include <vector>

#include "engine/graph/cut/split.h"
#include "frontends/nn/module.h"

namespace gemel::testing {

/// float32, sines of growing angles.
Value waves(Session& session, const Shape& shape, double step = 1);

/// Residual blocks that draw and have state that moves. Names 0 to 5: two blocks {conv, bn, dropout}, one more dropout, a mean, a linear layer.
std::unique_ptr<nn::Module> residual_net();

/// A model, what it is given, and the step that all ways of computing it have in common: a summed loss and its gradients.
struct SplitCase {
  Session& session;
  std::unique_ptr<nn::Module> model;
  Values in;  // pictures, labels, random state
  Values parameters;

  SplitCase(Session& in_session, std::unique_ptr<nn::Module> made, const Shape& pictures, std::int64_t classes);
  /// The loss, with a history, and the classes found, without.
  Values forward(const Values& x);
  /// The same, then the gradients of the parameters.
  Values whole(const Values& x);
  Program captured();
};

/// All pieces forwards, then each differentiated by itself, backwards.
/// @return what the last piece gives, then the gradients of the parameters, each summed from the last piece on
Values in_pieces(Session& session, const std::vector<Piece>& pieces, const Values& in, const Values& parameters, Kept kept = Kept::all);
/// The same with two captured programs a piece, optimised.
Values in_halves(Session& session, const std::vector<Piece>& pieces, const Values& in, const Values& parameters, Kept kept = Kept::all);

}  // namespace gemel::testing
