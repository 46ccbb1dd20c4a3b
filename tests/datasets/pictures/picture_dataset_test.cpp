// Synthetic pictures, how data sets are opened, and parts of batches.
#include "datasets/pictures/picture_dataset.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "datasets/loading/batch.h"
#include "engine/base/error.h"
#include "tests/support/message_of.h"

namespace gemel::datasets {
namespace {

using gemel::testing::message_of;

std::vector<float> picture(const Pictures& data, std::int64_t i) {
  std::vector<float> out(static_cast<std::size_t>(data.shape().elements()));
  data.copy(i, {}, out);
  return out;
}

TEST(Synthetic, is_the_same_for_the_same_seed_and_another_for_another) {
  const Splits a = open_dataset({}), b = open_dataset({}), c = open_dataset({.seed = 2});
  EXPECT_EQ(a.train->size(), 4096);
  EXPECT_EQ(a.train->shape(), (Shape{3, 32, 32}));
  EXPECT_EQ(a.train->classes(), 10);
  EXPECT_EQ(picture(*a.train, 17), picture(*b.train, 17));
  EXPECT_NE(picture(*a.train, 17), picture(*c.train, 17));
  EXPECT_NE(picture(*a.train, 17), picture(*a.train, 18));
  EXPECT_NE(picture(*a.train, 17), picture(*a.validation, 17));
}

TEST(Synthetic, pixels_lie_in_0_to_1_and_every_class_occurs) {
  const Splits splits = open_dataset({.input = {1, 5, 9}, .classes = 4});
  std::vector<int> counts(4);
  for (std::int64_t i = 0; i < splits.train->size(); ++i) {
    ++counts.at(static_cast<std::size_t>(splits.train->label(i)));
    for (const float value : picture(*splits.train, i)) ASSERT_TRUE(value >= 0 && value < 1) << value;
  }
  // 1024 expected, deviation sqrt(4 096 * 3 / 16) = 28: five deviations.
  for (const int count : counts) EXPECT_NEAR(count, 1024, 140);
}

TEST(Synthetic, the_nearest_class_mean_of_training_pictures_tells_the_class_of_validation_pictures) {
  const Splits splits = open_dataset({});
  std::vector<std::vector<float>> means(10, std::vector<float>(3072));
  std::vector<int> counts(10);
  for (std::int64_t i = 0; i < 512; ++i) {
    const auto label = static_cast<std::size_t>(splits.train->label(i));
    const std::vector<float> pixels = picture(*splits.train, i);
    ++counts[label];
    for (std::size_t k = 0; k < pixels.size(); ++k) means[label][k] += pixels[k];
  }
  for (std::size_t c = 0; c < 10; ++c)
    for (float& value : means[c]) value /= static_cast<float>(counts[c]);
  int right = 0;
  for (std::int64_t i = 0; i < 200; ++i) {
    const std::vector<float> pixels = picture(*splits.validation, i);
    std::int64_t best = 0;
    float least = 1e30f;
    for (std::size_t c = 0; c < 10; ++c) {
      float distance = 0;
      for (std::size_t k = 0; k < pixels.size(); ++k) {
        const float difference = pixels[k] - means[c][k];
        distance += difference * difference;
      }
      if (distance < least) {
        least = distance;
        best = static_cast<std::int64_t>(c);
      }
    }
    right += best == splits.validation->label(i);
  }
  EXPECT_GE(right, 198);
}

TEST(OpenDataset, a_limit_keeps_the_first_samples_of_each_split) {
  const Splits whole = open_dataset({}), part = open_dataset({.limit = 1000});
  EXPECT_EQ(part.train->size(), 1000);
  EXPECT_EQ(part.validation->size(), 512);
  EXPECT_EQ(part.train->label(999), whole.train->label(999));
  EXPECT_EQ(picture(*part.train, 999), picture(*whole.train, 999));
}

TEST(OpenDataset, wrong_options_are_usage_errors_that_say_what_is_accepted) {
  const auto message = [](const PictureDatasetOptions& options) { return message_of<UsageError>([&] { open_dataset(options); }); };
  EXPECT_EQ(message({.name = "cifar"}), "dataset: 'cifar' is unknown; accepted: synthetic, cifar10, npy");
  EXPECT_EQ(message({.name = "npy"}), "npy: no data path was given; accepted: the path of its files");
  EXPECT_EQ(message({.input = {32, 32}}), "synthetic: input [32, 32] is no picture; accepted: [C, H, W], each 1..65536");
  EXPECT_EQ(message({.limit = -1}), "synthetic: limit -1 is negative; accepted: 1 or more, 0 for all");
  EXPECT_EQ(message({.classes = 1000001}), "synthetic: classes 1000001 is out of range; accepted: 1..1000000, 0 for the data set's own");
  EXPECT_EQ(message({.normalize = Normalize::standard}), "synthetic: normalize standard needs a data set with known statistics; accepted: none, or cifar10");
}

TEST(Batch, a_part_has_its_samples_of_every_tensor_and_their_places) {
  const std::vector<float> pixels{0, 1, 10, 11, 20, 21};
  const std::vector<std::int64_t> labels{0, 1, 2};
  const Batch batch{.tensors = {host_tensor<float>("images", {3, 2}, pixels), host_tensor<std::int64_t>("labels", {3}, labels)},
                    .samples = 3,
                    .first_position = 7,
                    .positions = {7, 9, 12}};
  const Batch part = batch.part(1, 2);
  EXPECT_EQ(part.samples, 2);
  EXPECT_EQ(part.first_position, 9);
  EXPECT_EQ(part.position(0), 9);
  EXPECT_EQ(part.position(1), 12);
  const HostTensor images = host_tensor<float>("images", {2, 2}, std::span(pixels).subspan(2));
  EXPECT_EQ(part["images"].spec, images.spec);
  EXPECT_EQ(*part["images"].bytes, *images.bytes);
  EXPECT_EQ(*part["labels"].bytes, *host_tensor<std::int64_t>("labels", {2}, std::span(labels).subspan(1)).bytes);
}

TEST(Batch, a_part_of_tensors_with_other_samples_than_the_batchs_is_refused) {
  const std::vector<std::int64_t> labels{0, 1, 2};
  const auto part_with = [&](const Shape& shape) {
    const Batch batch{.tensors = {host_tensor<std::int64_t>("labels", shape, std::span(labels).first(static_cast<std::size_t>(shape.elements())))},
                      .samples = 4};
    return message_of<DataError>([&] { batch.part(0, 2); });
  };
  EXPECT_EQ(part_with({3}), "batch: the tensor 'labels' is int64 [3] in a batch of 4 samples; accepted: axis 0 of 4");
  EXPECT_EQ(part_with({}), "batch: the tensor 'labels' is int64 [] in a batch of 4 samples; accepted: axis 0 of 4");
}

}  // namespace
}  // namespace gemel::datasets
