// Ratings of a test's own: users of four groups of items, which a small model learns in seconds.
#pragma once
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "tests/support/program/command_line_words.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {

/// Writes ratings.tsv: item i is of group i % 4. A user meets so many items of one group, in order of time, but lines are in another order.
inline void write_ratings(const std::filesystem::path& folder, std::uint32_t users = 120, std::uint32_t items = 128, std::uint32_t met = 20) {
  constexpr std::uint32_t kGroups = 4;
  PhiloxStream draws(5, stream_hash("ratings"));
  std::vector<std::string> lines;
  for (std::uint32_t user = 0; user < users; ++user) {
    const std::uint32_t group = draws.below(kGroups);
    std::set<std::uint32_t> seen;
    while (seen.size() < met) {
      const std::uint32_t item = kGroups * draws.below(items / kGroups) + group;
      if (seen.insert(item).second)
        lines.push_back("user" + std::to_string(user) + "\titem" + std::to_string(item) + "\t5\t" + std::to_string(1000 + seen.size()) + "\n");
    }
  }
  std::string text;
  for (std::size_t i = lines.size(); i > 0; --i) {
    std::swap(lines[i - 1], lines[draws.below(static_cast<std::uint32_t>(i))]);
    text += lines[i - 1];
  }
  write_text(folder / "ratings.tsv", text);
}

/// What `gemel COMMAND` is told of them.
inline Words with_ratings(const std::filesystem::path& folder, const Words& command, const Words& more = {}) {
  return joined(joined(command, {"--model", "ncf", "--config", "tiny", "--dataset", "ratings", "--data", folder.string()}), more);
}

}  // namespace gemel::testing
