// Files with a few bytes changed, cut out, doubled or put in: they are read or refused in words of our own, whatever they have become. A signal would
// end this program, and an endless loop its time. Ratings, speech and translations are damaged in the tests of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "datasets/pictures/cifar10.h"
#include "datasets/texts/glue.h"
#include "datasets/texts/open_tokenizer.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"
#include "engine/files/safetensors.h"
#include "frontends/train/checkpoint/checkpoint.h"
#include "frontends/train/checkpoint/metadata.h"
#include "tests/support/datasets/texts_folder.h"
#include "tests/support/device/test_device.h"
#include "tests/support/faults/fuzz_mutator.h"

namespace gemel {
namespace {

namespace fs = std::filesystem;
using testing::read_text, testing::TemporaryFolder, testing::write_text;

int as_many_as(int quick) { return testing::is_full_run() ? 1000 : quick; }

/// Writes mutations of a file and opens each. @param open  reads all of it
void expect_read_or_refused(const fs::path& file, int mutations, const std::function<void()>& open) {
  const std::string good = read_text(file);
  int refused = 0;
  open();
  for (int i = 0; i < mutations; ++i) {
    write_text(file, testing::Mutator({good}, static_cast<std::uint64_t>(i)).next());
    try {
      open();
    } catch (const InternalError& e) {
      ADD_FAILURE() << "mutation " << i << " of " << file << ": " << e.what();
    } catch (const Error& e) {
      ++refused;
      EXPECT_NE(std::string(e.what()), "") << "mutation " << i;
    } catch (const std::exception& e) {
      ADD_FAILURE() << "mutation " << i << " of " << file << ": " << e.what();
    }
  }
  EXPECT_GT(refused, 0) << "or nothing was changed that matters";
  write_text(file, good);
}

void read_all(const datasets::Dataset& data) {
  for (std::int64_t i = 0; i < data.size(); ++i) data.tensors(std::vector{i});
}

TEST(Mutations, of_texts_and_of_their_vocabulary_are_read_or_refused) {
  const TemporaryFolder folder;
  testing::write_texts(folder.path(), 12, 4);
  const auto open = [&] {
    const auto splits = datasets::open_glue("sst2", *datasets::open_tokenizer(folder / "vocab.txt"), {.folder = folder.path(), .max_length = 40});
    read_all(*splits.train);
    read_all(*splits.validation);
  };
  expect_read_or_refused(folder / "train.tsv", as_many_as(100), open);
  expect_read_or_refused(folder / "vocab.txt", as_many_as(100), open);
}

TEST(Mutations, of_pictures_are_read_or_refused) {
  const TemporaryFolder folder;
  constexpr auto kBytes = static_cast<std::uintmax_t>(datasets::Cifar10Dataset::kFileBytes);
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
    write_text(folder / name, "");
    fs::resize_file(folder / name, kBytes);  // zeros that take no room
  }
  const fs::path file = folder / "data_batch_3.bin";
  int refused = 0;
  for (int i = 0; i < as_many_as(10); ++i) {
    PhiloxStream draws(static_cast<std::uint64_t>(i), stream_hash("pictures"));
    const std::uint32_t at = draws.below(kBytes), kind = draws.below(3), record = at / 3073;
    fs::resize_file(file, kind == 0 ? at : kBytes + (kind == 1 ? at % 2 : 0));
    if (kind == 2) {
      std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
      out.seekp(record * 3073);
      out.put(static_cast<char>(draws.below(256)));
    }
    try {
      const datasets::Splits splits = datasets::open_cifar10(folder.path(), 0, datasets::Normalize::none);
      splits.train->tensors(std::vector<std::int64_t>{20000 + record});
    } catch (const DataError&) {
      ++refused;
    }
    fs::resize_file(file, 0);
  }
  EXPECT_GT(refused, 0);
}

/// A checksum over them would tell; here it is taken of what they have become, as a program that writes such files would.
TEST(Mutations, of_what_a_checkpoint_says_of_itself_are_read_or_refused) {
  const TemporaryFolder folder;
  const std::vector<float> values{1, 2, 3, 4};
  const std::vector<NamedTensor> tensors{{"model.weight", f32({2, 2}), std::as_bytes(std::span(values))}};
  const FileMetadata good =
      train::metadata_of(train::CheckpointNumbers{.run = 1, .step = 400, .epoch = 2, .batch = 3, .optimizer_steps = 400, .parameter_steps = {400, 399}});
  int refused = 0;
  for (int i = 0; i < as_many_as(60); ++i) {
    PhiloxStream draws(static_cast<std::uint64_t>(i), stream_hash("metadata"));
    FileMetadata metadata = good;
    auto changed = std::next(metadata.begin(), draws.below(static_cast<std::uint32_t>(metadata.size())));
    changed->second = testing::Mutator({changed->second}, static_cast<std::uint64_t>(i)).next();
    metadata["checksum"] = checksum_of(tensors, metadata);
    try {
      write_safetensors(folder / "checkpoint-400.safetensors", tensors, metadata);
    } catch (const UsageError&) {
      continue;  // no UTF-8
    }
    refused += !train::newest_checkpoint(folder.path(), [](const std::string&) {});
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace gemel
