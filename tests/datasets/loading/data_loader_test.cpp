// The loader: order, shards, workers and errors.
#include "datasets/loading/data_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <stdexcept>
#include <vector>

#include "datasets/loading/shard.h"
#include "datasets/pictures/place_picture.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "tests/support/message_of.h"

namespace gemel::datasets {
namespace {

using gemel::testing::message_of;

/// Picture i has pixels 1000 i + k in the order [C, H, W], and label i.
class Counting final : public Pictures {
 public:
  explicit Counting(std::int64_t size, Shape shape = {2, 6, 5}, std::int64_t broken = -1) : size_(size), shape_(shape), broken_(broken) {}
  std::string_view name() const override { return "counting"; }
  std::int64_t size() const override { return size_; }
  std::int64_t classes() const override { return size_; }
  const Shape& shape() const override { return shape_; }
  std::int64_t label(std::int64_t i) const override { return i; }
  void copy(std::int64_t i, const Placement& placement, std::span<float> out) const override {
    if (i == broken_) throw DataError("counting: picture " + std::to_string(i) + " is broken");
    const std::int64_t plane = shape_[1] * shape_[2];
    place(
        shape_, placement, [&](std::int64_t c, std::int64_t k) { return value(i, c * plane + k); }, [](std::int64_t) { return 0.0f; }, out);
  }
  static float value(std::int64_t i, std::int64_t k) { return static_cast<float>(1000 * i + k + 1); }

