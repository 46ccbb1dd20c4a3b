// TsvFile: a text file with tabs between columns and no quotes. It is split into lines by datasets/formats/lines.h; blank lines at its end do not count.
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
  /// Handles one line. @return false to stop reading
  using Take = std::function<bool(const Columns& columns)>;

  /// @param data_set  name that error messages begin with
  /// @throws DataError if the file cannot be read
  TsvFile(std::string data_set, std::filesystem::path file) : data_set_(std::move(data_set)), path_(std::move(file)), content_(read_fetched(path_)) {}

  /// Calls `take` for each line. The views stay valid as long as this object lives.
  /// @throws DataError `DATA SET: FILE, line N: ...` for a NUL byte, and for a DataError that `take` throws
  void each_line(const Take& take) const;
  /// Returns `DATA SET: FILE`, which error messages begin with.
  std::string title() const;

 private:
  std::string data_set_;
  std::filesystem::path path_;
  std::vector<std::byte> content_;
};

}  // namespace gemel::datasets
