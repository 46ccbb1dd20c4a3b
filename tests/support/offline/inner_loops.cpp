#include "tests/support/offline/inner_loops.h"

#include <sstream>
#include <vector>

namespace gemel::testing {
namespace {

struct Arithmetic {
  int all = 0, fma = 0;
};

void count_arithmetic(const std::string& line, Arithmetic& of_loop) {
  std::istringstream words(line);
  bool begins = true;
  for (std::string word; words >> word; begins = word == "::") {
    if (word.front() == ';') return;
    if (!begins || !word.starts_with("v_")) continue;
    ++of_loop.all;
    of_loop.fma += word.find("_fma") != word.npos;
  }
}

/// The label of a line "label:" or the one that a branch jumps to, without what else stands there; empty: neither.
std::string label_at(const std::string& line) { return line.starts_with(".LBB") ? line.substr(0, line.find(':')) : ""; }
std::string branch_target(const std::string& line) {
  std::istringstream words(line);
  std::string instruction, target;
  words >> instruction >> target;
  return instruction.starts_with("s_branch") || instruction.starts_with("s_cbranch") ? target : "";
}

}  // namespace

std::map<std::string, int> fma_percent(std::string_view assembly) {
  std::map<std::string, int> out;
  std::map<std::string, Arithmetic> best;
  std::map<std::string, std::size_t> labels;  // of the kernel so far
  std::vector<std::string> lines;
  std::string kernel;
  std::size_t loop_end = 0;  // of the last loop that was found: one around it has it within
  std::istringstream in{std::string(assembly)};
  for (std::string line; std::getline(in, line); lines.push_back(line)) {
    if (const std::size_t at = line.find("; @"); at != line.npos && !line.starts_with(".LBB")) {
      kernel = line.substr(at + 3);
      labels.clear();
    }
    if (const std::string label = label_at(line); !label.empty()) labels[label] = lines.size();
    const auto begin = labels.find(branch_target(line));
    if (begin == labels.end() || begin->second < loop_end) continue;
    loop_end = lines.size();
    Arithmetic of_loop;
    for (std::size_t i = begin->second; i < lines.size(); ++i) count_arithmetic(lines[i], of_loop);
    if (of_loop.fma > best[kernel].fma) best[kernel] = of_loop;
  }
  for (const auto& [name, loop] : best)
    if (loop.fma > 0) out[name] = 100 * loop.fma / loop.all;
  return out;
}

}  // namespace gemel::testing
