// Reads the lines of ratings.tsv as interactions.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "datasets/formats/tsv.h"
#include "datasets/ratings/ratings_dataset.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::datasets {
namespace {

/// Numbers of names, in the order in which they first came.
class Numbering {
 public:
  /// @param name  outlives this  @param of  "user", for the error  @throws DataError for an empty name
  std::int32_t operator()(std::string_view name, const char* of) {
    if (name.empty()) throw DataError(fmt::format("its {} is empty; accepted: any text", of));
    return numbers_.try_emplace(name, narrow<std::int32_t>(std::ssize(numbers_))).first->second;
  }
  std::int64_t size() const { return std::ssize(numbers_); }

 private:
  std::unordered_map<std::string_view, std::int32_t> numbers_;
};

double number(std::string_view text, const char* of) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(out))
    throw DataError(fmt::format("its {} is '{}'; accepted: a number", of, text));
  return out;
}

}  // namespace

RatingSplits open_ratings(const std::filesystem::path& folder, const RatingsOptions& options) {
  const TsvFile file(options.name, folder / "ratings.tsv");
  Numbering users, items;
  Interactions met;
  std::size_t columns = 0;  // of each line; 0 before the first
  file.each_line([&](const TsvFile::Columns& line) {
    const std::size_t n = line.size();
    if (n < 2 || n > 4) throw DataError(fmt::format("it has {} column{}; accepted: 2 to 4, with tabs between: user, item, rating, time", n, n == 1 ? "" : "s"));
    if (columns && n != columns) throw DataError(fmt::format("it has {} columns; accepted: {}, as the lines before", n, columns));
    columns = n;
    Interaction interaction{users(line[0], "user"), items(line[1], "item")};
    if (n > 2) number(line[2], "rating");
    if (n > 3) interaction.time = number(line[3], "time");
    met.lines.push_back(interaction);
    return true;
  });
  met.users = users.size();
  met.items = items.size();
  if (met.lines.empty()) throw DataError(fmt::format("{} has no lines; accepted: user, item, rating, time in each, with tabs between", file.title()));
  if (met.users == 1) throw DataError(fmt::format("{} has one user; accepted: two or more", file.title()));
  try {
    return split_ratings(met, options);
  } catch (const DataError& e) {
    throw DataError(fmt::format("{}, {}", file.title(), e.what()));
  }
}

}  // namespace gemel::datasets
