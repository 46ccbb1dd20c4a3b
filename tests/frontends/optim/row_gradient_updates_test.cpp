// Optimizers on tables whose gradient is rows: only rows that are met move, in eager and captured steps alike.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/error.h"
#include "engine/gradients/row_gradient.h"
#include "frontends/graph/graph.h"
#include "frontends/graph/runner.h"
#include "frontends/optim/clip.h"
#include "tests/support/expect_near.h"
#include "tests/support/message_of.h"
#include "tests/support/models/row_gradient_training.h"

namespace gemel::testing {
namespace {

constexpr std::size_t kRowWidth = RowModel::kWidth;
// A step chains a few dozen float32 operations on numbers of some units, of which the next step begins.
constexpr double kStepRounding = 2e-5;

class RowUpdates : public ::testing::TestWithParam<bool> {
 protected:
  bool captured() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(, RowUpdates, ::testing::Bool(), [](const auto& i) { return i.param ? "captured" : "eager"; });

TEST_P(RowUpdates, sgd_moves_the_table_as_a_dense_gradient_does_bit_for_bit) {
  RowTraining rows(GradientForm::rows, "sgd"), dense(GradientForm::dense, "sgd");
  EXPECT_TRUE(row_values(rows.gradients(words_of(rows.session, {1}))[0]));
  rows.train(kRowSteps, captured());
  dense.train(kRowSteps, captured());
  EXPECT_EQ(rows.everything(), dense.everything());
}

/// Lazy Adam by torch.optim.SparseAdam's formula in double, on a table of its own.
struct SparseAdam {
  Numbers p, m = Numbers(p.size(), 0.0), v = m;
  int t = 0;

