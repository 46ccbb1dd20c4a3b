// Where studies and the programs of peers lie: in the source tree, or where they are installed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/accepted.h"
#include "engine/base/error.h"
#include "frontends/study/study.h"

namespace gemel::study {

namespace fs = std::filesystem;

std::vector<fs::path> study_files() {
  std::error_code none;
  const fs::path self = fs::read_symlink("/proc/self/exe", none).parent_path();
  std::vector<fs::path> out;
  for (const fs::path& folder : {fs::path(GEMEL_SOURCE_STUDIES), self.parent_path() / "share/gemel/studies", fs::path(GEMEL_INSTALLED_STUDIES)}) {
    for (const auto& entry : fs::directory_iterator(folder, none))
      if (entry.path().extension() == ".toml") out.push_back(entry.path());
    if (!out.empty()) break;
  }
  std::ranges::sort(out);
  return out;
}

fs::path find_study(const std::string& name) {
  if (name.ends_with(".toml")) return name;
  std::vector<std::string> known;
  for (const fs::path& file : study_files()) {
    if (file.stem() == name) return file;
    known.push_back(file.stem().string());
  }
  if (known.empty())
    throw UsageError(fmt::format("study: '{}' is unknown, and no studies lie in {}; accepted: a file that ends in .toml", name, GEMEL_INSTALLED_STUDIES));
  const std::string near = nearest(name, known);
  throw UsageError(fmt::format("study: '{}' is unknown{}; accepted: {}, or a file that ends in .toml", name,
                               near.empty() ? "" : fmt::format(", did you mean '{}'?", near), fmt::join(known, ", ")));
}

fs::path peers_folder() {
  const std::vector<fs::path> files = study_files();
  return (files.empty() ? fs::path(GEMEL_INSTALLED_STUDIES) : files[0].parent_path()) / "peers";
}

}  // namespace gemel::study
