// RecordFile: a file that grows by whole records, such as lines or events.
#pragma once
#include <filesystem>
#include <string_view>
#include <utility>

#include "engine/base/files/descriptor.h"

namespace gemel {

class RecordFile {
 public:
  /// @param file  open for appending, by this process alone
  /// @param path  named in errors
  RecordFile(Descriptor file, std::filesystem::path path) : file_(std::move(file)), path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  /// Appends a record, by one system call if the disk has room, so that neither a reader nor a crash sees mixed records.
  /// @throws DataError `write: cannot write PATH: No space left on device`; the file then ends as before the call
  void append(std::string_view record);

 private:
  Descriptor file_;
  std::filesystem::path path_;
};

}  // namespace gemel
