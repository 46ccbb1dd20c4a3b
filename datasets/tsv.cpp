#include "datasets/tsv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/base/error.h"

namespace gemel::datasets {
namespace {

void cut(std::string_view line, TsvFile::Columns& out) {
  out.clear();
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find('\t', begin), line.size());
    out.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace

std::string TsvFile::title() const { return fmt::format("{}: {}", data_set_, path_.string()); }

void TsvFile::each_line(const Take& take) const {
  const std::string_view text = as_text(content_);
  Columns columns;
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    try {
      if (line.find('\0') != std::string_view::npos) throw DataError("it has a NUL byte; accepted: text");
      cut(line, columns);
      if (!take(columns)) return;
    } catch (const DataError& e) {
      throw DataError(fmt::format("{}, line {}: {}", title(), number, e.what()));
    }
  }
}

}  // namespace gemel::datasets
