#include "datasets/pictures/cifar10.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "datasets/formats/tar.h"
#include "datasets/pictures/place_picture.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/git_lfs.h"

namespace gemel::datasets {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 6> kFiles{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                            "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};
/// The official archive inflates to 184 390 000 bytes and its headers.
constexpr std::int64_t kMaxArchiveBytes = std::int64_t{1} << 30;
/// Of the training pictures, for each channel, of pixels in [0, 1].
constexpr std::array<float, 3> kMean{0.4914f, 0.4822f, 0.4465f}, kDeviation{0.2470f, 0.2435f, 0.2616f};

using Record = std::array<std::byte, Cifar10Dataset::kRecordBytes>;

void check_size(const std::string& file, std::int64_t bytes) {
  if (bytes != Cifar10Dataset::kFileBytes) throw DataError(fmt::format("cifar10: {} has {} bytes; expected: {}", file, bytes, Cifar10Dataset::kFileBytes));
}

/// The begin of a file's record. @param out  gets it where it lies on the disk, as much as it holds
std::span<const std::byte> begin_of_record(const Cifar10File& file, std::int64_t i, std::span<std::byte> out) {
  const std::int64_t offset = i * Cifar10Dataset::kRecordBytes;
  if (const auto* memory = std::get_if<std::vector<std::byte>>(&file)) return std::span(*memory).subspan(static_cast<std::size_t>(offset), out.size());
  std::get<SteadyFile>(file).read(offset, out);
  return out;
}

/// @param name  of the file, for errors  @throws DataError naming file, record and value of a label out of range
std::vector<std::uint8_t> labels_of(const Cifar10File& file, const std::string& name, std::int64_t classes) {
  std::vector<std::uint8_t> labels;
  for (std::int64_t i = 0; i < Cifar10Dataset::kRecordsPerFile; ++i) {
    std::byte room{};
    labels.push_back(static_cast<std::uint8_t>(begin_of_record(file, i, {&room, 1})[0]));
    if (labels.back() >= classes)
      throw DataError(fmt::format("cifar10: {}: record {} (from 0) has label {}; accepted: 0..{}", name, i, labels.back(), classes - 1));
  }
  return labels;
}

struct Opened {
  std::optional<Cifar10File> file;
  std::vector<std::uint8_t> labels;
};
using Files = std::array<Opened, kFiles.size()>;

Files read_folder(const fs::path& data, std::int64_t classes) {
  const fs::path inner = data / "cifar-10-batches-bin";
  const fs::path folder = !is_there(data / kFiles[0]) && is_folder(inner) ? inner : data;
  Files files;
  for (std::size_t i = 0; i < kFiles.size(); ++i) {
    const fs::path path = folder / kFiles[i];
    if (!is_there(path) && (is_there(data / "data_batch_1") || is_folder(data / "cifar-10-batches-py")))
      throw DataError(fmt::format("cifar10: {} has the version for Python; accepted: the binary version, cifar-10-binary.tar.gz", data.string()));
    if (!is_there(path)) throw DataError(fmt::format("cifar10: {} is missing; expected: a file of {} bytes", path.string(), Cifar10Dataset::kFileBytes));
    SteadyFile file(path);
    if (const std::string pointer = git_lfs_pointer(file); !pointer.empty()) throw DataError(fmt::format("cifar10: {}: {}", path.string(), pointer));
    check_size(path.string(), file.bytes());
    files[i].file = std::move(file);
    files[i].labels = labels_of(*files[i].file, path.string(), classes);
  }
  return files;
}

Files read_archive(const fs::path& path, std::int64_t classes) {
  TarReader archive(path, kMaxArchiveBytes);
  Files files;
  bool is_for_python = false;
  while (const auto member = archive.next()) {
    is_for_python |= fs::path(member->name).filename() == "data_batch_1";
    const auto wanted = std::ranges::find(kFiles, fs::path(member->name).filename().string());
    if (wanted == kFiles.end()) continue;
    const std::string name = fmt::format("{}: {}", path.string(), member->name);
    if (!member->is_file) throw DataError(fmt::format("cifar10: {} is no regular file", name));
    Opened& opened = files[static_cast<std::size_t>(wanted - kFiles.begin())];
    if (opened.file) throw DataError(fmt::format("cifar10: {} stands in the archive twice", name));
    check_size(name, member->bytes);
    std::vector<std::byte> content(static_cast<std::size_t>(member->bytes));
    archive.read(content);
    opened.file = std::move(content);
    opened.labels = labels_of(*opened.file, name, classes);
  }
  if (is_for_python) throw DataError(fmt::format("cifar10: {} is the version for Python; accepted: the binary version, cifar-10-binary.tar.gz", path.string()));
  for (std::size_t i = 0; i < kFiles.size(); ++i)
    if (!files[i].file)
      throw DataError(fmt::format("cifar10: {} lacks {}; expected: a file of {} bytes", path.string(), kFiles[i], Cifar10Dataset::kFileBytes));
  return files;
}

std::unique_ptr<Cifar10Dataset> data_set_of(std::span<Opened> files, std::int64_t classes, Normalize normalize) {
  std::vector<Cifar10File> contents;
  std::vector<std::uint8_t> labels;
  for (Opened& f : files) {
    contents.push_back(std::move(*f.file));
    labels.insert(labels.end(), f.labels.begin(), f.labels.end());
  }
  return std::make_unique<Cifar10Dataset>(std::move(contents), std::move(labels), classes, normalize);
}

}  // namespace

Cifar10Dataset::Cifar10Dataset(std::vector<Cifar10File> files, std::vector<std::uint8_t> labels, std::int64_t classes, Normalize normalize)
    : classes_(classes), files_(std::move(files)), labels_(std::move(labels)) {
  for (std::size_t c = 0; c < values_.size(); ++c)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const float pixel = static_cast<float>(byte) / 255.0f;
      values_[c][byte] = normalize == Normalize::standard ? (pixel - kMean[c]) / kDeviation[c] : pixel;
    }
}

void Cifar10Dataset::copy(std::int64_t i, const Placement& placement, std::span<float> out) const {
  constexpr std::int64_t kPlane = 32 * 32;
  Record room;
  const std::byte* planes = begin_of_record(files_[static_cast<std::size_t>(i / kRecordsPerFile)], i % kRecordsPerFile, room).data() + 1;
  const auto pixel = [&](std::int64_t c, std::int64_t k) { return values_[static_cast<std::size_t>(c)][static_cast<std::size_t>(planes[c * kPlane + k])]; };
  place(
      shape_, placement, pixel, [&](std::int64_t c) { return values_[static_cast<std::size_t>(c)][0]; }, out);
}

void Cifar10Dataset::check_files() const {
  for (const Cifar10File& file : files_)
    if (const auto* on_disk = std::get_if<SteadyFile>(&file)) on_disk->check_unchanged();
}

Splits open_cifar10(const fs::path& data, std::int64_t classes, Normalize normalize) {
  if (!is_there(data))
    throw DataError(
        fmt::format("cifar10: {} does not exist; accepted: a folder with {} and the other files, or the "
                    "official .tar.gz, or that unpacked to a .tar",
                    data.string(), kFiles[0]));
  if (classes == 0) classes = Cifar10Dataset::kClasses;
  const std::int64_t labels = std::min(classes, Cifar10Dataset::kClasses);
  Files files = is_folder(data) ? read_folder(data, labels) : read_archive(data, labels);
  const std::span<Opened> all(files);
  return {data_set_of(all.first(files.size() - 1), classes, normalize), data_set_of(all.last(1), classes, normalize)};
}

}  // namespace gemel::datasets
