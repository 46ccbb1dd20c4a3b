#include "datasets/formats/tsv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "datasets/formats/lines.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"

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
  Columns columns;
  datasets::each_line(without_blank_end(as_text(content_)), [&](std::string_view line, std::int64_t number) {
    try {
      if (line.find('\0') != std::string_view::npos) throw DataError("it has a NUL byte; accepted: text");
      cut(line, columns);
      return take(columns);
    } catch (const DataError& e) {
      throw DataError(fmt::format("{}, line {}: {}", title(), number, e.what()));
    }
  });
}

}  // namespace gemel::datasets
