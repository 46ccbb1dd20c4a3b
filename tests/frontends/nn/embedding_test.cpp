// Embeddings: where their gradient is put, how the uses of one table add up, and the padding's row. In eager and compiled steps.
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/graph/compile.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/optim/optimizer.h"
#include "tests/support/device/test_device.h"
#include "tests/support/expect_near.h"
#include "tests/support/message_of.h"
#include "tests/support/models/row_gradient_training.h"

namespace gemel::testing {
namespace {

/// A table trained by gradient descent on the sum of what `loss` makes of it.
struct TableTraining {
  using Loss = Value (*)(nn::Embedding& table, const Value& words);
  Session& session;
  Loss loss;
  nn::Embedding table;
  std::unique_ptr<optim::Optimizer> optimizer{};

  TableTraining(Session& s, Loss l, std::optional<std::int64_t> padding_idx = {}) : session(s), loss(l), table(9, 5, padding_idx) {
    table.materialise(session);
    optimizer = optim::make("sgd", optim::all_in_one(table.parameters()));
  }
  Values step(const Values& in) {
    const Value sum_of_losses = sum(loss(table, in[0]));
    optimizer->apply_updates(gradient({sum_of_losses}, values_of(optimizer->parameters()), {}, {.into = optimizer->gradient_places()}), {in[1]});
    return {sum_of_losses.detached()};
  }
  Values inputs() { return {words_of(session, {4, 2, 4, 8, 4}), optimizer->hyper(0.25)[0]}; }
  Numbers weights() { return read(table.weight().tensor()); }
};

Value one_use(nn::Embedding& table, const Value& words) { return square(table(words)); }
Value two_uses(nn::Embedding& table, const Value& words) { return square(table(words)) + table(words); }
/// Words scored by the same table, as language models do: the sum of all products of a word's row and a table's row.
Value tied(nn::Embedding& table, const Value& words) { return matmul(table(words), table.weight().tensor(), Transpose::no, Transpose::yes); }

/// The table after one step from w, worked out by hand. @param slope  (w, row of an occurrence, column) -> its gradient there
template <class Slope>
Numbers after_a_step(Numbers w, Slope slope) {
  const Numbers before = w;
  for (const std::size_t row : {4, 2, 4, 8, 4})
    for (std::size_t i = 0; i < 5; ++i) w[5 * row + i] -= 0.25 * slope(before[5 * row + i], i);
  return w;
}

// A handful of float32 sums of numbers of some units.
constexpr double kSumRounding = 1e-5;

/// A step of an eager session and a compiled one's, from the same table. @return the table before, and after either
std::pair<Numbers, Numbers> step_of_both(TableTraining::Loss loss, std::optional<std::int64_t> padding_idx = {}) {
  TableTraining eager(test_session(), loss, padding_idx), compiled(test_session(), loss, padding_idx);
  assign(compiled.table.weight().tensor().detached(), eager.table.weight().tensor().detached());
  const Numbers before = eager.weights();
  eager.step(eager.inputs());
  graph::compile(compiled.session, [&](const Values& in) { return compiled.step(in); })(compiled.inputs());
  EXPECT_EQ(eager.weights(), compiled.weights()) << "bit for bit";
  return {before, eager.weights()};
}

TEST(Embedding, rows_of_repeated_words_add_up) {
  const auto [before, after] = step_of_both(one_use);
  expect_near(after, after_a_step(before, [](double w, std::size_t) { return 2 * w; }), kSumRounding);
}

TEST(Embedding, two_uses_of_one_table_add_up) {
  const auto [before, after] = step_of_both(two_uses);
  expect_near(after, after_a_step(before, [](double w, std::size_t) { return 2 * w + 1; }), kSumRounding);
}

TEST(Embedding, a_table_tied_to_a_layer_gets_both_gradients) {
  const auto [before, after] = step_of_both(tied);
  Numbers all_rows(5, 0.0), words(5, 0.0);
  for (std::size_t k = 0; k < before.size(); ++k) all_rows[k % 5] += before[k];
  for (const std::size_t row : {4, 2, 4, 8, 4})
    for (std::size_t i = 0; i < 5; ++i) words[i] += before[5 * row + i];
  Numbers expected = after_a_step(before, [&](double, std::size_t i) { return all_rows[i]; });
  for (std::size_t k = 0; k < expected.size(); ++k) expected[k] -= 0.25 * words[k % 5];
  expect_near(after, expected, kSumRounding);
}

/// Results as large as the table that a step makes elsewhere than in the gradient's range, and copies.
template <class Step>
std::pair<int, int> tables_made_elsewhere_and_copies(TableTraining& t, Step step) {
  const Value place = t.optimizer->gradient_places()[0];
  int elsewhere = 0, copies = 0;
  const auto observation = t.session.interpreter().observe([&](const OpDef& op, std::span<const Value>, std::span<const Value> out) {
    copies += &op == &copy_def();
    for (const Value& v : out) elsewhere += v.elements() == place.elements() && v.storage()->memory != place.storage()->memory;
  });
  step();
  return {elsewhere, copies};
}

TEST(Embedding, gradient_is_written_into_its_range_without_a_copy) {
  TableTraining t(test_session(), one_use);
  EXPECT_EQ(tables_made_elsewhere_and_copies(t, [&] { t.step(t.inputs()); }), std::pair(0, 0)) << "eager";
  graph::Compiled step = graph::compile(t.session, [&](const Values& in) { return t.step(in); });
  EXPECT_EQ(tables_made_elsewhere_and_copies(t, [&] { step(t.inputs()); }), std::pair(0, 0)) << "compiled";
}

TEST(Embedding, padding_starts_at_zero_and_stays) {
  const auto [before, after] = step_of_both(two_uses, 4);
  Numbers expected = after_a_step(before, [](double w, std::size_t) { return 2 * w + 1; });
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(before[20 + i], 0);
    EXPECT_NE(before[10 + i], 0);
    expected[20 + i] = 0;
  }
  expect_near(after, expected, kSumRounding);
}

TEST(Embedding, padding_counts_from_the_end_and_is_looked_up_as_it_is) {
  Session& session = test_session();
  nn::Embedding table(3, 2, -1);
  EXPECT_EQ(table.describe(), "Embedding(3, 2, padding_idx 2)");
  table.materialise(session);
  EXPECT_EQ(read(table(words_of(session, {2}))), (Numbers{0, 0}));
  assign(table.weight().tensor().detached(), session.tensor(f32({3, 2}), Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read(table(words_of(session, {2, 0}))), (Numbers{5, 6, 1, 2}));
}

TEST(Embedding, the_paddings_row_alone_begins_as_zeros_in_a_table_that_is_drawn_in_pieces) {
  const auto session = Session::reference();
  struct Case {
    std::int64_t width, padding;
  };
  for (const auto [width, padding] : {Case{512, 0}, Case{512, 2099}, Case{510, 2056}}) {  // in the first piece, in the last, across two
    nn::Embedding table(2100, width, padding);
    table.materialise(*session);
    const Numbers numbers = read(table.weight().tensor());
    std::vector<std::int64_t> rows_of_zeros;
    for (std::int64_t row = 0; row < 2100; ++row)
      if (std::all_of(numbers.begin() + row * width, numbers.begin() + (row + 1) * width, [](double x) { return x == 0; })) rows_of_zeros.push_back(row);
    EXPECT_EQ(rows_of_zeros, std::vector{padding}) << "of width " << width;
  }
}

TEST(Embedding, refuses_padding_out_of_range) {
  EXPECT_EQ(message_of<UsageError>([] { nn::Embedding(3, 2, 3); }), "Embedding: padding_idx is 3 for 3 rows; accepted: -3..2");
  EXPECT_EQ(message_of<UsageError>([] { nn::Embedding(3, 2, -4); }), "Embedding: padding_idx is -4 for 3 rows; accepted: -3..2");
}

}  // namespace
}  // namespace gemel::testing
