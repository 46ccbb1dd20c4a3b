// Ranks that are processes and end before others, in groups of their own and at the end of the job.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "parallel/collectives/collectives.h"
#include "parallel/collectives/communication_thread.h"
#include "parallel/transport/mpi_communicator.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks/under_mpirun.h"

namespace gemel::parallel {
namespace {

using namespace gemel::testing;

constexpr int kAll[] = {0, 1, 2};
constexpr std::size_t kLongMessage = 100'000;  // elements: MPI sends so many bytes only when the other side asks for them

void all_reduce(Collectives& c, Algorithm algorithm, std::size_t count, float givers = 3) {
  std::vector<float> x(count, 1);
  c.all_reduce(elements_of(x), Reduction::sum, algorithm);
  EXPECT_EQ(x.back(), givers);
}

std::vector<Algorithm> algorithms_of(Communicator& c) {
  std::vector<Algorithm> out{Algorithm::ring, Algorithm::tree, Algorithm::carrier};
  if (c.local_size() == c.size()) out.push_back(Algorithm::shared);
  return out;
}

/// Groups that each rank leaves as soon as it is through.
void check_that_nobody_fails_who_is_slower(Communicator& world) {
  std::mt19937 random(static_cast<unsigned>(world.rank()));
  for (int repetition = 0; repetition < (is_full_run() ? 100 : 20); ++repetition) {
    const auto group = world.group(kAll);
    Collectives c(*group);
    for (const Algorithm algorithm : algorithms_of(c.communicator()))
      for (const std::size_t count : {std::size_t{1}, kLongMessage}) {
        for (auto late = random() % 8 == 0 ? random() % 20 : 0; late > 0; --late) std::this_thread::yield();
        all_reduce(c, algorithm, count);
      }
    const auto gathered = c.all_gather(std::vector<std::byte>(at(world.rank())));
    EXPECT_EQ(gathered[2].size(), 2u);
  }
}

void check_join(Communicator& world) {
  Collectives c(world);
  for (const int first : {0, 1, 2}) {
    for (const Algorithm algorithm : algorithms_of(world))
      for (const std::size_t count : {std::size_t{1}, kLongMessage}) {
        if (c.rank() == first) continue;
        std::vector<float> x(count, static_cast<float>(c.rank()));
        c.all_reduce(elements_of(x), Reduction::mean, algorithm);
        EXPECT_EQ(x.back(), static_cast<float>(3 - first) / 2);
      }
    EXPECT_EQ(c.join(), first == 2 ? 1 : 2);
  }
}

TEST(MpiGoodbye, on_ranks) {
  if (!mpi_launch()) GTEST_SKIP() << "for is_heard_by_all_ranks to start under mpirun";
  std::unique_ptr<Communicator> world = mpi_communicator();
  Communicator& w = *world;
  check_that_nobody_fails_who_is_slower(w);
  check_join(w);
  struct Ending {
    std::string name;
    std::function<void(Collectives&)> work;
    std::unique_ptr<Communicator> group{};
  };
  std::vector<Ending> cases;
  for (const Algorithm algorithm : algorithms_of(w))
    for (const std::size_t count : {std::size_t{1}, kLongMessage}) cases.push_back({"all-reduce", [=](Collectives& c) { all_reduce(c, algorithm, count); }});
  if (w.shared()) cases.push_back({"memory that ranks share", [](Collectives& c) { c.allocate_shared(100); }});
  cases.push_back({"all-gather", [](Collectives& c) { c.all_gather({}); }});
  cases.push_back({"barrier", [](Collectives& c) { c.barrier(); }});
  for (Ending& it : cases) {
    it.group = w.group(kAll);
    Collectives c(*it.group);
    it.work(c);
  }
  Collectives(w).barrier();
  if (w.rank() == 2) return cases.clear(), world.reset();
  for (Ending& it : cases) {
    Collectives c(*it.group);
    const auto begin = std::chrono::steady_clock::now();
    const std::string said = message_of<CommError>([&] { it.work(c); });
    EXPECT_EQ(said,
              it.name + ": rank 2 of 3 on " + w.host(2) + " has ended (after collective 1); this rank is at collective 2; accepted: join() for uneven loops");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, told_within()) << it.name;
  }
  EXPECT_NE(message_of<CommError>([&] { Collectives(w).barrier(); }).find("rank 2 of 3"), std::string::npos);
}

TEST(MpiGoodbye, is_heard_by_all_ranks) {
  if (mpi_launch()) GTEST_SKIP() << "under mpirun on_ranks runs";
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed";
  expect_passed_under_mpirun("MpiGoodbye.on_ranks");
}

TEST(MpiGoodbye, is_heard_by_ranks_of_other_machines) {
  if (mpi_launch()) GTEST_SKIP() << "under mpirun on_ranks runs";
  if (!has_mpirun() || !is_full_run()) GTEST_SKIP() << "with --full, where mpirun is installed";
  if (std::system("unshare --uts true 2>/dev/null") != 0) GTEST_SKIP() << "processes cannot have host names of their own here";
  expect_passed_under_mpirun("MpiGoodbye.on_ranks", "unshare --uts sh -c 'hostname node-$OMPI_COMM_WORLD_RANK; exec \"$@\"' sh");
}

/// One that has joined is another's to wait for still.
TEST(MpiGoodbye, a_rank_is_killed_on_ranks) {
  if (!mpi_launch()) GTEST_SKIP() << "for a_rank_that_is_killed_having_joined_ends_the_job to start under mpirun";
  CommunicationThread communication([] { return mpi_communicator(); });
  pid_t joins = ::getpid();
  communication.run([&](Collectives& c) { c.broadcast(raw_bytes(joins), 1); });
  if (communication.rank() == 1) communication.run([](Collectives& c) { c.join(); });
  for (int step = 0;; ++step) {
    if (communication.rank() == 0 && step == 5) ::kill(joins, SIGKILL);
    communication.run([](Collectives& c) { all_reduce(c, Algorithm::tree, 1, 2); });
  }
}

TEST(MpiGoodbye, a_rank_that_is_killed_having_joined_ends_the_job) {
  if (mpi_launch()) GTEST_SKIP() << "under mpirun a_rank_is_killed_on_ranks runs";
  if (!has_mpirun() || !is_full_run()) GTEST_SKIP() << "with --full, where mpirun is installed";
  const auto [status, said] = run_under_mpirun("MpiGoodbye.a_rank_is_killed_on_ranks");
  EXPECT_NE(status, 0);
  EXPECT_NE(said.find("rank 1 with PID"), std::string::npos) << said;
  EXPECT_EQ(said.find("time limit"), std::string::npos) << said;
}

}  // namespace
}  // namespace gemel::parallel
