// Gradients of embeddings as rows: what autograd makes of them, and what refuses them.
#include "engine/gradients/row_gradient.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "frontends/eager/eager.h"
#include "frontends/graph/graph.h"
#include "tests/support/message_of.h"
#include "tests/support/models/row_gradient_training.h"

namespace gemel::testing {
namespace {

/// A table [4, 2] of 1, 2, ..., 8.
Value small_table(GradientForm form) {
  const Value out = leaf(test_session().tensor(f32({4, 2}), Numbers{1, 2, 3, 4, 5, 6, 7, 8}));
  set_gradient_form(out, form);
  return out;
}
Value weights(const Numbers& numbers) { return test_session().tensor(f32({std::ssize(numbers) / 2, 2}), std::span<const double>(numbers)); }

/// The gradients of sum(loss) for some leaves.
Values found(const Value& loss, const Values& leaves, Tape tape = Tape::release) { return gradient({sum(loss)}, leaves, {}, tape); }

TEST(Rows, gradient_of_a_lookup_is_its_indices_and_what_arrives) {
  const Value table = small_table(GradientForm::rows), words = reshape(words_of(test_session(), {3, 1, 3, 0}), Shape{2, 2});
  const Value g = found(reshape(embedding(table, words), Shape{4, 2}) * weights({1, 2, 3, 4, 5, 6, 7, 8}), {table})[0];
  const RowValues* rows = row_values(g);
  ASSERT_TRUE(rows);
  EXPECT_EQ(g.spec(), table.spec());
  EXPECT_EQ(read(rows->indices), (Numbers{3, 1, 3, 0}));
  EXPECT_EQ(read(rows->values), (Numbers{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(read(to_dense(g)), (Numbers{7, 8, 3, 4, 0, 0, 6, 8}));
}

TEST(Rows, lookups_follow_each_other_whatever_the_type_of_their_indices) {
  const Value table = small_table(GradientForm::rows), first = words_of(test_session(), {3, 1}), second = cast(words_of(test_session(), {1}), DType::int32);
  const Value g = found(concatenate(list(embedding(table, first), embedding(table, second)), 0) * weights({1, 2, 3, 4, 5, 6}), {table})[0];
  ASSERT_TRUE(row_values(g));
  EXPECT_EQ(row_values(g)->indices.elements(), 3);
  EXPECT_EQ(read(to_dense(g)), (Numbers{0, 0, 8, 10, 0, 0, 1, 2}));
}

TEST(Rows, gradient_is_dense_where_the_table_is_also_used_otherwise_or_differentiated_again) {
  const Value table = small_table(GradientForm::rows), words = words_of(test_session(), {3, 1, 3});
  for (const bool first : {false, true}) {
    const Value a = sum(embedding(table, words)), b = sum(table * table);
    const Value tied = found(first ? a + b : b + a, {table})[0];
    EXPECT_FALSE(row_values(tied));
    EXPECT_EQ(read(tied), (Numbers{2, 4, 7, 9, 10, 12, 16, 18}));
  }
  const Value again = found(square(embedding(table, words)), {table}, Tape::extend)[0];
  EXPECT_FALSE(row_values(again));
  EXPECT_EQ(read(to_dense(found(again, {table})[0])), (Numbers{0, 0, 2, 2, 0, 0, 4, 4}));
  EXPECT_FALSE(row_values(found(gather(table, words_of(test_session(), {1}), 1), {table})[0])) << "columns";
}

TEST(Rows, results_share_no_memory) {
  const Value table = small_table(GradientForm::rows), other = small_table(GradientForm::rows), bias = leaf(weights({0, 0, 0, 0}));
  const Value words = words_of(test_session(), {3, 1});
  const Values all = found((embedding(table, words) + embedding(other, words) + bias) * weights({1, 2, 3, 4}), {table, bias, other});
  const Storage* memory[] = {row_values(all[0])->values.storage().get(), all[1].storage().get(), row_values(all[2])->values.storage().get()};
  EXPECT_NE(memory[0], memory[1]);
  EXPECT_NE(memory[0], memory[2]);
  EXPECT_NE(memory[1], memory[2]);
  for (const Value& g : {row_values(all[0])->values, all[1], row_values(all[2])->values}) EXPECT_EQ(read(g), (Numbers{1, 2, 3, 4}));
  const Value twice = embedding(table, words) * weights({1, 2, 3, 4});
  const Values same = found(twice, {table, table});
  EXPECT_NE(row_values(same[0])->values.storage(), row_values(same[1])->values.storage());
}

TEST(Rows, memory_given_for_the_gradient_is_filled_with_the_table) {
  const Value table = small_table(GradientForm::rows), place = full(test_session(), f32({4, 2}), 7);
  const Values all = gradient({sum(embedding(table, words_of(test_session(), {3, 1, 3})))}, {table}, {}, {.into = {place}});
  EXPECT_EQ(all[0].storage(), place.storage());
  EXPECT_EQ(read(place), (Numbers{0, 0, 1, 1, 0, 0, 2, 2}));
}

TEST(Rows, recomputation_gives_them_too) {
  Session& session = test_session();
  RowModel model(GradientForm::rows);
  model.materialise(session);
  const Values parameters = values_of(model.parameters().trainable());
  const Value words = words_of(session, kRowSteps[0]);
  const Values plain = found(square(model(words)), parameters);
  model.set_recompute(nn::Recompute::yes);
  const Values again = found(square(model(words)), parameters);
  ASSERT_TRUE(row_values(again[0]));
  EXPECT_EQ(read(row_values(again[0])->values), read(row_values(plain[0])->values));
}

TEST(Rows, are_refused_by_operators_reads_and_graphs) {
  Session& session = test_session();
  const Value table = small_table(GradientForm::rows), words = words_of(session, {3});
  const Value g = found(embedding(table, words), {table})[0];
  EXPECT_EQ(message_of<UsageError>([&] { g* g; }), "multiply: input 0 is rows of float32 [4, 2]; accepted: a dense tensor, as to_dense gives");
  EXPECT_EQ(message_of<UsageError>([&] { read(g); }), "read: the value is rows of float32 [4, 2]; accepted: a dense tensor, as to_dense gives");
  graph::Graph graph(session, "rows");
  const Value x = graph.placeholder(i64({1}), "x");
  const auto building = graph.as_default();
  const Value symbolic = graph.gradients(sum(embedding(table, x)), {table})[0];
  EXPECT_EQ(message_of<UsageError>([&] { graph.named(symbolic, "g"); }),
            "named: the value is rows of float32 [4, 2]; accepted: a dense tensor, as to_dense gives");
  EXPECT_EQ(to_dense(symbolic).spec(), table.spec());
}

TEST(Rows, are_asked_for_by_leaves_that_are_tables) {
  const auto asked = [](const Value& v) { return message_of<UsageError>([&] { set_gradient_form(v, GradientForm::rows); }); };
  EXPECT_EQ(asked(weights({1, 2})), "set_gradient_form: float32 [1, 2] is no leaf; accepted: a leaf");
  EXPECT_EQ(asked(leaf(full(test_session(), f32({4}), 0))), "set_gradient_form: float32 [4] is no table; accepted for rows: float32 [rows, width]");
  const Value packed = small_table(GradientForm::dense);
  ParameterSlab::pack(Values{packed});
  EXPECT_EQ(asked(packed), "set_gradient_form: float32 [4, 2] is in a slab already; accepted: a leaf before an optimizer holds it");
}

TEST(Rows, of_eager_tensors_add_up_over_passes_and_tell_what_they_are) {
  Session& session = test_session();
  const eager::Tensor table = small_table(GradientForm::rows), words = words_of(session, {3, 1, 3});
  int seen = 0;
  auto hook = table.register_hook([&](const eager::Tensor& g) { seen += g.is_sparse(); });
  const auto pass = [&] { eager::Tensor(embedding(table, words)).sum().backward(); };
  pass();
  EXPECT_TRUE(table.grad().is_sparse());
  EXPECT_EQ(eager::to_string(table.grad()), "tensor(<rows of float32 [4, 2]>)");
  pass();
  hook.remove();
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(table.grad().indices().to_vector(), (std::vector<float>{3, 1, 3, 3, 1, 3}));
  EXPECT_EQ(table.grad().values().shape(), (Shape{6, 2}));
  EXPECT_EQ(table.grad().to_dense().to_vector(), (std::vector<float>{0, 0, 2, 2, 0, 0, 4, 4}));
  (table * table).sum().backward();
  EXPECT_FALSE(table.grad().is_sparse());
  pass();
  EXPECT_EQ(table.grad().to_vector(), (std::vector<float>{2, 4, 9, 11, 10, 12, 20, 22}));
  EXPECT_EQ(message_of<UsageError>([&] { table.grad().indices(); }), "indices: float32 [4, 2] is dense; accepted: a gradient of rows, see is_sparse()");
  table.zero_grad();
  EXPECT_FALSE(table.grad().defined());
}

TEST(Rows, of_one_index_are_summed_in_the_order_given) {
  Session& session = test_session();
  // 1e8 swallows a 1 added to it: the sum tells the order. 200 indices are merged from four runs.
  Numbers words(200, 7.0), values(200, 0.0);
  for (std::size_t k = 0; k < 200; k += 2) words[k] = static_cast<double>(k % 7);
  values[1] = 1e8;
  values[3] = 1;
  values[5] = -1e8;
  values[197] = 2;
  const RowValues sums = sum_rows({words_of(session, words), session.tensor(f32({200, 1}), std::span<const double>(values))});
  const Numbers rows = read(sums.indices), summed = read(sums.values);
  EXPECT_EQ(std::ranges::count_if(rows, [](double row) { return row >= 0; }), 8);
  EXPECT_EQ(rows[100], 7) << "after 100 words 0 to 6";
  EXPECT_EQ(summed[100], 2);
}

}  // namespace
}  // namespace gemel::testing
