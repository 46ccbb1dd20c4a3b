// The lines of C++ that README.md and docs/guide show are those of programs that the tests build and run, those of docs/design stand in the sources.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace gemel::testing {
namespace {

const std::filesystem::path kSource = GEMEL_SOURCE_DIR;

std::vector<std::string> code_blocks(const std::string& text, const std::string& language = "cpp") {
  std::vector<std::string> out;
  const std::string begin = "```" + language + "\n", end = "```";
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    at += begin.size();
    out.push_back(text.substr(at, text.find(end, at) - at));
  }
  return out;
}

/// Without the two spaces that a function's body is indented by.
std::string outdented(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += (line.rfind("  ", 0) == 0 ? line.substr(2) : line) + "\n";
  return out;
}

TEST(Readme, shows_the_programs_that_are_tested) {
  const auto blocks = code_blocks(read_text(kSource / "README.md"));
  ASSERT_EQ(blocks.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const char* name = i == 0 ? "readme_eager.cpp" : "readme_graph.cpp";
    const std::string program = outdented(read_text(kSource / "tests/repository" / name));
    ASSERT_FALSE(program.empty()) << name;
    EXPECT_NE(program.find(blocks[i]), std::string::npos) << name << " does not hold this block of README.md:\n" << blocks[i];
  }
}

TEST(Documentation, shows_lines_of_the_examples_which_are_tested) {
  std::string examples;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "examples")) examples += outdented(read_text(entry.path()));
  int blocks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "docs/guide"))
    for (const std::string& block : code_blocks(read_text(entry.path()))) {
      ++blocks;
      EXPECT_NE(examples.find(block), std::string::npos) << "no example holds this block of " << entry.path() << ":\n" << block;
    }
  EXPECT_GE(blocks, 2);
}

/// The text of the last file whose path stands in backticks in a text.
std::string last_file_named(const std::string& text) {
  for (std::size_t end = text.rfind('`'); end != std::string::npos && end > 0;) {
    const std::size_t begin = text.rfind('`', end - 1);
    if (begin == std::string::npos) return {};
    const std::filesystem::path path = kSource / text.substr(begin + 1, end - begin - 1);
    if (end > begin + 1 && std::filesystem::is_regular_file(path)) return read_text(path);
    end = begin;
  }
  return {};
}

TEST(Documentation, shows_lines_of_the_sources_that_it_names) {
  int blocks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "docs/design")) {
    const std::string text = read_text(entry.path());
    for (const char* language : {"cpp", "c"})
      for (const std::string& block : code_blocks(text, language)) {
        if (entry.path().filename() == "style.md") continue;  // its lines are of no source: they show a form
        ++blocks;
        const std::string before = text.substr(0, text.find("```" + std::string(language) + "\n" + block));
        EXPECT_NE(last_file_named(before).find(block), std::string::npos) << "the file named before it does not hold this block of " << entry.path() << ":\n"
                                                                          << block;
      }
  }
  EXPECT_GE(blocks, 9);
}

TEST(Documentation, tables_of_benchmarks_are_those_that_the_results_give) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "python3 is not there";
  EXPECT_EQ(std::system(GEMEL_SOURCE_DIR "/benchmarks/summary --check"), 0) << "run benchmarks/summary";
}

}  // namespace
}  // namespace gemel::testing
