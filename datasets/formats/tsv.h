// Files of lines with a tab between columns. Nothing is quoted; lines are those of datasets/formats/lines.h, and blank ones at the end are none.
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/files/file.h"
#include "engine/base/files/git_lfs.h"

namespace gemel::datasets {

class TsvFile {
 public:
  using Columns = std::vector<std::string_view>;
  /// What is done with a line. @return whether the lines behind it are looked at
  using Take = std::function<bool(const Columns& columns)>;

  /// @param data_set  begins its errors  @throws DataError where the file cannot be read
  TsvFile(std::string data_set, std::filesystem::path file) : data_set_(std::move(data_set)), path_(std::move(file)), content_(read_fetched(path_)) {}

  /// Line by line. The views are good as long as this object.
  /// @throws DataError `DATA SET: FILE, line N: ...` for a NUL byte, and for what `take` says in a DataError
  void each_line(const Take& take) const;
  /// `DATA SET: FILE`
  std::string title() const;

 private:
  std::string data_set_;
  std::filesystem::path path_;
  std::vector<std::byte> content_;
};

}  // namespace gemel::datasets
