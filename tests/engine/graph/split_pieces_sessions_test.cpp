// Pieces of a model that no device holds as a whole.
#include <gtest/gtest.h>

#include <map>
#include <span>
#include <string>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/gradients/autograd.h"
#include "engine/graph/cut/split_backward.h"
#include "tests/support/models/split_case.h"

namespace gemel::testing {
namespace {

/// A model's parameters, then its buffers.
struct ModelState {
  std::vector<nn::Parameter*> parameters;
  std::vector<nn::Buffer*> buffers;
  explicit ModelState(nn::Module& model) {
    model.visit([this](const std::string&, nn::Module& m) {
      for (const auto& p : m.own_parameters()) parameters.push_back(p.get());
      for (const auto& b : m.own_buffers()) buffers.push_back(b.get());
    });
  }
  Specs specs() const {
    Specs out;
    for (const auto* p : parameters) out.push_back(p->spec);
    for (const auto* b : buffers) out.push_back(b->spec);
    return out;
  }
  void put(std::span<const Value> values) {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i]->bind(values[i]);
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i]->value = values[parameters.size() + i];
  }
  /// By index of a program's inputs. @param first  of these
  std::map<std::size_t, Value> values(std::size_t first) const {
    std::map<std::size_t, Value> out;
    for (const auto* p : parameters) out.emplace(first + out.size(), p->tensor());
    for (const auto* b : buffers) out.emplace(first + out.size(), b->tensor());
    return out;
  }
};

/// As where no device holds the whole model: it is captured as names, and each piece is bound in the session of a device of its own.
TEST(ProgramPiecesSessions, pieces_run_in_sessions_of_their_own) {
  const auto owned = Session::reference(3);
  Session& session = *owned;
  const auto other = Session::reference(3);
  SplitCase whole(session, residual_net(), {2, 5, 5, 3}, 2), first(session, residual_net(), {2, 5, 5, 3}, 2), second(*other, residual_net(), {2, 5, 5, 3}, 2);
  SplitCase named(session, residual_net(), {2, 5, 5, 3}, 2);
  ModelState names(*named.model);
  Specs specs = specs_of(named.in);
  const std::size_t given = specs.size();
  for (const Spec& s : names.specs()) specs.push_back(s);
  const Program program = capture(
      session, specs,
      [&](const Values& x) {
        names.put(std::span(x).subspan(given));
        return named.forward(x);
      },
      Outside::bound_for_replay);
  const auto pieces = split(program, cuts_before(program, {"1.bn"}), {});
  const Piece a = with_bound(pieces[0], ModelState(*first.model).values(given)), b = with_bound(pieces[1], ModelState(*second.model).values(given));
  const auto moved = [](Session& to, const Value& v) { return to.tensor(v.spec(), read(v)); };
  const auto own = [](const Piece& piece, const Values& in) {
    Values out;
    for (std::size_t i : piece.own) out.push_back(in[i]);
    return out;
  };
  const Values left = run(session, a, own(a, first.in));
  Values in_second = own(b, second.in), targets;
  for (const Value& v : left) targets.push_back(leaf(moved(*other, v)));
  in_second.insert(in_second.end(), targets.begin(), targets.end());
  for (const Value& p : b.parameters()) targets.push_back(p);
  const Values right = run(*other, b, in_second), found = gradient(right, targets);
  Values seeds;
  for (std::size_t k = 0; k < left.size(); ++k) seeds.push_back(moved(session, found[k]));
  Values all = gradient(left, a.parameters(), seeds);
  all.insert(all.end(), found.begin() + static_cast<std::ptrdiff_t>(left.size()), found.end());
  const Values expected = whole.whole(whole.in);
  EXPECT_EQ(read(right[0]), read(expected[0]));
  ASSERT_EQ(all.size() + 2, expected.size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(read(all[i]), read(expected[2 + i])) << "parameter " << i;
  EXPECT_EQ(read(*second.model->parameters().find("1.bn.running_mean")), read(*whole.model->parameters().find("1.bn.running_mean")));
  EXPECT_EQ(b.state().size(), 3u);
  EXPECT_EQ(split_backward(*other, b).reached, std::vector<bool>(b.parameters().size(), true));
}

}  // namespace
}  // namespace gemel::testing
