// Indices: those that repeat, those out of range, and the embedding's gradient.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"

namespace gemel::testing {
namespace {

Value reals(Session& session, const Shape& shape, const std::vector<double>& x) { return session.tensor({shape}, std::span<const double>(x)); }
Value indices(Session& session, const std::vector<double>& x) {
  return session.tensor({Shape{static_cast<std::int64_t>(x.size())}, DType::int64}, std::span<const double>(x));
}

TEST(Index, embedding_gradient_adds_up_the_rows_of_repeated_words) {
  Session& session = test_session();
  const std::int64_t words = 50, width = 33;
  const Value weight = leaf(session.tensor({{words, width}}, std::span<const double>(std::vector<double>(at(words * width), 0.5))));
  std::vector<double> sentence, counts(at(words), 0.0);
  for (int i = 0; i < 200; ++i) sentence.push_back(i * i % 47);
  for (double word : sentence) ++counts[at(static_cast<std::int64_t>(word))];
  const Value dw = copy(gradient({embedding(weight, indices(session, sentence))}, {weight})[0]);
  std::vector<double> expected;
  for (double count : counts) expected.insert(expected.end(), at(width), count);
  EXPECT_EQ(read(dw), expected);
}

TEST(Index, scatter_add_leaves_its_input_alone) {
  Session& session = test_session();
  const Value x = reals(session, {3}, {1, 2, 3});
  const Value y = scatter_add(x, indices(session, {2, 0, 2}), reals(session, {3}, {10, 20, 30}));
  EXPECT_EQ(read(y), (std::vector<double>{21, 2, 43}));
  EXPECT_EQ(read(x), (std::vector<double>{1, 2, 3}));
}

TEST(Index, kernels_skip_an_index_out_of_range_and_the_next_read_tells_it_once) {
  Session& session = test_session();
  const Value x = reals(session, {3, 2}, {1, 2, 3, 4, 5, 6}), bad = indices(session, {1, 7});
  const Value gathered = gather(x, bad);
  EXPECT_EQ(message_of<DataError>([&] { read(gathered); }), "an index or label 7 is out of range; accepted: 0..2");
  EXPECT_EQ(read(gathered), (std::vector<double>{3, 4, 0, 0}));
  const Value added = scatter_add(x, bad, reals(session, {2, 2}, {1, 1, 1, 1}));
  EXPECT_EQ(message_of<DataError>([&] { read_later(added)(); }), "an index or label 7 is out of range; accepted: 0..2");
  EXPECT_EQ(read_later(added)(), (std::vector<double>{1, 2, 4, 5, 5, 6}));
  const Value hot = one_hot(bad, 2);
  EXPECT_EQ(message_of<DataError>([&] { read(x); }), "an index or label 7 is out of range; accepted: 0..1") << "whatever is read";
  EXPECT_EQ(read(hot), (std::vector<double>{0, 1, 0, 0}));
}

TEST(Index, an_index_beyond_32_bits_is_told_as_it_was_given) {
  Session& session = test_session();
  const Value x = reals(session, {3, 2}, {1, 2, 3, 4, 5, 6});
  for (const double index : {0x1p31, -0x1p31 - 1, 0x1p32 + 1, 0x1p52, -0x1p52}) {
    const Value gathered = gather(x, session.tensor(i64({2}), std::span<const double>(std::vector<double>{index, 1})), 0);
    EXPECT_EQ(message_of<DataError>([&] { read(gathered); }), fmt::format("an index or label {:.0f} is out of range; accepted: 0..2", index));
    EXPECT_EQ(read(gathered), (std::vector<double>{0, 0, 3, 4}));
  }
}

TEST(Index, rows_that_do_not_all_lie_in_a_tensor_are_not_written_and_the_next_read_tells_it) {
  Session& session = test_session();
  const Value x = reals(session, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), rows = reals(session, {2, 2}, {-1, -2, -3, -4});
  write_rows(x, indices(session, {1}), rows);
  EXPECT_EQ(read(x), (std::vector<double>{1, 2, -1, -2, -3, -4, 7, 8}));
  for (const double start : {3.0, -1.0}) {
    write_rows(x, indices(session, {start}), rows);
    EXPECT_EQ(message_of<DataError>([&] { read(x); }), fmt::format("an index or label {} is out of range; accepted: 0..2", start));
    EXPECT_EQ(read(x), (std::vector<double>{1, 2, -1, -2, -3, -4, 7, 8}));
  }
}

TEST(Index, reference_refuses_an_index_out_of_range) {
  const auto session = Session::reference();
  const Value x = reals(*session, {3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(message_of<DataError>([&] { write_rows(x, indices(*session, {2}), x); }), "write_rows: start 2 is out of range; accepted: 0..0");
  EXPECT_EQ(message_of<DataError>([&] { gather(x, indices(*session, {1, -1})); }), "gather: index -1 is out of range; accepted: 0..2");
}

TEST(Index, embedding_refuses_weights_of_another_rank) {
  const auto session = Session::reference();
  EXPECT_THROW(embedding(reals(*session, {3}, {1, 2, 3}), indices(*session, {0})), ShapeError);
}

}  // namespace
}  // namespace gemel::testing