 private:
  std::int64_t size_;
  Shape shape_;
  std::int64_t broken_;
};

std::vector<std::int64_t> labels_of(const Batch& batch) {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(batch.samples));
  if (!labels.empty()) std::memcpy(labels.data(), batch["labels"].bytes->data(), batch["labels"].bytes->size());
  return labels;
}
std::span<const float> pixels_of(const Batch& batch) {
  const auto& bytes = *batch["images"].bytes;
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}
std::vector<Batch> epoch_of(DataLoader& loader, std::int64_t epoch, std::int64_t first = 0) {
  loader.start(epoch, first);
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  return batches;
}
std::vector<std::int64_t> order_of(DataLoader& loader, std::int64_t epoch) {
  std::vector<std::int64_t> order;
  for (const Batch& batch : epoch_of(loader, epoch)) std::ranges::copy(labels_of(batch), std::back_inserter(order));
  return order;
}
void expect_equal(const Batch& a, const Batch& b) {
  EXPECT_EQ(a["images"].spec, b["images"].spec);
  EXPECT_EQ(a.index, b.index);
  EXPECT_EQ(a.first_position, b.first_position);
  EXPECT_EQ(*a["images"].bytes, *b["images"].bytes);
  EXPECT_EQ(*a["labels"].bytes, *b["labels"].bytes);
}

TEST(DataLoader, without_shuffling_samples_come_in_order_and_the_last_batch_is_smaller) {
  const Counting data(10);
  DataLoader loader(data, {.batch_size = 4, .shuffle = Shuffle::off});
  EXPECT_EQ(loader.batches(), 3);
  const std::vector<Batch> batches = epoch_of(loader, 0);
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_EQ(batches[0]["images"].spec, f32({4, 6, 5, 2}));
  EXPECT_EQ(batches[2]["images"].spec, f32({2, 6, 5, 2}));
  EXPECT_EQ(labels_of(batches[1]), (std::vector<std::int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(labels_of(batches[2]), (std::vector<std::int64_t>{8, 9}));
  EXPECT_EQ(batches[2].first_position, 8);
  const auto pixels = pixels_of(batches[1]);
  for (std::int64_t k = 0; k < 60; ++k)
    for (std::int64_t j = 0; j < 4; ++j) ASSERT_EQ(pixels[static_cast<std::size_t>(j * 60 + k % 30 * 2 + k / 30)], Counting::value(4 + j, k));
}

TEST(DataLoader, a_permutation_holds_every_sample_once_and_depends_on_its_seed) {
  const std::vector<std::uint32_t> a = permutation(1000, 7), b = permutation(1000, 8);
  EXPECT_EQ(a, permutation(1000, 7));
  EXPECT_NE(a, b);
  EXPECT_EQ(std::set<std::uint32_t>(a.begin(), a.end()).size(), 1000u);
  EXPECT_EQ(*std::ranges::max_element(a), 999u);
  EXPECT_TRUE(permutation(0, 1).empty());
}

TEST(DataLoader, permutations_place_every_sample_everywhere_equally_often) {
  constexpr std::size_t kSize = 6;
  constexpr int kDraws = 6000;
  int counts[kSize][kSize]{};
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    const std::vector<std::uint32_t> order = permutation(kSize, seed);
    for (std::size_t i = 0; i < kSize; ++i) ++counts[i][order[i]];
  }
  // 1 000 expected, deviation sqrt(6 000 / 6 * 5 / 6) = 29: five deviations.
  for (const auto& row : counts)
    for (const int count : row) EXPECT_NEAR(count, kDraws / static_cast<int>(kSize), 145);
}

TEST(DataLoader, shuffling_differs_by_epoch_and_is_the_permutation_of_seed_plus_epoch) {
  const Counting data(50);
  DataLoader loader(data, {.batch_size = 7, .seed = 3});
  const std::vector<std::uint32_t> expected = permutation(50, 3 + 4);
  EXPECT_EQ(order_of(loader, 4), std::vector<std::int64_t>(expected.begin(), expected.end()));
  EXPECT_NE(order_of(loader, 4), order_of(loader, 5));
}

TEST(DataLoader, any_number_of_threads_delivers_the_same_batches) {
  const Counting data(101);
  DataLoader serial(data, {.batch_size = 8, .augment = Augment::standard, .workers = 0});
  const std::vector<Batch> expected = epoch_of(serial, 2);
  for (const int workers : {1, 2, 5}) {
    for (const int prefetch : {1, 3, 40}) {
      DataLoader loader(data, {.batch_size = 8, .augment = Augment::standard, .workers = workers, .prefetch = prefetch});
      const std::vector<Batch> batches = epoch_of(loader, 2);
      ASSERT_EQ(batches.size(), expected.size());
      for (std::size_t i = 0; i < batches.size(); ++i) expect_equal(batches[i], expected[i]);
    }
  }
}

TEST(DataLoader, an_epoch_begun_in_its_middle_is_the_rest_of_the_whole_one) {
  const Counting data(45);
  const DataLoaderOptions options{.batch_size = 4, .augment = Augment::standard, .workers = 2};
  DataLoader whole(data, options), rest(data, options);
  const std::vector<Batch> expected = epoch_of(whole, 3), batches = epoch_of(rest, 3, 5);
  ASSERT_EQ(batches.size(), expected.size() - 5);
  for (std::size_t i = 0; i < batches.size(); ++i) expect_equal(batches[i], expected[i + 5]);
  EXPECT_TRUE(epoch_of(rest, 3, 12).empty());
}

TEST(DataLoader, start_drops_what_was_being_made) {
  const Counting data(40);
  DataLoader loader(data, {.batch_size = 4, .shuffle = Shuffle::off, .workers = 3});
  loader.start(0);
  EXPECT_EQ(loader.next()->index, 0);
  loader.start(0, 7);
  EXPECT_EQ(loader.next()->index, 7);
}

TEST(DataLoader, ranks_share_each_batch_of_one_order) {
  const Counting data(23);
  for (const int ranks : {1, 2, 3, 5})
    for (const std::int64_t micro_batches : {1, 3}) {
      std::vector<std::vector<std::int64_t>> met(3);  // [batch] labels, of all ranks and micro-batches in their order
      std::vector<std::vector<Batch>> shards;
      for (int rank = 0; rank < ranks; ++rank) {
        DataLoader loader(data, {.batch_size = 10, .seed = 5, .rank = rank, .ranks = ranks, .micro_batches = micro_batches});
        EXPECT_EQ(loader.samples(), 23);
        EXPECT_EQ(loader.batches(), 3);
        shards.push_back(epoch_of(loader, 1));
      }
      for (std::size_t b = 0; b < 3; ++b) {
        std::vector<std::int64_t> begun(at(ranks));
        for (std::size_t k = 0; k < at(micro_batches); ++k)
          for (std::size_t r = 0; r < at(ranks); ++r) {
            const Batch& shard = shards[r][b];
            const std::int64_t count = micro_batches == 1 ? shard.samples : shard.micro_batches.at(k);
            const std::vector<std::int64_t> labels = labels_of(shard);
            for (std::int64_t j = begun[r]; j < begun[r] + count; ++j) {
              EXPECT_EQ(shard.position(j), static_cast<std::int64_t>(b) * 10 + std::ssize(met[b]));
              met[b].push_back(labels[at(j)]);
            }
            begun[r] += count;
          }
      }
      const std::vector<std::uint32_t> order = permutation(23, 5 + 1);
      std::vector<std::int64_t> all;
      for (const auto& labels : met) std::ranges::copy(labels, std::back_inserter(all));
      EXPECT_TRUE(std::ranges::equal(all, order)) << ranks << " ranks, " << micro_batches << " micro-batches";
    }
}

TEST(DataLoader, a_shard_of_a_small_batch_is_empty) {
  const Counting data(2);
  for (int rank = 0; rank < 3; ++rank) {
    DataLoader loader(data, {.shuffle = Shuffle::off, .rank = rank, .ranks = 3});
    const Batch batch = epoch_of(loader, 0).at(0);
    EXPECT_EQ(batch.samples, rank < 2 ? 1 : 0);
    EXPECT_EQ(batch["images"].spec, f32({batch.samples, 6, 5, 2}));
  }
}

TEST(DataLoader, shares_that_change_leave_each_batch_whole_on_ranks_with_any_number_of_workers) {
  const Counting data(100);
  constexpr int kRanks = 3;
  std::vector<std::unique_ptr<DataLoader>> ranks;
  for (int r = 0; r < kRanks; ++r) {
    ranks.push_back(
        std::make_unique<DataLoader>(data, DataLoaderOptions{.batch_size = 12, .seed = 3, .rank = r, .ranks = kRanks, .workers = r, .prefetch = 2}));
    ranks.back()->start(0);
  }
  DataLoader alone(data, {.batch_size = 12, .seed = 3});
  alone.start(0);
  std::vector<Shares> counts;
  for (std::int64_t i = 0; const auto whole = alone.next(); ++i) {
    std::set<std::int64_t> positions;
    Shares count;
    std::int64_t samples = 0;
    for (auto& loader : ranks) {
      const Batch mine = *loader->next();
      count.push_back(mine.samples);
      samples += mine.samples;
      for (std::int64_t j = 0; j < mine.samples; ++j) positions.insert(mine.position(j));
      if (i == 1) loader->share({7, 0, 5});
      if (i == 4) loader->share({2, 9, 1});
    }
    EXPECT_EQ(samples, whole->samples);
    EXPECT_EQ(std::ssize(positions), whole->samples) << "each sample once";
    counts.push_back(count);
  }
  const Shares even{4, 4, 4}, first{7, 0, 5}, second{2, 9, 1}, last{2, 1, 1};  // batch 2 is asked for next, and two are made ahead
  EXPECT_EQ(counts, (std::vector<Shares>{even, even, even, even, first, first, first, second, last}));
  for (auto& loader : ranks) loader->start(1);
  EXPECT_EQ(ranks[1]->next()->samples, 9) << "in later epochs too";
  EXPECT_EQ(message_of<UsageError>([&] { ranks[0]->share({1, 2}); }), "loader: the shares are 1, 2; accepted: one a rank, of 3, none below 0 and not all 0");
  EXPECT_THROW(ranks[0]->share({0, 0, 0}), UsageError);
  EXPECT_THROW(ranks[0]->share({1, -1, 2}), UsageError);
}

TEST(Shard, the_first_parts_have_one_sample_more) {
  using Runs = std::vector<SampleRun>;
  EXPECT_EQ(shard_of(10, 1, 1, 4), (Runs{{3, 3}}));
  EXPECT_EQ(shard_of(10, 1, 3, 4), (Runs{{8, 2}}));
  EXPECT_EQ(shard_of(7, 2, 0, 3), (Runs{{0, 2}, {4, 1}})) << "micro-batches of four and three samples";
  EXPECT_EQ(shard_of(7, 2, 2, 3), (Runs{{3, 1}, {6, 1}}));
  EXPECT_EQ(shard_of(2, 3, 1, 2), (Runs{{1, 0}, {2, 0}})) << "no more micro-batches than samples";
}

TEST(DataLoader, the_augmentation_of_a_sample_is_the_same_on_any_rank) {
  const Counting data(24);
  std::vector<std::vector<float>> alone(24), shared(24);
  const auto collect = [&](int rank, int ranks, std::vector<std::vector<float>>& into) {
    DataLoader loader(data, {.batch_size = 5, .augment = Augment::standard, .seed = 9, .rank = rank, .ranks = ranks});
    for (const Batch& batch : epoch_of(loader, 6)) {
      const std::vector<std::int64_t> labels = labels_of(batch);
      for (std::size_t j = 0; j < labels.size(); ++j) {
        const auto picture = pixels_of(batch).subspan(j * 60, 60);
        into[static_cast<std::size_t>(labels[j])].assign(picture.begin(), picture.end());
      }
    }
  };
  collect(0, 1, alone);
  for (int rank = 0; rank < 3; ++rank) collect(rank, 3, shared);
  EXPECT_EQ(alone, shared);
}

TEST(DataLoader, a_placed_picture_is_the_padded_one_cropped_then_mirrored) {
  for (const Shape& shape : {Shape{3, 7, 6}, Shape{1, 2, 3}, Shape{2, 1, 1}}) {
    const Counting data(2, shape);
    const std::int64_t channels = shape[0], height = shape[1], width = shape[2];
    std::vector<float> out(static_cast<std::size_t>(shape.elements()));
    for (std::int64_t top = -4; top <= 4; ++top)
      for (std::int64_t left = -4; left <= 4; ++left)
        for (const bool flip : {false, true}) {
          std::ranges::fill(out, -1.0f);
          data.copy(1, {top, left, flip}, out);
          std::vector<float> expected(out.size());
          for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t y = 0; y < height; ++y)
              for (std::int64_t x = 0; x < width; ++x) {
                const std::int64_t from_y = y + top, from_x = (flip ? width - 1 - x : x) + left;
                const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
                expected[static_cast<std::size_t>((y * width + x) * channels + c)] = inside ? Counting::value(1, (c * height + from_y) * width + from_x) : 0.0f;
              }
          ASSERT_EQ(out, expected) << to_string(shape) << " top " << top << " left " << left << " flip " << flip;
        }
  }
}

TEST(DataLoader, augmentation_draws_all_offsets_and_both_sides_equally_often) {
  std::vector<int> top(9), left(9);
  int flipped = 0;
  for (std::int64_t i = 0; i < 9000; ++i) {
    const Placement p = augmentation({1, 0}, i);
    ++top.at(static_cast<std::size_t>(p.top + 4));
    ++left.at(static_cast<std::size_t>(p.left + 4));
    flipped += p.flip;
  }
  // Deviations sqrt(9 000 / 9 * 8 / 9) = 30 and sqrt(9 000) / 2 = 47: five of each.
  for (std::size_t k = 0; k < 9; ++k) {
    EXPECT_NEAR(top[k], 1000, 150);
    EXPECT_NEAR(left[k], 1000, 150);
  }
  EXPECT_NEAR(flipped, 4500, 240);
  const Placement a = augmentation({1, 0}, 5), b = augmentation({1, 1}, 5), c = augmentation({2, 0}, 5);
  EXPECT_TRUE(std::tie(a.top, a.left, a.flip) != std::tie(b.top, b.left, b.flip) || std::tie(a.top, a.left, a.flip) != std::tie(c.top, c.left, c.flip));
}

TEST(DataLoader, an_exception_in_a_worker_reaches_the_consumer_in_its_turn) {
  const Counting data(40, {2, 6, 5}, 22);
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(data, {.batch_size = 4, .shuffle = Shuffle::off, .workers = workers});
    loader.start(0);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(loader.next()->index, i);
    EXPECT_EQ(message_of<DataError>([&] { loader.next(); }), "counting: picture 22 is broken");
    EXPECT_THROW(loader.next(), UsageError);
    loader.start(0, 6);
    EXPECT_EQ(loader.next()->index, 6);
  }
}

TEST(DataLoader, buffers_outlive_the_loader) {
  const Counting data(4);
  Batch batch;
  {
    DataLoader loader(data, {.batch_size = 4, .shuffle = Shuffle::off});
    loader.start(0);
    batch = *loader.next();
  }
  EXPECT_EQ(pixels_of(batch)[0], Counting::value(0, 0));
}

TEST(DataLoader, options_out_of_range_are_named) {
  const Counting data(4), none(0);
  EXPECT_EQ(message_of<UsageError>([&] { DataLoader(data, {.rank = 2, .ranks = 2}); }), "loader: rank is 2; accepted: 0..1");
  EXPECT_EQ(message_of<UsageError>([&] { DataLoader(data, {.batch_size = 0}); }), "loader: batch size is 0; accepted: 1..2147483648");
  EXPECT_EQ(message_of<UsageError>([&] { DataLoader(none, {}); }), "loader: number of samples is 0; accepted: 1..4294967295");
  DataLoader loader(data, {.batch_size = 2});
  EXPECT_EQ(message_of<UsageError>([&] { loader.start(0, 3); }), "loader: first batch is 3; accepted: 0..2");
  EXPECT_THROW(loader.next(), UsageError);
}

}  // namespace
}  // namespace gemel::datasets
