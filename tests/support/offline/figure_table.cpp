#include "tests/support/offline/figure_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace gemel::testing {
namespace {

constexpr int kMoreRegisters = 8;
constexpr const char* kFirstLine =
    "# Figures of kernels for GPUs, which tests/opencl/program/offline_gpu_test.cpp reads and writes: program, options, kernel, target, registers, bytes of "
    "spills, of stack, of local memory\n";

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, '\t');) out.push_back(cell);
  return out;
}

std::string sentence_start(const FigurePlace& place) {
  return fmt::format("{} ({}{}{}, {})", place.kernel, place.program, place.options.empty() ? "" : " ", place.options, place.target);
}

void add_excess(const FigurePlace& place, const KernelFigures& is, const KernelFigures& said, std::vector<std::string>& out) {
  const auto add = [&](const char* what, int now, int before, int accepted) {
    out.push_back(fmt::format("{} has {} {}, the table says {}; accepted: up to {}", sentence_start(place), now, what, before, accepted));
  };
  if (is.registers > said.registers + kMoreRegisters) add("registers", is.registers, said.registers, said.registers + kMoreRegisters);
  if (is.spill_bytes > said.spill_bytes) add("bytes of spills", is.spill_bytes, said.spill_bytes, said.spill_bytes);
  if (is.stack_bytes > said.stack_bytes) add("bytes of stack", is.stack_bytes, said.stack_bytes, said.stack_bytes);
  if (is.local_bytes != said.local_bytes)
    out.push_back(fmt::format("{} has {} bytes of local memory; accepted: {}, as the table says", sentence_start(place), is.local_bytes, said.local_bytes));
}

}  // namespace

void FigureTable::replace(const std::string& target, const std::string& made_by, const Figures& figures_of_target) {
  std::erase_if(figures, [&](const auto& line) { return line.first.target == target; });
  figures.insert(figures_of_target.begin(), figures_of_target.end());
  tools[target] = made_by;
}

FigureTable read_figure_table(std::string_view text) {
  FigureTable out;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() == 3 && cells[0] == "tools") {
      out.tools[cells[1]] = cells[2];
    } else if (cells.size() == 8) {
      const auto number = [&](std::size_t i) { return std::stoi(cells[i]); };
      out.figures[{cells[0], cells[1], cells[2], cells[3]}] = {cells[2], number(4), number(5), number(6), number(7)};
    } else {
      throw std::runtime_error("table of figures: a line has " + std::to_string(cells.size()) + " cells; accepted: 3 of tools, 8 of a kernel: " + line);
    }
  }
  return out;
}

std::string to_text(const FigureTable& table) {
  std::string out = kFirstLine;
  for (const auto& [target, made_by] : table.tools) out += fmt::format("tools\t{}\t{}\n", target, made_by);
  for (const auto& [p, f] : table.figures)
    out += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", p.program, p.options, p.kernel, p.target, f.registers, f.spill_bytes, f.stack_bytes, f.local_bytes);
  return out;
}

std::vector<std::string> worse_than(const FigureTable& table, const std::string& target, const Figures& compiled) {
  std::vector<std::string> out;
  for (const auto& [place, figures] : compiled) {
    const auto said = table.figures.find(place);
    if (said == table.figures.end())
      out.push_back(sentence_start(place) + " has no line in the table");
    else
      add_excess(place, figures, said->second, out);
  }
  for (const auto& line : table.figures)
    if (line.first.target == target && !compiled.contains(line.first))
      out.push_back(sentence_start(line.first) + " has a line in the table and is not compiled");
  return out;
}

}  // namespace gemel::testing
