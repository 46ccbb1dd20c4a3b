// Every collective against a serial computation, on ranks that are threads of this process.
#include "parallel/collectives/collectives.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "parallel/collectives/half_precision.h"
#include "parallel/collectives/host_reduce.h"
#include "parallel/transport/shared_memory.h"
#include "parallel/transport/thread_communicator.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks/rank_contents.h"

namespace gemel::parallel {
namespace {

using namespace testing;

std::vector<Reduction> reductions_of(DType dtype) {
  std::vector<Reduction> out{Reduction::sum, Reduction::mean, Reduction::min, Reduction::max, Reduction::product};
  if (is_integer(dtype)) out.push_back(Reduction::bit_and);
  return out;
}
constexpr DType kTypes[] = {DType::float32, DType::float16, DType::bfloat16, DType::int32, DType::int64};

std::vector<std::int64_t> sizes_for(int ranks) { return {0, 1, ranks - 1, ranks, ranks + 1, 1009}; }

struct Case {
  Algorithm algorithm;
  int ranks;
};
class AllReduce : public ::testing::TestWithParam<Case> {};

TEST_P(AllReduce, is_the_serial_reduction_of_every_type_and_size_with_the_same_bits_on_every_rank) {
  const Algorithm algorithm = GetParam().algorithm;
  const int ranks = GetParam().ranks;
  // Two machines where it takes two.
  std::vector<std::string> hosts(at(ranks), "a");
  if (algorithm == Algorithm::hierarchical)
    for (int r = ranks / 2; r < ranks; ++r) hosts[at(r)] = "b";
  std::vector<Bytes> held(at(ranks));
  run_ranks(
      ranks,
      [&](Communicator& c) {
        Collectives collectives(c);
        const auto check = [&](DType dtype, Reduction reduction, std::int64_t count) {
          SCOPED_TRACE(fmt::format("{} {} of {} on rank {}", to_string(reduction), to_string(dtype), count, c.rank()));
          Bytes& mine = held[at(c.rank())];
          mine = contents(dtype, c.rank(), count);
          collectives.all_reduce(elements_in(mine, dtype), reduction, algorithm);
          expect_near_all(numbers_from_bytes(dtype, mine), serial(dtype, ranks, count, reduction), tolerance(dtype, ranks));
          collectives.barrier();
          EXPECT_EQ(mine, held[0]);
          collectives.barrier();
        };
        for (const DType dtype : kTypes)
          for (const Reduction reduction : reductions_of(dtype))
            for (const std::int64_t count : sizes_for(ranks)) check(dtype, reduction, count);
        check(DType::float32, Reduction::sum, (testing::is_full_run() ? 1 << 20 : 1 << 17) + 7);
        check(DType::bfloat16, Reduction::max, (1 << 17) + 7);
      },
      hosts);
}

std::vector<Case> all_cases() {
  std::vector<Case> out;
  for (const Algorithm a : {Algorithm::ring, Algorithm::tree, Algorithm::shared, Algorithm::hierarchical})
    for (int n = 1; n <= 5; ++n)
      if (n > 1 || a != Algorithm::shared) out.push_back({a, n});
  return out;
}
INSTANTIATE_TEST_SUITE_P(EachAlgorithm, AllReduce, ::testing::ValuesIn(all_cases()),
                         [](const auto& given) { return fmt::format("{}_on_{}", to_string(given.param.algorithm), given.param.ranks); });

TEST(Collectives, shared_memory_and_both_trees_give_the_same_bits) {
  for (int ranks = 2; ranks <= 7; ++ranks)
    run_ranks(ranks, [](Communicator& c) {
      Collectives collectives(c);
      for (const std::int64_t count : {3, 1000, 100'003}) {
        const auto reduced = [&](Algorithm algorithm, std::int64_t halving_from) {
          collectives.set_limits({{{0, Algorithm::tree}}, halving_from});
          Bytes bytes = contents(DType::float32, c.rank(), count);
          collectives.all_reduce(elements_in(bytes, DType::float32), Reduction::sum, algorithm);
          return bytes;
        };
        const Bytes doubling = reduced(Algorithm::tree, 1 << 30);
        EXPECT_EQ(reduced(Algorithm::tree, 0), doubling);
        EXPECT_EQ(reduced(Algorithm::shared, 0), doubling);
        // Else this says nothing: a ring adds in another order, and so rounds otherwise.
        if (c.size() > 2 && count > 1000) {
          EXPECT_NE(reduced(Algorithm::ring, 0), doubling);
        }
      }
    });
}

TEST(Collectives, a_tree_gives_the_same_bits_however_the_elements_are_cut) {
  constexpr std::int64_t kCount = 70'001;
  run_ranks(3, [](Communicator& c) {
    Collectives collectives(c, Algorithm::tree);
    Bytes whole = contents(DType::float32, c.rank(), kCount), cut = whole;
    collectives.all_reduce(elements_in(whole, DType::float32));
    for (std::int64_t i = 0; i < kCount; i += 9'999)
      collectives.all_reduce(elements_in(cut, DType::float32).part(i, std::min<std::int64_t>(9'999, kCount - i)));
    EXPECT_EQ(cut, whole);
  });
}

TEST(Collectives, a_nan_of_any_rank_reaches_all) {
  run_ranks(3, [](Communicator& c) {
    Collectives collectives(c);
    for (const Algorithm a : {Algorithm::ring, Algorithm::tree, Algorithm::shared})
      for (const Reduction reduction : reductions_of(DType::float32)) {
        std::vector<float> x{1, c.rank() == 1 ? NAN : 2.f};
        collectives.all_reduce(elements_of(x), reduction, a);
        EXPECT_TRUE(std::isnan(x[1])) << to_string(a) << " " << to_string(reduction);
        EXPECT_FALSE(std::isnan(x[0]));
      }
  });
}

TEST(Collectives, reduce_scatter_leaves_each_rank_its_piece) {
  for (int ranks = 1; ranks <= 5; ++ranks)
    run_ranks(ranks, [ranks](Communicator& c) {
      Collectives collectives(c);
      for (const std::int64_t count : {0, 1, ranks - 1, ranks, ranks + 1, 1009, (1 << 18) + 7}) {
        Bytes bytes = contents(DType::float32, c.rank(), count);
        collectives.reduce_scatter(elements_in(bytes, DType::float32), Reduction::mean);
        const Numbers expected = serial(DType::float32, ranks, count, Reduction::mean), actual = numbers_from_bytes(DType::float32, bytes);
        for (std::int64_t i = Collectives::piece_begin(count, c.rank(), ranks); i < Collectives::piece_begin(count, c.rank() + 1, ranks); ++i)
          ASSERT_NEAR(actual[at(i)], expected[at(i)], tolerance(DType::float32, ranks) * expected[at(i)]) << i << " of " << count;
      }
    });
}

TEST(Collectives, reduce_leaves_the_root_the_whole_and_others_theirs) {
  for (int ranks = 1; ranks <= 5; ++ranks)
    run_ranks(ranks, [ranks](Communicator& c) {
      Collectives collectives(c);
      for (int root = 0; root < ranks; ++root)
        for (const auto& [dtype, reduction] : {std::pair{DType::float32, Reduction::mean}, {DType::bfloat16, Reduction::sum}, {DType::int32, Reduction::max}})
          for (const std::int64_t count : {0, 1, 1009, dtype == DType::bfloat16 && root == 0 ? (1 << 19) + 7 : 7}) {
            Bytes bytes = contents(dtype, c.rank(), count);
            collectives.reduce(elements_in(bytes, dtype), reduction, root);
            if (c.rank() != root)
              EXPECT_EQ(bytes, contents(dtype, c.rank(), count));
            else
              expect_near_all(numbers_from_bytes(dtype, bytes), serial(dtype, ranks, count, reduction), tolerance(dtype, ranks));
          }
    });
}

TEST(Collectives, broadcast_gives_all_what_the_root_has) {
  for (int ranks = 1; ranks <= 5; ++ranks)
    run_ranks(ranks, [ranks](Communicator& c) {
      Collectives collectives(c);
      for (int root = 0; root < ranks; ++root)
        for (const std::int64_t count : {0, 1, 1009, root == 0 ? (1 << 19) + 7 : 7}) {
          Bytes bytes = contents(DType::float32, c.rank(), count);
          collectives.broadcast(bytes, root);
          EXPECT_EQ(bytes, contents(DType::float32, root, count)) << "from " << root;
        }
    });
}

TEST(Collectives, all_gather_and_all_to_all_bring_messages_of_any_length) {
  const auto message = [](int from, int to) { return contents(DType::float32, from * 10 + to, (from * 7 + to) % 5 * 1009); };
  for (int ranks = 1; ranks <= 5; ++ranks)
    run_ranks(ranks, [&](Communicator& c) {
      Collectives collectives(c);
      const auto gathered = collectives.all_gather(message(c.rank(), 0));
      std::vector<Bytes> given;
      for (int to = 0; to < ranks; ++to) given.push_back(message(c.rank(), to));
      const auto exchanged = collectives.all_to_all(given);
      for (int from = 0; from < ranks; ++from) {
        EXPECT_EQ(gathered[at(from)], message(from, 0));
        EXPECT_EQ(exchanged[at(from)], message(from, c.rank()));
      }
    });
}

TEST(Collectives, of_a_group_are_its_own) {
  run_ranks(5, [](Communicator& c) {
    const std::vector<int> ranks = c.rank() % 2 ? std::vector{1, 3} : std::vector{0, 2, 4};
    const auto group = c.group(ranks);
    EXPECT_EQ(group->size(), std::ssize(ranks));
    EXPECT_EQ(ranks[at(group->rank())], c.rank());
    for (const Algorithm a : {Algorithm::ring, Algorithm::tree, Algorithm::shared}) {
      std::vector<float> x(1009, static_cast<float>(c.rank()));
      Collectives(*group).all_reduce(elements_of(x), Reduction::sum, a);
      EXPECT_EQ(x, std::vector<float>(1009, c.rank() % 2 ? 4.f : 6.f)) << to_string(a);
    }
  });
}

TEST(Collectives, that_the_ranks_cannot_run_are_refused) {
  const auto refusal = [](Algorithm algorithm, std::vector<std::string> hosts) {
    return message_of<UsageError>([&] {
      run_ranks(
          2, [&](Communicator& c) { Collectives(c, algorithm); }, hosts);
    });
  };
  EXPECT_EQ(refusal(Algorithm::shared, {"a", "b"}),
            "collective: shared cannot run: the ranks are on several machines; accepted: auto, ring, tree, hierarchical");
  EXPECT_EQ(refusal(Algorithm::carrier, {"a"}),
            "collective: mpi cannot run: these ranks are threads of one process, without MPI; accepted: auto, ring, tree, shared, hierarchical");
  EXPECT_EQ(message_of<ShapeError>([] {
              run_ranks(1, [](Communicator& c) {
                std::byte b{};
                Collectives(c).all_reduce({&b, 1, DType::boolean});
              });
            }),
            "collective: elements of bool are not reduced; accepted: float32, float16, bfloat16, int32, int64");
  EXPECT_EQ(message_of<ShapeError>([] {
              run_ranks(1, [](Communicator& c) {
                float x = 1;
                Collectives(c).all_reduce(elements_of(std::span(&x, 1)), Reduction::bit_and);
              });
            }),
            "collective: bit_and of float32; accepted: int32, int64");
  EXPECT_EQ(message_of<UsageError>([] { parse_algorithm("rnig"); }),
            "collective: there is no algorithm 'rnig'; accepted: auto, ring, tree, shared, hierarchical, mpi");
}

TEST(Collectives, a_rank_that_fails_ends_the_waits_of_the_others) {
  const std::string message = message_of<DataError>([] {
    run_ranks(3, [](Communicator& c) {
      Collectives collectives(c);
      if (c.rank() == 1) throw DataError("no data");
      std::vector<float> x(100'000);
      EXPECT_EQ(message_of<AbortedError>([&] { collectives.all_reduce(elements_of(x)); }), "rank 1 failed: no data");
      EXPECT_EQ(message_of<AbortedError>([&] { collectives.all_reduce(elements_of(x), Reduction::sum, Algorithm::ring); }), "rank 1 failed: no data");
    });
  });
  EXPECT_EQ(message, "no data");
}

TEST(Collectives, limits_that_are_measured_are_the_same_on_every_rank_and_survive_as_text) {
  std::vector<Limits> limits(4);
  run_ranks(4,
            [&](Communicator& c) {
              Collectives collectives(c);
              collectives.measure_limits();
              limits[at(c.rank())] = collectives.limits();
              EXPECT_NE(collectives.choice(1000).why, "");
            },
            {"a", "a", "b", "b"});
  for (const Limits& l : limits) EXPECT_EQ(l, limits[0]);
  EXPECT_EQ(parse_limits(to_string(limits[0])), limits[0]);
  EXPECT_EQ(message_of<DataError>([] { parse_limits("tree 5"); }), "collective: the limits 'tree 5' cannot be read");
}

TEST(Collectives, memory_of_a_group_is_reduced_where_it_lies) { run_ranks(2, expect_reduced_in_place); }

TEST(Collectives, memory_that_is_a_ranks_own_is_not_for_others_to_write) { run_ranks(3, expect_own_memory_to_be_unseen); }

TEST(Collectives, memory_of_a_group_is_freed_behind_its_last_owner) { run_ranks(3, expect_freed_by_the_last_owner); }

TEST(Collectives, memory_of_a_group_stays_where_an_error_ends_a_rank) {
  const auto ranks = thread_communicators(2);
  const std::weak_ptr<std::byte> released = ranks[0]->shared()->allocate(4096).first;
  ranks[0]->abort("rank 0 failed");
  ranks[1]->shared()->allocate(4096);
  EXPECT_FALSE(released.expired());
}

TEST(Collectives, that_were_measured_name_the_size_from_which_they_are_fastest) {
  run_ranks(2,
            [](Communicator& c) {
              Collectives collectives(c);
              collectives.set_limits({{{0, Algorithm::tree}, {4096, Algorithm::ring}}, 0});
              EXPECT_EQ(collectives.choice(4095).why, "fastest from 0 bytes as measured");
              EXPECT_EQ(collectives.choice(9999).why, "fastest from 4096 bytes as measured");
            },
            {"a", "b"});
}

TEST(TwoBytes, are_widened_and_rounded_as_the_engine_does) {
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (std::uint32_t bits = 0; bits < 1u << 16; ++bits) {
    const auto h = static_cast<std::uint16_t>(bits);
    const float half = float_from_half(h), brain = float_from_bfloat16(h);
    ASSERT_TRUE(same(widen_float16(h), half)) << bits;
    ASSERT_TRUE(same(widen_bfloat16(h), brain)) << bits;
    // The number itself, its neighbours in float32, and half-way to the next.
    for (const float x : {half, std::nextafterf(half, 1e9f), half * (1 + 0x1p-11f), std::nextafterf(half * (1 + 0x1p-11f), 1e9f)}) {
      if (std::isnan(x)) continue;
      ASSERT_EQ(narrow_float16(x), half_from_float(x)) << x;
    }
    for (const float x : {brain, std::nextafterf(brain, 1e9f), brain * (1 + 0x1p-8f)}) {
      if (std::isnan(x)) continue;
      ASSERT_EQ(narrow_bfloat16(x), bfloat16_from_float(x)) << x;
    }
  }
  EXPECT_TRUE(std::isnan(widen_float16(narrow_float16(NAN))));
  EXPECT_TRUE(std::isnan(widen_bfloat16(narrow_bfloat16(NAN))));
}

TEST(Collectives, ranks_are_joined_by_neighbours_with_the_odd_ones_first) {
  const auto text = [](int ranks) {
    std::string out;
    for (const Join& j : fold_order(ranks)) out += fmt::format("{}+{} ", j.first, j.second);
    return out;
  };
  EXPECT_EQ(text(1), "");
  EXPECT_EQ(text(4), "0+1 2+3 0+2 ");
  EXPECT_EQ(text(5), "0+1 0+2 3+4 0+3 ");
}

}  // namespace
}  // namespace gemel::parallel
