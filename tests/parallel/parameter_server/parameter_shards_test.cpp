// Parameters over servers, and parts of batches over workers.
#include "parallel/parameter_server/parameter_shards.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "engine/base/error.h"
#include "parallel/parameter_server/free_batches.h"
#include "parallel/parameter_server/weighted_sum.h"

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

TEST(FreeBatches, cover_an_epoch_once_in_the_order_of_samples) {
  FreeBatches free(50, 12, 5);  // 4 batches of 12, one of 2
  EXPECT_EQ(free.size(), 4 * 5 + 2);
  free.start();
  std::int64_t samples = 0;
  for (std::int64_t expected = 0; const auto number = free.take(); ++expected) {
    EXPECT_EQ(*number, expected);
    samples += free.samples(*number);
    free.done(*number);
  }
  EXPECT_EQ(samples, 50);
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
