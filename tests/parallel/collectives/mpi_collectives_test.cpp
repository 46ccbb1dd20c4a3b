// Ranks that are processes, against reductions made serially: these tests start themselves again under mpirun.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/transport/mpi_communicator.h"
#include "tests/support/ranks/rank_contents.h"
#include "tests/support/ranks/under_mpirun.h"

namespace gemel::parallel {
namespace {

using namespace testing;

constexpr std::int64_t kLong = (1 << 17) + 7;  // a ring cuts it into chunks, and a tree halves it

void check_all_reduces(Communicator& c) {
  Collectives collectives(c);
  const auto check = [&](DType dtype, Reduction reduction, std::int64_t count) {
    const Bytes given = contents(dtype, c.rank(), count);
    const Numbers expected = serial(dtype, c.size(), count, reduction);
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::shared, Algorithm::carrier}) {
      SCOPED_TRACE(fmt::format("{} of {} {} by {} on rank {}", to_string(reduction), count, to_string(dtype), to_string(algorithm), c.rank()));
      Bytes mine = given;
      collectives.all_reduce(elements_in(mine, dtype), reduction, algorithm);
      expect_near_all(numbers_from_bytes(dtype, mine), expected, tolerance(dtype, c.size()));
      for (const Bytes& theirs : collectives.all_gather(mine)) EXPECT_EQ(theirs, mine);
    }
  };
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{4}, std::int64_t{1009}, kLong}) {
    for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::max}) check(DType::float32, reduction, count);
    check(DType::int64, Reduction::sum, count);
    check(DType::int64, Reduction::bit_and, count);
    check(DType::bfloat16, Reduction::sum, count);
  }
}

void check_messages_of_any_length(Communicator& c) {
  Collectives collectives(c);
  const auto message = [](int from, int to) { return contents(DType::float32, from * 10 + to, (from * 7 + to) % 5 * 1009); };
  const auto gathered = collectives.all_gather(message(c.rank(), 0));
  std::vector<Bytes> given;
  for (int to = 0; to < c.size(); ++to) given.push_back(message(c.rank(), to));
  const auto exchanged = collectives.all_to_all(given);
  for (int from = 0; from < c.size(); ++from) {
    EXPECT_EQ(gathered[at(from)], message(from, 0));
    EXPECT_EQ(exchanged[at(from)], message(from, c.rank()));
  }
}

void check_pieces_and_roots(Communicator& c) {
  Collectives collectives(c);
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{2}, kLong}) {
    SCOPED_TRACE(count);
    const auto values = [](const Bytes& bytes, std::int64_t begin, std::int64_t end) {
      const Numbers all = numbers_from_bytes(DType::float32, bytes);
      return Numbers(all.begin() + begin, all.begin() + end);
    };
    const Numbers mean = serial(DType::float32, c.size(), count, Reduction::mean);
    const std::int64_t begin = Collectives::piece_begin(count, c.rank(), c.size()), end = Collectives::piece_begin(count, c.rank() + 1, c.size());
    Bytes bytes = contents(DType::float32, c.rank(), count);
    collectives.reduce_scatter(elements_in(bytes, DType::float32), Reduction::mean);
    expect_near_all(values(bytes, begin, end), Numbers(mean.begin() + begin, mean.begin() + end), tolerance(DType::float32, c.size()));
    for (int root = 0; root < c.size(); ++root) {
      bytes = contents(DType::float32, c.rank(), count);
      collectives.reduce(elements_in(bytes, DType::float32), Reduction::mean, root);
      if (c.rank() == root)
        expect_near_all(values(bytes, 0, count), mean, tolerance(DType::float32, c.size()));
      else
        EXPECT_EQ(bytes, contents(DType::float32, c.rank(), count));
      bytes = contents(DType::float32, c.rank(), count);
      collectives.broadcast(bytes, root);
      EXPECT_EQ(bytes, contents(DType::float32, root, count));
    }
  }
}

TEST(MpiCollectives, on_ranks) {
  if (!mpi_launch()) GTEST_SKIP() << "for are_those_of_threads to start under mpirun";
  const auto communicator = mpi_communicator();
  Communicator& c = *communicator;
  EXPECT_EQ(c.size(), mpi_launch()->size);
  EXPECT_EQ(c.rank(), mpi_launch()->rank);
  check_all_reduces(c);
  check_messages_of_any_length(c);
  check_pieces_and_roots(c);
  ASSERT_NE(c.shared(), nullptr);
  expect_reduced_in_place(c);
  expect_own_memory_to_be_unseen(c);
  expect_freed_by_the_last_owner(c);
}

TEST(MpiCollectives, are_those_of_threads) {
  if (mpi_launch()) GTEST_SKIP() << "under mpirun on_ranks runs";
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed";
  expect_passed_under_mpirun("MpiCollectives.on_ranks");
}

}  // namespace
}  // namespace gemel::parallel
