#include "datasets/cifar10.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "datasets/place.h"
#include "datasets/tar.h"
#include "engine/base/error.h"
#include "engine/base/file.h"

namespace gemel::datasets {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 6> kFiles{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                            "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};
/// The official archive inflates to 184 390 000 bytes and its headers.
constexpr std::int64_t kMaxArchiveBytes = std::int64_t{1} << 30;
/// Of the training pictures, for each channel, of pixels in [0, 1].
constexpr std::array<float, 3> kMean{0.4914f, 0.4822f, 0.4465f}, kDeviation{0.2470f, 0.2435f, 0.2616f};

using Files = std::array<Cifar10File, kFiles.size()>;

void check_size(const std::string& file, std::int64_t bytes) {
  if (bytes != Cifar10Dataset::kFileBytes)
    throw DataError(fmt::format("cifar10: {} has {} bytes; expected: {}", file, bytes, Cifar10Dataset::kFileBytes));
}

void check_labels(const std::string& file, std::span<const std::byte> bytes, std::int64_t classes) {
  for (std::int64_t i = 0; i < Cifar10Dataset::kRecordsPerFile; ++i) {
    const int label = static_cast<int>(bytes[static_cast<std::size_t>(i * Cifar10Dataset::kRecordBytes)]);
    if (label >= classes)
      throw DataError(fmt::format("cifar10: {}: record {} (from 0) has label {}; accepted: 0..{}", file, i, label, classes - 1));
  }
}

Files read_folder(const fs::path& data, std::int64_t classes) {
  const fs::path inner = data / "cifar-10-batches-bin";
  std::error_code error;
  const fs::path folder = !fs::exists(data / kFiles[0], error) && fs::is_directory(inner, error) ? inner : data;
  Files files;
  for (std::size_t i = 0; i < kFiles.size(); ++i) {
    const fs::path path = folder / kFiles[i];
    if (!fs::exists(path, error))
      throw DataError(fmt::format("cifar10: {} is missing; expected: a file of {} bytes", path.string(),
                                  Cifar10Dataset::kFileBytes));
    auto file = std::make_shared<const MappedFile>(path);
    const std::span<const std::byte> bytes = file->bytes();
    check_size(path.string(), static_cast<std::int64_t>(bytes.size()));
    check_labels(path.string(), bytes, classes);
    files[i] = {bytes, std::move(file)};
  }
  return files;
}

Files read_archive(const fs::path& path, std::int64_t classes) {
  TarReader archive(path, kMaxArchiveBytes);
  Files files;
  while (const auto member = archive.next()) {
    const auto wanted = std::ranges::find(kFiles, fs::path(member->name).filename().string());
    if (wanted == kFiles.end()) continue;
    const std::string name = fmt::format("{}: {}", path.string(), member->name);
    if (!member->is_file) throw DataError(fmt::format("cifar10: {} is no regular file", name));
    Cifar10File& file = files[static_cast<std::size_t>(wanted - kFiles.begin())];
    if (file.owner) throw DataError(fmt::format("cifar10: {} stands in the archive twice", name));
    check_size(name, member->bytes);
    auto content = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(member->bytes));
    archive.read(*content);
    check_labels(name, *content, classes);
    file = {*content, content};
  }
  for (std::size_t i = 0; i < kFiles.size(); ++i)
    if (!files[i].owner)
      throw DataError(fmt::format("cifar10: {} lacks {}; expected: a file of {} bytes", path.string(), kFiles[i],
                                  Cifar10Dataset::kFileBytes));
  return files;
}

}  // namespace

Cifar10Dataset::Cifar10Dataset(std::vector<Cifar10File> files, std::int64_t classes, Normalize normalize)
    : classes_(classes), files_(std::move(files)) {
  for (std::size_t c = 0; c < values_.size(); ++c)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const float pixel = static_cast<float>(byte) / 255.0f;
      values_[c][byte] = normalize == Normalize::standard ? (pixel - kMean[c]) / kDeviation[c] : pixel;
    }
}

void Cifar10Dataset::copy(std::int64_t i, const Placement& placement, std::span<float> out) const {
  constexpr std::int64_t kPlane = 32 * 32;
  const std::byte* planes = record(i) + 1;
  const auto pixel = [&](std::int64_t c, std::int64_t k) {
    return values_[static_cast<std::size_t>(c)][static_cast<std::size_t>(planes[c * kPlane + k])];
  };
  place(
      shape_, placement, pixel, [&](std::int64_t c) { return values_[static_cast<std::size_t>(c)][0]; }, out);
}

Splits open_cifar10(const fs::path& data, std::int64_t classes, Normalize normalize) {
  std::error_code error;
  if (!fs::exists(data, error))
    throw DataError(
        fmt::format("cifar10: {} does not exist; accepted: a folder with {} and the other files, or the "
                    "official .tar.gz",
                    data.string(), kFiles[0]));
  if (classes == 0) classes = Cifar10Dataset::kClasses;
  const std::int64_t labels = std::min(classes, Cifar10Dataset::kClasses);
  Files files = fs::is_directory(data, error) ? read_folder(data, labels) : read_archive(data, labels);
  Cifar10File test = std::move(files.back());
  std::vector<Cifar10File> train(std::make_move_iterator(files.begin()), std::make_move_iterator(files.end() - 1));
  return {std::make_unique<Cifar10Dataset>(std::move(train), classes, normalize),
          std::make_unique<Cifar10Dataset>(std::vector{std::move(test)}, classes, normalize)};
}

}  // namespace gemel::datasets
