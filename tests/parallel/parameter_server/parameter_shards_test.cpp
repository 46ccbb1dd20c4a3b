// Parameters over servers, parts of batches over workers, and processors of workers.
#include "parallel/parameter_server/parameter_shards.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <numeric>
#include <thread>

#include "engine/base/error.h"
#include "parallel/parameter_server/free_batches.h"
#include "parallel/parameter_server/weighted_sum.h"
#include "parallel/parameter_server/worker_cores.h"

namespace gemel::parallel {
namespace {

TEST(ParameterShards, are_even_by_bytes_as_far_as_whole_parameters_are) {
  const std::vector<std::int64_t> bytes{4, 400, 8, 100, 300, 100, 4};
  const std::vector<int> server = shards_of(bytes, 2);
  std::int64_t held[2] = {};
  for (std::size_t i = 0; i < bytes.size(); ++i) held[server.at(i)] += bytes[i];
  EXPECT_EQ(server, (std::vector<int>{1, 0, 1, 1, 1, 0, 1}));
  EXPECT_EQ(held[0], 500);
  EXPECT_EQ(held[1], 416);
  EXPECT_EQ(shards_of(bytes, 1), std::vector<int>(bytes.size(), 0));
  EXPECT_EQ(shards_of(std::vector<std::int64_t>{5}, 3), std::vector<int>{0}) << "servers without parameters are fine";
}

using Processors = std::map<int, std::vector<int>>;

Processors processors_of(const std::vector<std::string>& hosts, int rank, int servers, const AllowedCores& allowed) {
  const std::vector<AllowedCores> each(hosts.size(), allowed);
  return WorkerCores(Placement::of(hosts, each), rank, servers, allowed).processors();
}

TEST(WorkerCores, are_the_workers_alone_of_a_machine_that_has_one_for_each) {
  const AllowedCores two{{0, 1}, std::nullopt, 2}, five{{0, 1, 2, 3, 4}, std::nullopt, 5};
  const std::vector<std::string> one_machine(3, "a"), two_machines{"a", "b", "a", "b"};
  EXPECT_EQ(processors_of(one_machine, 0, 1, two), (Processors{{1, {0}}, {2, {1}}})) << "as the server sees it";
  EXPECT_EQ(processors_of(one_machine, 2, 1, two), (Processors{{1, {0}}, {2, {1}}})) << "as a worker does";
  EXPECT_EQ(processors_of(one_machine, 0, 1, five), (Processors{{1, {0, 1}}, {2, {2, 3}}}));
  EXPECT_EQ(processors_of(two_machines, 1, 1, two), (Processors{{1, {0}}, {3, {1}}})) << "without those of other machines";
  EXPECT_EQ(processors_of({"a", "a", "a", "a"}, 0, 1, two), Processors()) << "more workers than processors";
  EXPECT_EQ(processors_of(one_machine, 0, 1, {{0, 1}, std::nullopt, 4}), Processors()) << "a part of a machine may be another job's too";
  EXPECT_EQ(processors_of(one_machine, 0, 1, {{0, 1}, 1.5, 2}), (Processors{{1, {0}}, {2, {1}}})) << "1.5 cores' worth of time are two cores";
  EXPECT_EQ(processors_of(one_machine, 0, 1, {{0, 1}, 1.0, 2}), Processors());
}

TEST(WorkerCores, a_process_computes_on_those_that_it_moved_to_with_all_of_its_threads) {
  const AllowedCores all = allowed_cores();
  if (!all.is_whole_machine() || all.processors.size() < 2) GTEST_SKIP() << "of a machine with two processors at least";
  const std::vector<std::string> hosts(3, "a");
  WorkerCores cores(Placement::of(hosts, std::vector<AllowedCores>(3, all)), 0, 1, all);
  std::atomic<bool> has_moved = false;
  std::vector<int> elsewhere;
  std::thread other([&] {
    while (!has_moved) std::this_thread::yield();
    elsewhere = allowed_cores().processors;
  });
  cores.move_to(2);
  has_moved = true;
  other.join();
  EXPECT_EQ(elsewhere, cores.processors().at(2));
  EXPECT_EQ(allowed_cores().processors, cores.processors().at(2));
  cores.move_to(7);
  EXPECT_EQ(allowed_cores().processors, all.processors) << "no core of this machine is idle for a worker of another one";
  cores.move_to(1);
  cores.move_to_all();
  EXPECT_EQ(allowed_cores().processors, all.processors);
}

TEST(FreeBatches, cover_an_epoch_once_in_the_order_of_samples) {
  FreeBatches free(50, 12, 5);  // 4 batches of 12, one of 2
  EXPECT_EQ(free.size(), 4 * 5 + 2);
  free.start();
  std::int64_t taken = 0;
  for (; const auto number = free.take(); ++taken) {
    EXPECT_EQ(*number, taken);
    free.done(*number);
  }
  EXPECT_EQ(taken, free.size());
  EXPECT_EQ(free.part(21), (BatchPart{4, 1}));
  EXPECT_THROW(FreeBatches(50, 4, 5), UsageError);
}

TEST(FreeBatches, that_come_back_are_taken_first_and_are_found_again_after_a_checkpoint) {
  FreeBatches free(24, 4, 2);
  free.start();
  for (int i = 0; i < 6; ++i) free.take();
  for (const std::int64_t done : {0, 2, 3, 5}) free.done(done);
  free.give_back(1);
  free.give_back(1);  // is free already
  free.give_back(2);  // is done
  EXPECT_EQ(free.missing(), (std::vector<std::int64_t>{1, 4}));
  EXPECT_EQ(free.take(), 1);
  FreeBatches again(24, 4, 2);
  again.start(4, {1, 4});
  std::vector<std::int64_t> rest;
  while (const auto number = again.take()) rest.push_back(*number);
  EXPECT_EQ(rest, (std::vector<std::int64_t>{1, 4, 6, 7, 8, 9, 10, 11}));
  EXPECT_THROW(again.start(11, {1, 4}), UsageError) << "more than an epoch has";
  EXPECT_THROW(again.start(2, {3}), UsageError);
  EXPECT_THROW(again.start(2, {1, 1}), UsageError);
}

TEST(WeightedSum, of_one_gradient_with_weight_1_is_that_gradient_to_the_last_bit) {
  std::vector<float> one{1e-38f, -3.25f, 7e37f, 0.1f}, sum(4, 5.f);
  add_weighted(sum, std::as_bytes(std::span(one)), 1.f, Sum::begins);
  EXPECT_EQ(std::memcmp(sum.data(), one.data(), sizeof(float) * 4), 0);
  add_weighted(sum, std::as_bytes(std::span(one)), -1.f, Sum::goes_on);
  EXPECT_EQ(sum, std::vector<float>(4, 0.f));
}

}  // namespace
}  // namespace gemel::parallel