  void step(const Numbers& words, const Numbers& gradient) {
    ++t;
    const double size = 0.125 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
    for (std::size_t row = 0; row < RowModel::kRows; ++row)
      for (std::size_t i = row * kRowWidth; i < (row + 1) * kRowWidth && std::ranges::count(words, static_cast<double>(row)); ++i) {
        m[i] += (1 - 0.9) * (gradient[i] - m[i]);
        v[i] += (1 - 0.999) * (gradient[i] * gradient[i] - v[i]);
        p[i] -= size * m[i] / (std::sqrt(v[i]) + 1e-8);
      }
  }
};

TEST_P(RowUpdates, adam_and_adamw_are_lazy_as_sparse_adam) {
  for (const char* name : {"adam", "adamw"}) {
    RowTraining training(GradientForm::rows, name);
    training.optimizer = optim::make(name, optim::no_decay_on_rows(optim::all_in_one(training.model.parameters())));
    SparseAdam expected{training.table()};
    for (const Numbers& words : kRowSteps) {
      const Values gradients = training.gradients(words_of(training.session, words));
      expected.step(words, read(to_dense(*std::ranges::find_if(gradients, row_values))));
      training.train({words}, captured());
    }
    expect_near(training.table(), expected.p, kStepRounding);
    expect_near(training.slot("mean.table.weight"), expected.m, kStepRounding);
    expect_near(training.slot("variance.table.weight"), expected.v, kStepRounding);
  }
}

TEST_P(RowUpdates, rows_that_are_not_met_keep_weights_and_moments) {
  for (const GradientForm form : {GradientForm::rows, GradientForm::dense}) {
    RowTraining training(form, "adam");
    training.train({kRowSteps[0]}, captured());
    const Numbers table = training.table(), mean = training.slot("mean.table.weight");
    training.train({kRowSteps[1]}, captured());
    const bool stays = form == GradientForm::rows;  // Adam of a dense gradient goes on along the mean
    for (std::size_t i = 8 * kRowWidth; i < 9 * kRowWidth; ++i) {
      EXPECT_EQ(training.table()[i] == table[i], stays);
      EXPECT_EQ(training.slot("mean.table.weight")[i] == mean[i], stays);
    }
    EXPECT_NE(training.table()[4 * kRowWidth], table[4 * kRowWidth]);
  }
}

TEST_P(RowUpdates, padding_stays) {
  for (const char* name : {"sgd", "adam"}) {
    RowTraining training(GradientForm::rows, name, 4);
    training.train(kRowSteps, captured());
    const Numbers table = training.table();
    for (std::size_t i = 4 * kRowWidth; i < 5 * kRowWidth; ++i) EXPECT_EQ(table[i], 0) << name;
    EXPECT_NE(table[2 * kRowWidth], 0);
  }
}

Value used_twice(RowModel& m, const Value& words) { return sum(square(m(words)) + m(words)); }
Value tied(RowModel& m, const Value& words) { return sum(square(matmul(m.table(words), m.table.weight().tensor(), Transpose::no, Transpose::yes))); }

TEST_P(RowUpdates, two_lookups_of_one_table_add_up) {
  RowTraining rows(GradientForm::rows, "sgd"), dense(GradientForm::dense, "sgd");
  rows.loss = dense.loss = used_twice;
  EXPECT_TRUE(row_values(rows.gradients(words_of(rows.session, {1}))[0]));
  rows.train({kRowSteps[0]}, captured());
  dense.train({kRowSteps[0]}, captured());
  expect_near(rows.table(), dense.table(), kStepRounding);
}

TEST_P(RowUpdates, a_tied_table_is_updated_as_a_whole) {
  RowTraining rows(GradientForm::rows, "adam"), dense(GradientForm::dense, "adam");
  rows.loss = dense.loss = tied;
  for (RowTraining* t : {&rows, &dense}) {
    t->max_norm = 0.5;
    t->train(kRowSteps, captured());
  }
  EXPECT_EQ(rows.everything(), dense.everything());
}

TEST_P(RowUpdates, clipping_goes_by_the_norm_of_summed_rows) {
  RowTraining rows(GradientForm::rows, "sgd"), dense(GradientForm::dense, "sgd");
  Values of_rows = rows.gradients(words_of(rows.session, kRowSteps[0])), of_dense = dense.gradients(words_of(dense.session, kRowSteps[0]));
  const double norm = read(dense.optimizer->clip_norm(of_dense, 1e9))[0];
  EXPECT_NEAR(read(rows.optimizer->clip_norm(of_rows, 1e9))[0], norm, norm * 1e-6);  // sums of squares in another order
  for (RowTraining* t : {&rows, &dense}) {
    t->max_norm = norm / 8;
    t->train({kRowSteps[0]}, captured());
  }
  expect_near(rows.table(), dense.table(), kStepRounding);
}

TEST_P(RowUpdates, a_frozen_table_stays) {
  RowTraining training(GradientForm::rows, "adam");
  training.model.table.freeze();
  const std::vector<Numbers> before = training.everything();
  training.train({kRowSteps[0]}, captured());
  EXPECT_EQ(training.table(), before[0]);
  EXPECT_NE(training.everything()[1], before[1]) << "the layer";
  training.model.table.unfreeze();
  training.train({kRowSteps[0]}, captured());
  EXPECT_NE(training.table(), before[0]);
}

TEST_P(RowUpdates, a_run_goes_on_from_slots_that_are_whole_tables) {
  const auto trained = [&](bool resumed) {
    RowTraining training(GradientForm::rows, "adam");
    training.train({kRowSteps[0], kRowSteps[1]}, captured());
    if (resumed) {
      auto next = optim::make("adam", optim::all_in_one(training.model.parameters()));
      EXPECT_EQ(training.optimizer->state()[0].value.shape(), (Shape{RowModel::kRows, RowModel::kWidth}));
      next->load_state(training.optimizer->state(), training.optimizer->steps());
      training.optimizer = std::move(next);
    }
    training.train({kRowSteps[2], kRowSteps[3]}, captured());
    return training.everything();
  };
  EXPECT_EQ(trained(true), trained(false));
}

TEST(RowUpdatesOfBoth, captured_steps_equal_eager_ones_bit_for_bit) {
  for (const char* name : {"sgd", "adam"})
    for (const double max_norm : {0.0, 0.25}) {
      RowTraining eager(GradientForm::rows, name, 8), captured(GradientForm::rows, name, 8);
      eager.max_norm = captured.max_norm = max_norm;
      eager.loss = captured.loss = used_twice;
      eager.train(kRowSteps, false);
      captured.train(kRowSteps, true);
      EXPECT_EQ(eager.everything(), captured.everything()) << name << ", clipped to " << max_norm;
    }
}

TEST(RowUpdatesOfGraphs, minimize_moves_met_rows_only) {
  RowTraining eager(GradientForm::rows, "adam"), built(GradientForm::rows, "adam");
  graph::Graph graph(built.session, "rows");
  const Value words = graph.placeholder(i64({5}), "words");
  graph::Operation train;
  {
    const auto building = graph.as_default();
    graph.add(built.model.parameters());
    train = graph.minimize(built.loss(built.model, words), *built.optimizer, "train");
  }
  graph::Runner runner(graph);
  built.optimizer->set_rate(0.125);
  for (const Numbers& step : kRowSteps) runner.run({{words, words_of(built.session, step)}}, {train});
  eager.train(kRowSteps, false);
  EXPECT_EQ(built.everything(), eager.everything());
}

TEST(RowUpdatesOfOne, gradients_in_the_manner_of_pytorch_are_rows_too) {
  RowTraining whole(GradientForm::rows, "sgd"), parts(GradientForm::rows, "sgd");
  whole.train({{4, 2, 4, 8}}, false);
  for (const Numbers& words : {Numbers{4, 2}, Numbers{4, 8}}) {
    Values found = parts.gradients(words_of(parts.session, words));
    for (std::size_t i = 0; i < found.size(); ++i)
      accumulate(parts.optimizer->parameters()[i].value.node()->accumulated, row_values(found[i]) ? found[i] : copy(found[i]));
  }
  parts.optimizer->set_rate(0.125);
  parts.optimizer->step();
  expect_near(parts.table(), whole.table(), kStepRounding);
  parts.optimizer->zero_grad();
  const Numbers before = parts.table();
  parts.optimizer->step();
  EXPECT_EQ(parts.table(), before);
}

TEST(RowUpdatesOfOne, clip_grad_norm_clips_rows) {
  RowTraining training(GradientForm::rows, "sgd");
  const Values before = training.gradients(words_of(training.session, kRowSteps[0]));
  const Numbers table = read(to_dense(before[0]));
  const optim::Clipped alone = optim::clip_grad_norm({before[0]}, 0.5);
  double squares = 0;
  for (const double g : table) squares += g * g;
  EXPECT_NEAR(read(alone.norm)[0], std::sqrt(squares), std::sqrt(squares) * 1e-6);  // float32 sums
  const Numbers clipped = read(to_dense(alone.gradients[0]));
  for (std::size_t i = 0; i < table.size(); ++i) EXPECT_NEAR(clipped[i], table[i] * 0.5 / (std::sqrt(squares) + 1e-6), 1e-6);
  Values only_rows{before[0], {}, {}};
  EXPECT_NEAR(read(training.optimizer->clip_norm(only_rows, 0.5))[0], std::sqrt(squares), std::sqrt(squares) * 1e-6);
  EXPECT_EQ(read(to_dense(only_rows[0])), clipped);
  EXPECT_THROW(training.optimizer->clip_norm(only_rows, 0), UsageError);
}

TEST(RowUpdatesOfOne, tables_lie_apart_from_the_slab_of_the_others) {
  RowTraining training(GradientForm::rows, "adam");
  const auto slab_of = [&](const char* name) { return training.model.parameters().find(name)->node()->slab; };
  EXPECT_NE(slab_of("table.weight"), slab_of("layer.weight"));
  EXPECT_EQ(slab_of("layer.bias"), slab_of("layer.weight"));
  EXPECT_FALSE(training.optimizer->gradient_places()[0]);
  EXPECT_TRUE(training.optimizer->gradient_places()[1]);
}

/// Operators of a step and the elements that each makes, and whether any but the update touches the table.
std::vector<std::pair<std::string, std::int64_t>> work_of_a_step(std::int64_t rows) {
  Session& session = test_session();
  nn::Embedding table(rows, 4, std::nullopt, GradientForm::rows);
  table.materialise(session);
  const auto optimizer = optim::make("adam", optim::all_in_one(table.parameters()));
  std::vector<std::pair<std::string, std::int64_t>> out;
  const auto observation = session.interpreter().observe([&](const OpDef& op, std::span<const Value>, std::span<const Value> made) {
    std::int64_t elements = 0;
    for (const Value& v : made) elements += v.elements();
    out.emplace_back(op.name, elements);
  });
  optimizer->step(gradient({sum(table(words_of(session, kRowSteps[0])))}, values_of(optimizer->parameters())), 0.1);
  return out;
}

TEST(RowUpdatesOfOne, work_does_not_grow_with_the_table) {
  EXPECT_EQ(work_of_a_step(20), work_of_a_step(20'000));
  for (const auto& [op, elements] : work_of_a_step(20'000)) EXPECT_LT(elements, 20'000) << op;
}

/// What a step with rows says, for a table in a group of its own; nothing may have been written.
std::string refusal(std::string_view name, double weight_decay) {
  RowTraining training(GradientForm::rows, "sgd");
  optim::Group group = optim::all_in_one(training.model.parameters())[0];
  training.optimizer = optim::make(name, {group}, {.weight_decay = weight_decay});
  const std::vector<Numbers> before = training.everything();
  const std::string said = message_of<UsageError>([&] { training.train({kRowSteps[0]}, false); });
  EXPECT_EQ(training.everything(), before);
  return said;
}

TEST(RowUpdatesOfOne, optimizers_without_an_update_of_rows_refuse_by_name) {
  const auto expected = [](const std::string& name) {
    return name + ": the gradient of table.weight is rows; accepted: a dense one, as to_dense gives, or sgd without momentum, adam or adamw";
  };
  EXPECT_EQ(refusal("momentum", 0), expected("sgd with momentum"));
  EXPECT_EQ(refusal("nesterov", 0), expected("sgd with momentum"));
  EXPECT_EQ(refusal("rmsprop", 0), expected("rmsprop"));
}

TEST(RowUpdatesOfOne, weight_decay_is_refused_unless_the_table_has_none) {
  const std::string said = ": weight decay 0.5 given for table.weight, whose gradient is rows; accepted: 0, as of a group of its own";
  EXPECT_EQ(refusal("sgd", 0.5), "sgd" + said);
  EXPECT_EQ(refusal("adam", 0.5), "adam" + said);
  RowTraining training(GradientForm::rows, "sgd");
  std::vector<optim::Group> groups(2);
  for (const NamedValue& p : training.model.parameters().trainable()) groups[p.name == "table.weight" ? 0 : 1].parameters.push_back(p);
  groups[0].weight_decay = 0;
  groups[0].rate_factor = 2;
  groups[1].rate_factor = 0;
  training.optimizer = optim::make("adam", groups, {.weight_decay = 0.5});
  const std::vector<Numbers> before = training.everything();
  training.train({{4}}, false);
  const Numbers after = training.table();
  // The first step of Adam has the length of the rate, but for eps beside the gradient and rounding.
  EXPECT_NEAR(std::fabs(after[4 * kRowWidth] - before[0][4 * kRowWidth]), 2 * 0.125, 1e-4);
  EXPECT_EQ(after[0], before[0][0]);
}

}  // namespace
}  // namespace gemel::testing
