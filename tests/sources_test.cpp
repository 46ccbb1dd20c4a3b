// What every source file keeps to: an opening comment, and no nested #if in a kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace gemel {
namespace {

namespace fs = std::filesystem;

struct Source {
  fs::path path;
  std::vector<std::string> lines;
};

/// The files of these extensions below a folder of the source tree.
std::vector<Source> sources(const char* folder, const std::vector<std::string>& extensions) {
  std::vector<Source> out;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(GEMEL_SOURCE_DIR) / folder)) {
    if (!entry.is_regular_file() || std::ranges::find(extensions, entry.path().extension().string()) == extensions.end()) continue;
    Source source{entry.path(), {}};
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) source.lines.push_back(line);
    out.push_back(std::move(source));
  }
  return out;
}

/// The word after # of a preprocessor line, or empty.
std::string directive(const std::string& line) {
  auto at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line[at] != '#') return {};
  at = line.find_first_not_of(" \t", at + 1);
  return at == std::string::npos ? std::string() : line.substr(at, line.find_first_of(" \t(", at) - at);
}

/// The first line at which a second #if is open; 0: none. An include guard around the whole file counts as one.
std::size_t first_nested_if(const std::vector<std::string>& lines) {
  int depth = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string word = directive(lines[i]);
    if (word == "endif") --depth;
    if ((word == "if" || word == "ifdef" || word == "ifndef") && ++depth > 1) return i + 1;
  }
  return 0;
}

TEST(Sources, a_nested_if_is_found) {
  EXPECT_EQ(first_nested_if({"#ifdef A", "#endif", "#if B", "#elif C", "#else", "#endif"}), 0u);
  EXPECT_EQ(first_nested_if({"#ifdef A", "x", " # if B", "#endif", "#endif"}), 3u);
}

TEST(Sources, no_kernel_nests_conditions) {
  const auto kernels = sources("opencl/kernels", {".cl", ".clh"});
  EXPECT_GE(kernels.size(), 20u);
  for (const Source& k : kernels) EXPECT_EQ(first_nested_if(k.lines), 0u) << k.path;
}

TEST(Sources, every_file_says_first_what_is_in_it) {
  for (const char* folder : {"engine", "opencl", "frontends", "datasets", "tests", "benchmarks", "examples"})
    for (const Source& s : sources(folder, {".h", ".cpp", ".cl", ".clh"})) {
      // What implements a header is told there.
      const bool has_header = s.path.extension() == ".cpp" && fs::exists(fs::path(s.path).replace_extension(".h"));
      ASSERT_FALSE(s.lines.empty()) << s.path;
      EXPECT_TRUE(s.lines[0].starts_with("// ") || (has_header && s.lines[0].starts_with("#include \""))) << s.path << ": " << s.lines[0];
    }
}

}  // namespace
}  // namespace gemel
