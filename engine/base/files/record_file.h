// Files that grow by whole records: lines, or events.
#pragma once
#include <filesystem>
#include <string_view>
#include <utility>

#include "engine/base/files/descriptor.h"

namespace gemel {

class RecordFile {
 public:
  /// @param file  open for appending, by this process alone  @param path  that errors name
  RecordFile(Descriptor file, std::filesystem::path path) : file_(std::move(file)), path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  /// By one system call where the disk has room: a reader, or a crash, never sees half of two records mixed.
  /// @throws DataError `write: cannot write PATH: No space left on device`; the file then ends as it did before
  void append(std::string_view record);

 private:
  Descriptor file_;
  std::filesystem::path path_;
};

}  // namespace gemel
