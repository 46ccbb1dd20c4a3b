// Ranks that end before others: what these wait for then, in every collective, ends with an error that names them; what was done before is there.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "parallel/collectives/collectives.h"
#include "parallel/transport/shared_memory.h"
#include "parallel/transport/thread_communicator.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks/horovod_ranks.h"
#include "tests/support/ranks/rank_contents.h"

namespace gemel::parallel {
namespace {

using namespace gemel::testing;
using Work = std::function<void(Collectives&)>;

struct AwaitedCollective {
  std::string name;
  Work work;
};

std::vector<AwaitedCollective> awaited_collectives(bool shares_all, bool shares) {
  const auto all_reduce = [](std::int64_t count, Algorithm algorithm) {
    return [=](Collectives& c) {
      std::vector<float> x(at(count), 1);
      c.all_reduce(elements_of(x), Reduction::sum, algorithm);
      EXPECT_EQ(x.back(), static_cast<float>(c.size()));
    };
  };
  std::vector<AwaitedCollective> out;
  std::vector<Algorithm> algorithms{Algorithm::ring, Algorithm::tree};
  if (shares_all) algorithms.push_back(Algorithm::shared);
  if (shares) algorithms.push_back(Algorithm::hierarchical);
  for (const Algorithm a : algorithms)
    for (const std::int64_t count : {4, 100'000}) out.push_back({"all-reduce", all_reduce(count, a)});
  out.push_back({"reduce", [](Collectives& c) {
                   std::vector<float> x(10, 1);
                   c.reduce(elements_of(x), Reduction::sum, 0);
                 }});
  out.push_back({"broadcast", [](Collectives& c) {
                   std::vector<std::byte> x(3 << 20);
                   c.broadcast(x, 0);
                 }});
  out.push_back({"broadcast", [](Collectives& c) {
                   std::vector<std::byte> x(10);
                   c.broadcast(x, 2);
                 }});
  out.push_back({"all-gather", [](Collectives& c) { c.all_gather(std::vector<std::byte>(10)); }});
  out.push_back({"all-to-all", [](Collectives& c) { c.all_to_all(std::vector<std::vector<std::byte>>(at(c.size()), std::vector<std::byte>(10))); }});
  out.push_back({"reduce-scatter", [](Collectives& c) {
                   std::vector<float> x(10, 1);
                   c.reduce_scatter(elements_of(x));
                 }});
  out.push_back({"barrier", [](Collectives& c) { c.barrier(); }});
  return out;
}

TEST(Goodbye, of_a_rank_ends_every_collective_of_the_others_on_any_machines) {
  const std::vector<std::vector<std::string>> machines{{"a", "a", "a"}, {"a", "b", "c"}, {"a", "a", "b", "b"}};
  for (const auto& hosts : machines) {
    const bool shares_all = hosts[0] == hosts.back(), shares = hosts[0] == hosts[1];
    for (const AwaitedCollective& it : awaited_collectives(shares_all, shares)) {
      SCOPED_TRACE(it.name + " on " + hosts[1] + hosts[2]);
      const bool some_may_be_through = it.name == "broadcast" || it.name == "reduce";
      std::atomic<int> refused = 0;
      const auto begin = std::chrono::steady_clock::now();
      run_ranks(
          static_cast<int>(hosts.size()),
          [&](Communicator& communicator) {
            Collectives c(communicator);
            const std::string text = it.name + ": rank 2 of " + std::to_string(hosts.size()) + " on " + hosts[2] +
                                     " has ended (after collective 2); this rank is at collective 3; accepted: join() for uneven loops";
            for (int i = 0; i < 2; ++i) it.work(c);
            if (c.rank() == 2) return;
            try {
              it.work(c);
              EXPECT_TRUE(some_may_be_through);
            } catch (const CommError& e) {
              EXPECT_EQ(e.what(), text);
              ++refused;
            }
          },
          hosts);
      EXPECT_GT(refused, 0);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, told_within());
    }
  }
}

TEST(Goodbye, behind_the_last_collective_fails_nobody_who_is_still_in_it) {
  std::mt19937 random(5);
  const std::vector<std::vector<std::string>> machines{{"a", "a", "a"}, {"a", "b", "c"}, {"a", "a", "b", "b"}};
  for (const auto& hosts : machines)
    for (const AwaitedCollective& it : awaited_collectives(hosts[0] == hosts.back(), hosts[0] == hosts[1])) {
      for (int repetition = 0; repetition < (is_full_run() ? 60 : 6); ++repetition) {
        std::vector<std::uint64_t> turns;  // that a rank is late
        for (std::size_t r = 0; r < hosts.size(); ++r) turns.push_back(random() % 4 == 0 ? random() % 100 : 0);
        run_ranks(
            static_cast<int>(hosts.size()),
            [&](Communicator& communicator) {
              Collectives c(communicator);
              for (int i = 0; i < 2; ++i) {
                for (std::uint64_t k = 0; k < turns[at(c.rank())]; ++k) std::this_thread::yield();
                it.work(c);
              }
            },
            hosts);
      }
    }
}

TEST(Goodbye, ends_the_wait_for_messages_that_never_come_and_not_for_those_that_do) {
  run_ranks(2, [](Communicator& c) {
    std::byte sent{7}, got{};
    if (c.rank() == 1) {
      Transfer one = c.send(0, raw_bytes(sent)), two = c.send(0, raw_bytes(sent), 3);
      one.wait();
      two.wait();
      return;
    }
    Transfer other = c.receive(1, raw_bytes(got), 3);
    c.receive(1, raw_bytes(got)).wait();
    other.wait();
    EXPECT_EQ(got, sent);
    const std::string why =
        ": rank 1 of 2 on localhost has ended (before its first collective); this rank is at collective 1; accepted: as many steps on every rank";
    EXPECT_EQ(message_of<CommError>([&] { c.receive(1, raw_bytes(got)).wait(); }), "receive" + why);
    EXPECT_EQ(message_of<CommError>([&] { c.send(1, raw_bytes(got)).wait(); }), "send" + why);
  });
}

TEST(Goodbye, of_a_group_is_of_its_ranks_in_the_job) {
  run_ranks(3, [](Communicator& c) {
    if (c.rank() == 0) return;
    const int ranks[] = {1, 2};
    const auto group = c.group(ranks);
    Collectives two(*group);
    two.barrier();
    if (c.rank() == 2) return;
    EXPECT_EQ(message_of<CommError>([&] { two.barrier(); }),
              "barrier: rank 2 of 3 on localhost has ended (after collective 1); this rank is at collective 2; accepted: join() for uneven loops");
  });
}

TEST(Goodbye, names_what_is_communicated_and_the_steps_of_both) {
  run_communicating_ranks(3, [](CommunicationThread& c) {
    const auto step = [&](std::int64_t number) {
      c.at_step(number);
      c.run([&](Collectives& all) {
        const CommunicationThread::Doing doing(c, "fc.weight");
        float x = 1;
        all.all_reduce(elements_of({&x, 1}));
      });
    };
    for (const std::int64_t number : {40, 41}) step(number);
    if (c.rank() == 2) return;
    EXPECT_EQ(message_of<CommError>([&] { step(42); }),
              "all-reduce fc.weight: rank 2 of 3 on localhost has ended (after step 41); this rank is at step 42; accepted: join() for uneven loops");
  });
}

TEST(Goodbye, of_a_rank_of_horovods_ends_what_it_has_not_asked_for) {
  for (const bool known : {false, true}) {  // whether the name is one that the ranks have agreed on
    std::barrier others(2);                 // rank 2 is the only one that has ended, until both have looked
    run_horovod(3, quick(), [&](horovod::NamedCollectives& h) {
      Floats a{1}, b{1};
      h.all_reduce("fc.weight", tensor_of(a), {.reduction = Reduction::sum}).synchronize();
      EXPECT_EQ(a[0], 3);
      if (h.rank() == 2) return;
      const std::string name = known ? "fc.weight" : "fc.bias";
      horovod::Handle one = h.all_reduce(name, tensor_of(a)), other = h.all_gather("rows", tensor_of(b));
      const std::string why = ": rank 2 of 3 on localhost has ended (after request 1); this rank is at request ";
      EXPECT_EQ(message_of<CommError>([&] { one.synchronize(); }), "all-reduce " + name + why + "2; accepted: join() for uneven loops");
      EXPECT_EQ(message_of<CommError>([&] { other.synchronize(); }), "all-gather rows" + why + "3; accepted: join() for uneven loops");
      EXPECT_EQ(message_of<CommError>([&] { h.join().synchronize(); }), "join" + why + "4; accepted: join() for uneven loops");
      others.arrive_and_wait();
    });
  }
}

TEST(Goodbye, of_a_rank_of_horovods_leaves_what_it_has_asked_for) {
  std::vector<Floats> memory(6, Floats{1});  // of the last requests of rank 2 as well, which it does not wait for
  run_horovod(3, quick(), [&](horovod::NamedCollectives& h) {
    Floats &a = memory[at(h.rank())], &b = memory[at(3 + h.rank())];
    for (int step = 0; step < 20; ++step) {
      horovod::Handle first = h.all_reduce("a", tensor_of(a), {.reduction = Reduction::max}),
                      second = h.all_reduce(step < 19 ? "b" : "c", tensor_of(b), {.reduction = Reduction::max});
      if (h.rank() == 2 && step == 19) return;  // its last requests are under way
      first.synchronize();
      second.synchronize();
    }
  });
}

TEST(Join, of_a_rank_of_horovods_counts_what_it_has_asked_for_before) {
  std::vector<Floats> memory(6, Floats{1});
  run_horovod(3, quick(), [&](horovod::NamedCollectives& h) {
    Floats &a = memory[at(h.rank())], &b = memory[at(3 + h.rank())];
    for (int epoch = 0; epoch < 2; ++epoch) {  // names that are new, and names that the ranks have agreed on
      a[0] = b[0] = static_cast<float>(h.rank());
      std::vector<horovod::Handle> handles;
      if (h.rank() != 2) handles.push_back(h.all_reduce("a", tensor_of(a)));
      if (h.rank() == 0) handles.push_back(h.join());  // its request may be under way
      if (h.rank() == 1) handles.push_back(h.all_reduce("b", tensor_of(b)));
      for (horovod::Handle& handle : handles) {
        const int last = handle.synchronize().last_joined;
        EXPECT_TRUE(last < 0 || h.rank() == 0);
      }
      if (h.rank() != 0) h.join().synchronize();
      EXPECT_EQ(a[0], h.rank() == 2 ? 2 : 0.5f) << "the mean of ranks 0 and 1: rank 2 has joined without it";
      EXPECT_EQ(b[0], h.rank() == 0 ? 0 : h.rank()) << "rank 1's alone";
    }
  });
}

TEST(Goodbye, of_a_rank_of_horovods_is_seen_by_work_that_is_submitted_as_well) {
  run_communicating_ranks(3, [](CommunicationThread& communication) {
    horovod::NamedCollectives h(communication, quick());
    Floats a{1};
    h.all_reduce("a", tensor_of(a)).synchronize();
    if (h.rank() == 2) return;
    EXPECT_NE(message_of<CommError>([&] { communication.run([](Collectives& c) { c.all_gather({}); }); }).find("rank 2 of 3 on localhost has ended"),
              std::string::npos);
  });
}

TEST(Join, takes_part_in_every_collective_and_changes_nothing) {
  const std::vector<std::vector<std::string>> machines{{"a", "a", "a"}, {"a", "b", "c"}, {"a", "a", "b", "b"}};
  for (const auto& hosts : machines)
    for (const int first : {0, 1, 2}) {  // that joins before all others
      SCOPED_TRACE("rank " + std::to_string(first) + " first, on " + hosts[1] + hosts[2]);
      const float ranks = static_cast<float>(hosts.size());
      run_ranks(
          static_cast<int>(hosts.size()),
          [&](Communicator& communicator) {
            Collectives c(communicator);
            const auto reduced = [&](Reduction reduction, Algorithm algorithm, std::size_t count) {
              std::vector<float> x(count, static_cast<float>(-2 - c.rank()));
              c.all_reduce(elements_of(x), reduction, algorithm);
              return x.back();
            };
            for (int epoch = 0; epoch < 3; ++epoch) {
              EXPECT_EQ(reduced(Reduction::sum, Algorithm::tree, 5), -2 * ranks - ranks * (ranks - 1) / 2);
              if (c.rank() != first) {
                const float all = -2 * ranks - ranks * (ranks - 1) / 2 + 2 + static_cast<float>(first);
                for (const Algorithm a : {Algorithm::ring, Algorithm::tree, hosts[0] == hosts[1] ? Algorithm::hierarchical : Algorithm::ring})
                  for (const std::size_t count : {std::size_t{1}, std::size_t{100'000}}) {
                    EXPECT_EQ(reduced(Reduction::sum, a, count), all);
                    EXPECT_EQ(reduced(Reduction::mean, a, count), all / (ranks - 1));
                    EXPECT_EQ(reduced(Reduction::max, a, count), first == 0 ? -3 : -2);
                  }
                std::int64_t bits[] = {6 + c.rank() % 2};
                c.all_reduce({raw_bytes(bits[0]).data(), 1, DType::int64}, Reduction::bit_and);
                EXPECT_EQ(bits[0] & 6, 6);
                const auto all_gathered = c.all_gather(std::vector<std::byte>(3));
                for (int r = 0; r < c.size(); ++r) EXPECT_EQ(all_gathered[at(r)].size(), r == first ? 0u : 3u);
                const int root = first == 0 ? 1 : 0;
                int said = c.rank() == root ? 9 : 0;
                for (int i = 0; i < 3; ++i) c.broadcast(raw_bytes(said), root);
                EXPECT_EQ(said, 9);
                std::vector<float> x(7, 1);
                c.reduce(elements_of(x), Reduction::mean, root);
                EXPECT_EQ(x[0], 1);
                c.reduce_scatter(elements_of(x = std::vector<float>(7, 1)), Reduction::mean);
                EXPECT_EQ(x[at(Collectives::piece_begin(7, c.rank(), c.size()))], 1);
                c.all_to_all(std::vector<std::vector<std::byte>>(at(c.size()), std::vector<std::byte>(2)));
                c.barrier();
              }
              EXPECT_EQ(c.join(), first == c.size() - 1 ? c.size() - 2 : c.size() - 1) << "of those with as many the one with the largest number";
            }
          },
          hosts);
    }
}

TEST(Join, of_ranks_one_after_the_other_tells_all_who_was_last) {
  std::mt19937 random(3);
  for (int repetition = 0; repetition < (is_full_run() ? 100 : 15); ++repetition) {
    std::vector<int> steps;
    for (int r = 0; r < 4; ++r) steps.push_back(static_cast<int>(random() % 6));
    int last = 0;
    for (int r = 0; r < 4; ++r)
      if (steps[at(r)] >= steps[at(last)]) last = r;
    run_ranks(4, [&](Communicator& communicator) {
      Collectives c(communicator);
      for (int epoch = 0; epoch < 2; ++epoch) {
        for (int step = 0; step < steps[at(c.rank())]; ++step) {
          float x = 1;
          c.all_reduce(elements_of({&x, 1}));
          EXPECT_EQ(x, static_cast<float>(std::ranges::count_if(steps, [&](int s) { return s > step; })));
        }
        EXPECT_EQ(c.join(), last);
      }
    });
  }
}

TEST(Join, says_that_a_rank_has_ended_instead) {
  run_ranks(3, [](Communicator& communicator) {
    Collectives c(communicator);
    c.barrier();
    if (c.rank() == 1) return;
    if (c.rank() == 0) {
      EXPECT_NE(message_of<CommError>([&] { c.barrier(); }).find("barrier: rank 1 of 3 on localhost has ended"), std::string::npos);
    }
    EXPECT_NE(message_of<CommError>([&] { c.join(); }).find("join: rank 1 of 3 on localhost has ended (after collective 1)"), std::string::npos);
  });
}

TEST(Join, gives_no_messages_and_no_root) {
  run_ranks(2, [](Communicator& communicator) {
    Collectives c(communicator);
    if (c.rank() == 1) {
      EXPECT_THROW(c.join(), CommError);
      return;
    }
    std::byte x{};
    EXPECT_EQ(message_of<CommError>([&] { communicator.receive(1, raw_bytes(x)).wait(); }),
              "receive: rank 1 of 2 on localhost has joined, and sends and receives no messages of its own; accepted: behind join() on every rank");
    EXPECT_EQ(message_of<CommError>([&] { c.broadcast(raw_bytes(x), 1); }),
              "broadcast: rank 1 has joined, and is needed; accepted: behind join() on every rank");
  });
}

}  // namespace
}  // namespace gemel::parallel
