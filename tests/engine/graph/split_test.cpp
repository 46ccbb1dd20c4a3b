// Programs cut into pieces compute the bits of the whole, forwards and backwards, wherever the cuts are.
#include "engine/graph/cut/split.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "engine/base/numbers.h"
#include "engine/ops/ops.h"
#include "frontends/graph/compile.h"
#include "frontends/models/pictures/picture_models.h"
#include "opencl/device/device.h"
#include "tests/support/device/test_device.h"
#include "tests/support/models/split_case.h"

namespace gemel::testing {
namespace {

using List = std::vector<double>;
using Modules = std::vector<std::string>;
using Cuts = std::vector<std::size_t>;

enum class How { whole, whole_graph, pieces, pieces_graph, halves };

/// Loss, classes and gradients of each parameter; then the buffers as the step left them.
std::vector<List> trained(SplitCase& c, How how, const std::vector<Piece>& pieces, Kept kept = Kept::all) {
  const auto step = [&](const Values& x) {
    return how == How::pieces || how == How::pieces_graph ? in_pieces(c.session, pieces, x, c.parameters, kept) : c.whole(x);
  };
  Values results;
  if (how == How::halves)
    results = in_halves(c.session, pieces, c.in, c.parameters, kept);
  else if (how == How::whole_graph || how == How::pieces_graph)
    results = graph::compile(c.session, step)(c.in);
  else
    results = step(c.in);
  std::vector<List> out;
  for (const Value& v : results) out.push_back(read(v));
  for (const NamedValue& b : c.model->parameters().buffers()) out.push_back(read(b.value));
  return out;
}

class ProgramSplit : public ::testing::TestWithParam<Where> {
 protected:
  std::unique_ptr<Session> owned = session_on(GetParam(), 3);
  Session& session = *owned;

  using Make = std::unique_ptr<nn::Module> (*)();
  /// Each way on a model of its own, which begins with the same contents.
  void expect_the_bits_of_the_whole(Make make, const Shape& pictures, std::int64_t classes, const std::function<Cuts(const Program&)>& cuts) {
    const auto by = [&](How how, Kept kept = Kept::all) {
      SplitCase c(session, make(), pictures, classes);
      const Program program = c.captured();
      return trained(c, how, split(program, cuts(program), c.parameters), kept);
    };
    const auto eager = by(How::whole), captured = by(How::whole_graph);
    EXPECT_EQ(by(How::pieces), eager);
    EXPECT_EQ(by(How::pieces_graph), captured);
    EXPECT_EQ(by(How::halves), captured);
    EXPECT_EQ(by(How::pieces, Kept::inputs), eager);
    EXPECT_EQ(by(How::pieces_graph, Kept::inputs), captured);
    EXPECT_EQ(by(How::halves, Kept::inputs), captured);
  }
  static std::function<Cuts(const Program&)> before(Modules modules) {
    return [modules](const Program& program) { return cuts_before(program, modules); };
  }
};
INSTANTIATE_TEST_SUITE_P(, ProgramSplit, ::testing::Values(Where::reference, Where::device),
                         [](const auto& i) { return i.param == Where::reference ? "reference" : "device"; });

std::unique_ptr<nn::Module> lenet() { return models::make("lenet", {.classes = 4, .channels = 1}); }
std::unique_ptr<nn::Module> resnet18() { return models::make("resnet18", {.classes = 4}); }

TEST_P(ProgramSplit, lenet_in_three_pieces_computes_the_bits_of_the_whole) { expect_the_bits_of_the_whole(lenet, {3, 32, 32, 1}, 4, before({"conv2", "fc2"})); }

TEST_P(ProgramSplit, a_cut_inside_a_skip_connection_passes_the_value_through) {
  expect_the_bits_of_the_whole(residual_net, {2, 5, 5, 3}, 2, before({"0.bn", "1.dropout", "5"}));
}

TEST_P(ProgramSplit, a_cut_anywhere_computes_the_bits_of_the_whole) {
  SplitCase c(session, residual_net(), {2, 5, 5, 3}, 2);
  const auto eager = trained(c, How::whole, {});
  const std::size_t length = c.captured().code.size();
  ASSERT_GT(length, 12u);
  for (std::size_t cut = 1; cut < length; ++cut) {
    SplitCase again(session, residual_net(), {2, 5, 5, 3}, 2);
    EXPECT_EQ(trained(again, How::pieces, split(again.captured(), {cut}, again.parameters)), eager) << "before instruction " << cut;
  }
}

TEST_P(ProgramSplit, an_instruction_a_piece_computes_the_bits_of_the_whole) {
  expect_the_bits_of_the_whole(residual_net, {2, 5, 5, 3}, 2, [](const Program& program) {
    Cuts all;
    for (std::size_t i = 1; i < program.code.size(); ++i) all.push_back(i);
    return all;
  });
}

TEST(ProgramSplitModels, resnet18_cut_at_layer3_computes_the_bits_of_the_whole) {
  Session session(shared_test_device(), 3);
  const auto by = [&](How how) {
    SplitCase c(session, resnet18(), {2, 32, 32, 3}, 4);
    const Program program = c.captured();
    return trained(c, how, split(program, cuts_before(program, {"layer3"}), c.parameters));
  };
  EXPECT_EQ(by(How::pieces), by(How::whole));
  EXPECT_EQ(by(How::halves), by(How::whole_graph));
}

TEST(ProgramSplitModels, a_piece_lets_go_of_what_is_not_used_any_more) {
  Session session(shared_test_device());
  const Spec spec = f32({1 << 16});
  const Program program = capture(
      session, {spec},
      [](const Values& x) -> Values {
        Value y = x[0];
        for (int i = 0; i < 8; ++i) y = tanh(y);
        return {y};
      },
      Outside::bound_for_replay);
  const auto pieces = split(program, {4}, {});
  opencl::Allocator& memory = session.device().memory();
  Values arrived = run(session, pieces[0], list(session.empty(spec)));
  const std::int64_t before = memory.statistics().in_use;
  memory.reset_peak();
  arrived = run(session, pieces[1], std::move(arrived));
  EXPECT_EQ(memory.statistics().in_use, before);
  EXPECT_LT(memory.statistics().peak_in_use, before + 2 * spec.bytes()) << "four results, of which one is there at a time";
}

TEST(ProgramSplitModels, modules_that_are_computed_again_are_captured_with_their_histories) {
  const auto owned = Session::reference(3);
  Session& session = *owned;
  const auto gradients = [&](nn::Recompute recompute) {
    SplitCase c(session, residual_net(), {2, 5, 5, 3}, 2);
    c.model->find("0")->set_recompute(recompute);
    const Program program = c.captured();
    return trained(c, How::pieces, split(program, cuts_before(program, {"0.bn"}), c.parameters));
  };
  EXPECT_EQ(gradients(nn::Recompute::yes), gradients(nn::Recompute::no));
}

}  // namespace
}  // namespace gemel::testing
