// Damage to files, as disks, full or failing, and people do it.
#pragma once
#include <algorithm>
#include <filesystem>
#include <random>
#include <string>

#include "tests/support/temporary_folder.h"

namespace gemel::testing {

/// Changes a file in one of the ways that files are damaged; the time of writing stays in half of the cases. @return which way, for messages
inline std::string mutate(const std::filesystem::path& file, std::mt19937_64& random) {
  std::string content = read_text(file);
  const auto place = [&] { return content.empty() ? 0 : random() % content.size(); };
  const auto written = std::filesystem::last_write_time(file);
  std::string what;
  switch (random() % 6) {
    case 0:
      what = "truncation", content.resize(place());
      break;
    case 1:
      what = "emptying", content.clear();
      break;
    case 2: {
      what = "a page of zeros";
      const std::size_t begin = place();
      std::fill(content.begin() + static_cast<std::ptrdiff_t>(begin), content.begin() + static_cast<std::ptrdiff_t>(std::min(content.size(), begin + 4096)),
                '\0');
      break;
    }
    case 3:
      what = "growth", content += std::string(1 + random() % 100, 'x');
      break;
    case 4:
      what = "noise", std::ranges::generate(content, [&] { return static_cast<char>(random()); });
      break;
    default:
      what = "a flipped bit";
      if (const std::size_t at = place(); at < content.size()) content[at] = static_cast<char>(content[at] ^ (1 << random() % 8));
  }
  write_text(file, content);
  if (random() % 2) std::filesystem::last_write_time(file, written);
  return what;
}

}  // namespace gemel::testing
