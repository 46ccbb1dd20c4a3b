// Checkpoints as files: which one is the newest, and that no damage and no number out of its range is taken for another run.
#include "frontends/train/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/files/safetensors.h"
#include "frontends/train/checkpoint/metadata.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::train {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

CheckpointNumbers numbers_at(std::int64_t run, std::int64_t step) {
  return {.run = run, .step = step, .epoch = 2, .batch = 3, .sums = {.samples = 12, .loss = 0.1, .weight = 12, .counts = {7}}, .optimizer_steps = step};
}

class Checkpoints : public ::testing::Test {
 protected:
  /// A file as train writes them, of one tensor. @param changed  of its metadata, before the checksum is taken
  fs::path write(std::int64_t step, const CheckpointNumbers& numbers, const FileMetadata& changed = {}) const {
    const std::vector<float> values{1, 2, 3, 4};
    const std::vector<NamedTensor> tensors{{"model.weight", f32({2, 2}), std::as_bytes(std::span(values))}};
    FileMetadata metadata = metadata_of(numbers);
    for (const auto& [key, text] : changed) metadata[key] = text;
    metadata["checksum"] = checksum_of(tensors, metadata);
    const fs::path path = folder_.path() / ("checkpoint-" + std::to_string(step) + ".safetensors");
    write_safetensors(path, tensors, metadata);
    return path;
  }
  std::optional<fs::path> newest() {
    told_.clear();
    return newest_checkpoint(folder_.path(), [this](const std::string& line) { told_.push_back(line); });
  }
  TemporaryFolder folder_;
  std::vector<std::string> told_;
};

TEST_F(Checkpoints, are_the_newer_the_later_their_run_and_then_their_step_whatever_the_clock_says) {
  const fs::path old = write(400, numbers_at(1, 400)), tenth = write(10, numbers_at(2, 10)), ninth = write(9, numbers_at(2, 9));
  fs::last_write_time(old, fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(checkpoints_in(folder_.path()), (std::vector<fs::path>{old, ninth, tenth}));
  EXPECT_EQ(newest(), tenth);
  EXPECT_EQ(begin_in(folder_.path()).run, 3);
  const CheckpointFolder going_on = go_on_in(folder_.path(), tenth);
  EXPECT_EQ(going_on.run, 2);
  EXPECT_EQ(going_on.own, (std::vector<fs::path>{ninth, tenth}));
  EXPECT_EQ(go_on_in(folder_.path(), ninth).own, (std::vector<fs::path>{tenth, ninth})) << "a newer one that is not whole is the first to go";
}

TEST_F(Checkpoints, that_are_damaged_are_passed_over_by_name) {
  const fs::path whole = write(1, numbers_at(1, 1)), step = write(2, numbers_at(1, 2), {{"step", "-2"}}), torn = write(3, numbers_at(1, 3));
  fs::resize_file(torn, fs::file_size(torn) - 1);
  EXPECT_EQ(newest(), whole);
  ASSERT_EQ(told_.size(), 2u);
  std::ranges::sort(told_);
  EXPECT_NE(
      told_[0].find("resume: passed over: checkpoint: " + step.string() + " has '-2' for 'step' in its metadata; accepted: whole numbers, 0..1000000000000000"),
      std::string::npos)
      << told_[0];
  EXPECT_NE(told_[1].find(torn.string()), std::string::npos) << told_[1];
}

TEST_F(Checkpoints, with_a_number_out_of_its_range_are_refused) {
  const std::vector<std::pair<std::string, std::string>> wrong{{"run", "0"},
                                                               {"step", "-5"},
                                                               {"step", "1e3"},
                                                               {"epoch", "9223372036854775807"},
                                                               {"epoch", "9223372036854775808"},
                                                               {"batch", "-1"},
                                                               {"samples", "-100"},
                                                               {"samples", ""},
                                                               {"loss_sum", "nan"},
                                                               {"loss_sum", "1 2"},
                                                               {"weight", "-0x1p+0"},
                                                               {"counts", "0x1p+0 inf"},
                                                               {"counts", "1 x"},
                                                               {"optimizer_steps", "-1"},
                                                               {"optimizer_steps", "9223372036854775807"},
                                                               {"parameter_steps", "5 6"}};
  for (const auto& [key, text] : wrong) {
    const fs::path path = write(5, numbers_at(1, 5), {{key, text}});
    const std::string message = testing::message_of<DataError>([&] { numbers_in(SafetensorsHeader(path)); });
    EXPECT_NE(message.find("has '" + text + "' for '" + key + "' in its metadata; accepted: "), std::string::npos) << key << " " << text << ": " << message;
  }
  const fs::path path = write(5, numbers_at(1, 5), {{"parameter_steps", "5 0 3"}});
  EXPECT_EQ(numbers_in(SafetensorsHeader(path)).parameter_steps, (std::vector<std::int64_t>{5, 0, 3}));
}

TEST_F(Checkpoints, come_back_to_the_bit) {
  CheckpointNumbers n = numbers_at(3, 7);
  n.sums.loss = std::numeric_limits<double>::denorm_min();
  n.sums.counts = {0.1, 1e300, 0};
  const CheckpointNumbers read = numbers_in(SafetensorsHeader(write(7, n)));
  EXPECT_EQ(std::bit_cast<std::uint64_t>(read.sums.loss), std::bit_cast<std::uint64_t>(n.sums.loss));
  EXPECT_EQ(read.sums.counts, n.sums.counts);
  EXPECT_EQ((std::vector{read.run, read.step, read.epoch, read.batch, read.sums.samples, read.optimizer_steps}),
            (std::vector<std::int64_t>{3, 7, 2, 3, 12, 7}));
}

TEST_F(Checkpoints, with_one_bit_flipped_are_refused_or_mean_the_same) {
  const fs::path path = write(5, numbers_at(1, 5));
  const std::string bytes = testing::read_text(path);
  const auto checksum = [&] {
    const SafetensorsFile file(path);
    return checksum_of(file.tensors(), file.metadata());
  };
  const std::string original = checksum();
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    testing::write_text(path, flipped);
    if (newest()) {
      EXPECT_EQ(checksum(), original) << "bit " << bit;
    } else
      ++refused;
  }
  EXPECT_GT(refused, static_cast<int>(7 * bytes.size())) << "but for spaces";
}

}  // namespace
}  // namespace gemel::train
