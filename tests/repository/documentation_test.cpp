// The lines of C++ that README.md and docs/ show are those of programs that the tests build and run.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace gemel::testing {
namespace {

const std::filesystem::path kSource = GEMEL_SOURCE_DIR;

std::vector<std::string> code_blocks(const std::string& text) {
  std::vector<std::string> out;
  const std::string begin = "```cpp\n", end = "```";
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

}  // namespace
}  // namespace gemel::testing
