// That a newcomer finds his way: no folder holds more than twenty sources, and no two headers have one name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace gemel {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostInAFolder = 20;  // a .cpp and its .h count as one
const std::set<std::string> kSourceExtensions{".cpp", ".h", ".cl", ".clh", ".py"};

std::vector<fs::path> sources() {
  const fs::path root = GEMEL_SOURCE_DIR;
  std::vector<fs::path> out;
  for (const char* folder : {"engine", "opencl", "frontends", "parallel", "datasets", "tests", "benchmarks", "examples"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file() && kSourceExtensions.contains(entry.path().extension().string())) out.push_back(fs::relative(entry.path(), root));
  return out;
}

std::map<std::string, std::set<std::string>> stems_by_folder(const std::vector<fs::path>& files) {
  std::map<std::string, std::set<std::string>> out;
  for (const fs::path& file : files) out[file.parent_path().generic_string()].insert(file.stem().string());
  return out;
}

std::map<std::string, std::vector<std::string>> headers_by_name(const std::vector<fs::path>& files) {
  std::map<std::string, std::vector<std::string>> out;
  for (const fs::path& file : files)
    if (file.extension() == ".h") out[file.filename().string()].push_back(file.generic_string());
  return out;
}

TEST(Rooms, hold_no_more_than_twenty_sources) {
  const auto folders = stems_by_folder(sources());
  EXPECT_GT(folders.size(), 50u);
  for (const auto& [folder, stems] : folders) EXPECT_LE(stems.size(), kMostInAFolder) << folder;
}

TEST(Rooms, no_two_headers_have_one_name) {
  for (const auto& [name, paths] : headers_by_name(sources())) EXPECT_EQ(paths.size(), 1u) << fmt::format("{} and {}", paths.front(), paths.back());
}

TEST(Rooms, count_a_source_and_its_header_once_and_find_names_that_stand_twice) {
  const std::vector<fs::path> files{"a/x.cpp", "a/x.h", "a/y.h", "b/y.h", "b/y.py"};
  EXPECT_EQ(stems_by_folder(files).at("a").size(), 2u);
  EXPECT_EQ(headers_by_name(files).at("y.h").size(), 2u);
}

}  // namespace
}  // namespace gemel
