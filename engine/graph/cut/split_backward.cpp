#include "engine/graph/cut/split_backward.h"

#include <utility>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/gradients/autograd.h"
#include "engine/gradients/row_gradient.h"
#include "engine/ops/ops.h"

namespace gemel {
namespace {

/// A piece's forward pass, then its backward pass.
struct Joint {
  Program program;      // outputs: the piece's, then the gradients
  std::size_t forward;  // instructions
  std::vector<bool> reached;
  std::vector<std::size_t> postponed;
};

Specs inputs_of(const Piece& piece) {
  Specs out;
  for (std::size_t i = 0; i < piece.own.size() + piece.arrives.size(); ++i) out.push_back(piece.program.inputs[i].spec);
  for (const auto& u : piece.program.outputs)
    if (u.tracked) out.push_back(u.spec);
  return out;
}

Joint joined(Session& session, const Piece& piece, Kept kept, const GradientPlaces& places) {
  const std::size_t own = piece.own.size(), given = own + piece.arrives.size();
  Joint joint{};
  joint.program = capture(session, inputs_of(piece), [&](const Values& in) {
    Values inputs(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(given)), targets;
    for (std::size_t k = 0; k < piece.arrives.size(); ++k)
      if (piece.arrives[k].tracked) targets.push_back(inputs[own + k] = leaf(inputs[own + k]));
    const std::size_t arrived = targets.size();
    for (const Value& p : piece.parameters()) targets.push_back(p);
    const Values outputs = run(session, piece, inputs, kept);
    joint.forward = session.trace().instructions();
    Values seeds, out;
    for (std::size_t o = 0, next = given; o < outputs.size(); ++o) seeds.push_back(piece.program.outputs[o].tracked ? in[next++] : Value());
    for (const Value& v : outputs) out.push_back(v.detached());
    Values factors;
    GradientOptions options = places.behind(arrived, [&](std::size_t parameter, const Value& left, const Value& right) {
      joint.postponed.push_back(parameter);
      factors.insert(factors.end(), {left, right});
    });
    options.tape = Tape::retain;  // what is computed again is then given copies of the saved state: nothing that crosses is changed behind it
    Values gradients = gradient(outputs, targets, std::move(seeds), options);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (i >= arrived) joint.reached.push_back(static_cast<bool>(gradients[i]));
      if (i < arrived && !gradients[i]) gradients[i] = full(session, targets[i].spec(), 0);
      const bool has_place = !options.into.empty() && options.into[i];
      if (gradients[i] && !has_place) out.push_back(to_dense(std::move(gradients[i])));
    }
    out.insert(out.end(), factors.begin(), factors.end());
    return out;
  });
  return joint;
}

}  // namespace

GradientOptions GradientPlaces::behind(std::size_t others, Postponed postponed) const {
  const auto behind_others = [&](auto list) {
    if (!list.empty()) list.insert(list.begin(), others, {});
    return list;
  };
  GradientOptions out{.into = behind_others(into), .adds = behind_others(adds)};
  if (postpones)
    out.postpone = [others, asked = postpones, told = std::move(postponed)](std::size_t i, const Value& left, const Value& right) {
      const bool taken = i >= others && asked(left.spec(), right.spec());
      if (taken) told(i - others, left, right);
      return taken;
    };
  return out;
}

ForwardBackward split_backward(Session& session, const Piece& piece, Kept kept, const GradientPlaces& places) {
  Joint joint = joined(session, piece, kept, places);
  const std::size_t end = joint.program.code.size(), outputs = piece.program.outputs.size();
  std::vector<Program::Use> results(joint.program.outputs.begin(), joint.program.outputs.begin() + static_cast<std::ptrdiff_t>(outputs));
  joint.program.outputs.erase(joint.program.outputs.begin(), joint.program.outputs.begin() + static_cast<std::ptrdiff_t>(outputs));
  ForwardBackward out{.forward = {},
                      .backward = {},
                      .reached = std::move(joint.reached),
                      .postponed = std::move(joint.postponed),
                      .saved = crossing(joint.program, joint.forward)};
  results.insert(results.end(), out.saved.begin(), out.saved.end());
  out.forward = section(joint.program, 0, joint.forward, {}, results);
  out.backward = section(joint.program, joint.forward, end, out.saved, joint.program.outputs);
  out.forward.program.assumptions = out.backward.program.assumptions = piece.program.assumptions;
  return out;
}

}  // namespace gemel
