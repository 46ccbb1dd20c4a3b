// What pieces of a program say of themselves: what crosses, what is bound, saved and shared, where cuts may be; and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/gradients/autograd.h"
#include "engine/gradients/row_gradient.h"
#include "engine/graph/cut/split_backward.h"
#include "engine/ops/ops.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "tests/support/message_of.h"
#include "tests/support/models/split_case.h"

namespace gemel::testing {
namespace {

using List = std::vector<double>;
using Modules = std::vector<std::string>;
using Cuts = std::vector<std::size_t>;

/// Words to scores, by one table for both: a piece each.
class TiedModel : public nn::Module {
 public:
  TiedModel() : words_(add<nn::Embedding>("words", 5, 3)), norm_(add<nn::LayerNorm>("norm", 3)), head_(add<nn::TiedLinear>("head", words_)) {}

 protected:
  Value forward(Value x) override { return head_(norm_(words_(std::move(x)))); }

 private:
  nn::Embedding& words_;
  nn::LayerNorm& norm_;
  nn::TiedLinear& head_;
};

class ProgramPieces : public ::testing::Test {
 protected:
  std::unique_ptr<Session> owned = Session::reference(3);
  Session& session = *owned;
};

TEST_F(ProgramPieces, the_gradients_of_tied_weights_add_up) {
  TiedModel model;
  model.materialise(session);
  const Values parameters = values_of(model.parameters().trainable());
  const Value words = session.tensor(i64({2, 3}), List{4, 2, 4, 0, 2, 1});
  const auto loss = [&](const Values& x) -> Values { return {sum(square(model(x[0])))}; };
  const Program program = capture(session, {words.spec()}, loss, Outside::bound_for_replay);
  const auto pieces = split(program, cuts_before(program, {"norm", "head"}), parameters);
  const Values found = in_pieces(session, pieces, {words}, parameters), whole = gradient(loss({words}), parameters);
  ASSERT_EQ(found.size(), 1 + whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(read(found[1 + i]), read(whole[i])) << "parameter " << i;
}

TEST_F(ProgramPieces, only_values_that_lead_to_an_output_with_a_history_want_gradients) {
  const Value w = leaf(waves(session, {3}));
  const Program program = capture(
      session, {f32({3}), i64({3})},
      [&](const Values& x) -> Values {
        const Value prepared = x[0] * 2.0, scaled = prepared * w, found = argmax(scaled.detached(), 0);
        return {sum(exp(scaled) * prepared), found, cast(x[1], DType::float32)};
      },
      Outside::bound_for_replay);
  ASSERT_EQ(program.code.size(), 8u) << to_string(program);
  const auto pieces = split(program, {2, 4}, {w});
  const auto said = [](const std::vector<Program::Use>& uses) {
    std::string text;
    for (const auto& u : uses) text += to_string(u.spec) + (u.tracked ? " wants one; " : "; ");
    return text;
  };
  EXPECT_EQ(said(pieces[1].arrives), "float32 [3]; ") << "what no parameter is in wants none";
  EXPECT_EQ(said(pieces[2].arrives), "float32 [3]; float32 [3] wants one; int64 []; ") << "in the order in which they are made";
  EXPECT_EQ(pieces[2].arrives, pieces[1].leaves);
  EXPECT_TRUE(pieces[0].leaves == pieces[1].arrives && pieces[0].arrives.empty() && pieces[2].leaves.empty());
  EXPECT_EQ(pieces[0].own, (std::vector<std::size_t>{0}));
  EXPECT_EQ(pieces[1].own, (std::vector<std::size_t>{}));
  EXPECT_EQ(pieces[2].own, (std::vector<std::size_t>{1}));
  EXPECT_EQ(pieces[0].parameters().size() + pieces[2].parameters().size(), 0u);
  ASSERT_EQ(pieces[1].parameters().size(), 1u);
  EXPECT_EQ(pieces[1].parameters()[0].node(), w.node());
}

TEST_F(ProgramPieces, what_leads_to_detached_outputs_alone_wants_no_gradient) {
  const Value w = leaf(waves(session, {3}));
  const Program program = capture(
      session, {f32({3})},
      [&](const Values& x) -> Values {
        const Value y = x[0] * w;
        return {sum(exp(w)), sum(y).detached()};
      },
      Outside::bound_for_replay);
  const auto pieces = split(program, {1}, {w});
  ASSERT_EQ(pieces[1].arrives.size(), 1u);
  EXPECT_FALSE(pieces[1].arrives[0].tracked);
  EXPECT_FALSE(run(session, pieces[0], {waves(session, {3})})[0].wants_gradient());
}

TEST_F(ProgramPieces, a_piece_tells_of_the_statistics_that_it_moves) {
  SplitCase c(session, residual_net(), {2, 5, 5, 3}, 2);
  const Program program = c.captured();
  const auto pieces = split(program, cuts_before(program, {"1", "2"}), c.parameters);
  const ParameterSet set = c.model->parameters();
  for (int p : {0, 1}) {
    std::vector<std::string> moved;
    for (const Value& v : pieces[at(p)].state())
      for (const NamedValue& b : set.buffers())
        if (b.value.storage() == v.storage()) moved.push_back(b.name);
    std::ranges::sort(moved);
    const std::string bn = std::to_string(p) + ".bn.";
    EXPECT_EQ(moved, (Modules{bn + "num_batches_tracked", bn + "running_mean", bn + "running_var"}));
  }
  EXPECT_TRUE(pieces[2].state().empty());
}

TEST_F(ProgramPieces, pieces_hold_until_a_parameter_is_frozen_or_a_mode_changes) {
  SplitCase c(session, residual_net(), {2, 5, 5, 3}, 2);
  const auto pieces = split(c.captured(), {4}, c.parameters);
  const auto hold = [&] { return still_holds(pieces[0].program) && still_holds(pieces[1].program); };
  EXPECT_TRUE(hold());
  c.model->find("5")->freeze();
  EXPECT_FALSE(hold());
  c.model->find("5")->unfreeze();
  EXPECT_TRUE(hold());
  c.model->eval();
  EXPECT_FALSE(hold());
}

TEST_F(ProgramPieces, frozen_parameters_get_no_gradient) {
  SplitCase c(session, residual_net(), {2, 5, 5, 3}, 2);
  c.model->find("0")->freeze();
  const Program program = c.captured();
  const auto pieces = split(program, cuts_before(program, {"1"}), c.parameters);
  EXPECT_FALSE(pieces[1].arrives[0].tracked) << "nothing behind the cut wants one";
  EXPECT_TRUE(split_backward(session, pieces[0]).backward.program.outputs.empty());
  const Values found = in_pieces(session, pieces, c.in, c.parameters), whole = c.whole(c.in);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_EQ(bool(found[i]), bool(whole[i])) << i;
    if (whole[i]) {
      EXPECT_EQ(read(found[i]), read(whole[i])) << i;
    }
  }
}

TEST_F(ProgramPieces, what_is_saved_between_the_passes_is_what_the_second_reads) {
  const Value w = leaf(waves(session, {3, 3}));
  const Program program = capture(
      session, {f32({2, 3})}, [&](const Values& x) -> Values { return {sum(tanh(matmul(x[0], w)))}; }, Outside::bound_for_replay);
  const auto halves = split_backward(session, split(program, {}, {w})[0]);
  ASSERT_EQ(halves.saved.size(), 1u) << "the result of tanh";
  EXPECT_EQ(halves.saved[0].spec, f32({2, 3}));
  EXPECT_EQ(halves.backward.own, (std::vector<std::size_t>{0, 1})) << "x, for the gradient of w, and that of the loss";
  EXPECT_EQ(halves.reached, std::vector<bool>{true});
}

TEST_F(ProgramPieces, where_inputs_alone_are_kept_copies_of_the_state_are_saved) {
  SplitCase c(session, residual_net(), {2, 5, 5, 3}, 2);
  const Program program = c.captured();
  const auto pieces = split(program, cuts_before(program, {"1"}), c.parameters);
  const auto saved = [&](Kept kept) {
    std::int64_t bytes = 0;
    for (const auto& u : split_backward(session, pieces[0], kept).saved) bytes += u.spec.bytes();
    return bytes;
  };
  EXPECT_EQ(saved(Kept::inputs), 2 * f32({3}).bytes() + i64({}).bytes()) << "mean, variance and count of one normalisation";
  EXPECT_GE(saved(Kept::all), 2 * f32({2, 5, 5, 3}).bytes()) << "what the normalisation and the relu read";
}

TEST_F(ProgramPieces, gradients_that_are_rows_leave_a_backward_program_dense) {
  nn::Sequential model;
  model.emplace<nn::Embedding>(5, 3, std::nullopt, GradientForm::rows);
  model.emplace<nn::Linear>(3, 2);
  model.materialise(session);
  const Values parameters = values_of(model.parameters().trainable());
  const Value words = session.tensor(i64({2, 3}), List{4, 2, 4, 0, 2, 1});
  const auto loss = [&](const Values& x) -> Values { return {sum(square(model(x[0])))}; };
  const Program program = capture(session, {words.spec()}, loss, Outside::bound_for_replay);
  const auto pieces = split(program, cuts_before(program, {"1"}), parameters);
  const Values whole = gradient(loss({words}), parameters), eager = in_pieces(session, pieces, {words}, parameters),
               halves = in_halves(session, pieces, {words}, parameters, Kept::all);
  ASSERT_TRUE(row_values(whole[0]));
  ASSERT_TRUE(row_values(eager[1]));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(read(to_dense(eager[1 + i])), read(to_dense(whole[i]))) << i;
    EXPECT_EQ(read(halves[1 + i]), read(to_dense(whole[i]))) << i;
  }
}

TEST_F(ProgramPieces, loops_and_their_draws_are_those_of_the_whole) {
  const Value w = leaf(waves(session, {3}));
  const auto loss = [&](const Values& x) -> Values {
    session.random().begin(x[1]);
    const auto below = [](const Values& v) { return less(v[1], full(v[1].session(), f32({}), 3)); };
    const auto body = [&](const Values& v) -> Values { return {dropout(tanh(v[0] * w), 0.3), v[1] + 1.0}; };
    return {sum(square(while_loop(below, body, {exp(x[0]) * w, full(session, f32({}), 0)}, 4)[0] * w))};
  };
  const Values in{waves(session, {3}, 0.3), random_state(session, 2)};
  const Values outcome = loss(in);
  const Value whole = gradient(outcome, {w})[0];
  const Program program = capture(session, specs_of(in), loss, Outside::bound_for_replay);
  for (std::size_t cut = 1; cut < program.code.size(); ++cut) {
    const Values found = in_pieces(session, split(program, {cut}, {w}), in, {w});
    EXPECT_EQ(read(found[0]), read(outcome[0])) << "before instruction " << cut;
    const List a = read(found[1]), b = read(whole);
    for (std::size_t i = 0; i < b.size(); ++i) EXPECT_DOUBLE_EQ(a[i], b[i]) << "w is used on both sides, and its sums are added";
  }
}

TEST_F(ProgramPieces, cut_points_are_where_modules_begin) {
  SplitCase c(session, residual_net(), {2, 5, 5, 3}, 2);
  std::vector<std::pair<std::string, std::int64_t>> points;
  const Program program = c.captured();
  for (const CutPoint& p : cut_points(program)) {
    points.emplace_back(p.module, p.bytes);
    EXPECT_EQ(cuts_before(program, {p.module}), Cuts{p.index});
    EXPECT_EQ(p.specs.size(), crossing(program, p.index).size());
  }
  const std::int64_t picture = f32({2, 5, 5, 3}).bytes(), means = f32({2, 3}).bytes();
  EXPECT_EQ(points, (std::vector<std::pair<std::string, std::int64_t>>{{"0.bn", picture},
                                                                       {"0.dropout", picture},
                                                                       {"1", picture},
                                                                       {"1.bn", 2 * picture},
                                                                       {"1.dropout", 2 * picture},
                                                                       {"2", picture},
                                                                       {"3", picture},
                                                                       {"5", means}}))
      << "pictures that the program is given do not cross, what skips a module does";
}

// ---- refusals

class ProgramPiecesRefusals : public ProgramPieces {
 protected:
  SplitCase c{session, models::make("lenet", {.classes = 4, .channels = 1}), {3, 32, 32, 1}, 4};
  Program program = c.captured();
  std::string refused(const Modules& modules) {
    return message_of<UsageError>([&] { cuts_before(program, modules); });
  }
  std::string refused(const Cuts& cuts) {
    return message_of<UsageError>([&] { split(program, cuts, {}); });
  }
};

TEST_F(ProgramPiecesRefusals, modules_that_are_not_there) {
  const std::string accepted = "; accepted: conv2, fc1, fc2, fc3, or a module within one";
  EXPECT_EQ(refused(Modules{"conv3"}), "pipeline: no module 'conv3' computes anything" + accepted);
  EXPECT_EQ(refused(Modules{"conv2", "fc"}), "pipeline: no module 'fc' computes anything" + accepted);
  EXPECT_EQ(refused(Modules{""}), "pipeline: no module '' computes anything" + accepted);
}

TEST_F(ProgramPiecesRefusals, modules_out_of_order) {
  EXPECT_EQ(refused(Modules{"fc2", "conv2"}), "pipeline: 'conv2' is named behind 'fc2' and runs before it; accepted: modules in the order in which they run");
}

TEST_F(ProgramPiecesRefusals, empty_pieces) {
  const std::string accepted = " is empty; accepted: modules that others run before: conv2, fc1, fc2, fc3, or a module within one";
  EXPECT_EQ(refused(Modules{"conv1"}), "pipeline: the piece before 'conv1'" + accepted);
  EXPECT_EQ(refused(Modules{"fc1", "fc1"}), "pipeline: the piece from 'fc1' to 'fc1'" + accepted);
}

TEST_F(ProgramPiecesRefusals, cuts_out_of_range_or_order) {
  const std::string n = std::to_string(program.code.size());
  const std::string accepted = " of " + n + "; accepted: cuts in ascending order that leave an instruction to each piece";
  EXPECT_EQ(refused(Cuts{0}), "pipeline: cut 0 is before instruction 0" + accepted);
  EXPECT_EQ(refused(Cuts{3, program.code.size()}), "pipeline: cut 1 is before instruction " + n + accepted);
  EXPECT_EQ(refused(Cuts{4, 3}), "pipeline: cut 1 is before instruction 3" + accepted);
}

TEST_F(ProgramPiecesRefusals, a_value_that_is_changed_behind_the_cut) {
  program = capture(
      session, {f32({3})},
      [](const Values& x) -> Values {
        const Value y = exp(x[0]), z = y * 2.0;
        assign(y, z);
        return {y + z};
      },
      Outside::bound_for_replay);
  EXPECT_EQ(refused(Cuts{1}),
            "pipeline: the value float32 [3] crosses the cut before instruction 1 and is changed in place behind it by assign; accepted: cuts on "
            "one side of where it is made and changed");
}

TEST_F(ProgramPiecesRefusals, backward_hooks_that_nothing_would_call) {
  c.model->find("fc1")->add_backward_hook([](nn::Module&, Value&, std::size_t) {});
  EXPECT_EQ(
      message_of<UsageError>([&] { c.captured(); }),
      "Linear(400, 120): its backward hooks are not called where it is applied again from a capture (a conditional, a loop, a pipeline); accepted: a module "
      "without them");
}

TEST_F(ProgramPiecesRefusals, an_input_bound_to_another_spec) {
  const Piece piece = split(program, {}, c.parameters)[0];
  EXPECT_EQ(message_of<ShapeError>([&] { with_bound(piece, {{0, c.in[1]}}); }), "pipeline: int64 [3] is bound as input 0; accepted: float32 [3, 32, 32, 1]");
}

TEST_F(ProgramPiecesRefusals, a_piece_that_is_given_too_little) {
  const auto pieces = split(program, {5}, c.parameters);
  EXPECT_EQ(message_of<UsageError>([&] { run(session, pieces[1], {c.in[1]}); }),
            "pipeline: a piece is given 1 values; accepted: 2, of its own 1 and those that arrive");
}

}  // namespace
}  // namespace gemel::testing
