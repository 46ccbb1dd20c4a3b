#include "engine/graph/capture/instruction_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel {
namespace {

/// Slots by what an instruction does with them.
struct Access {
  std::vector<int> used, changed;

  explicit Access(const Program::Instruction& step) {
    for (const auto& u : step.inputs) used.push_back(u.slot);
    for (const auto& u : step.outputs) used.push_back(u.slot), changed.push_back(u.slot);
    for (int w : step.op->writes) changed.push_back(step.inputs[at(w)].slot);
  }
};

/// Takes instructions in program order and gives them out once nothing keeps them waiting.
class Line {
 public:
  explicit Line(const Program& program) : program_(program), overtaken_(overtaken(program)), owed_(program.code.size(), 0) {
    for (const auto& step : program.code) access_.emplace_back(step);
    for (const auto& by : overtaken_)
      for (int u : by) ++owed_[at(u)];
  }

  void add(int i) {
    waiting_.push_back(i);
    for (auto next = ready(); next != waiting_.end(); next = ready()) {
      for (int u : overtaken_[at(*next)]) --owed_[at(u)];
      out_.push_back(*next);
      waiting_.erase(next);
    }
  }
  const std::vector<int>& waiting() const { return waiting_; }
  const std::vector<int>& out() const { return out_; }

 private:
  std::vector<int>::iterator ready() {
    return std::ranges::find_if(waiting_,
                                [&](int j) { return owed_[at(j)] == 0 && std::ranges::none_of(waiting_, [&](int i) { return i < j && depends(j, i); }); });
  }

  bool depends(int j, int i) const {
    const auto has = [](const std::vector<int>& list, int k) { return std::ranges::find(list, k) != list.end(); };
    if (has(overtaken_[at(j)], i)) return false;
    if (has(program_.code[at(j)].after, i)) return true;
    const auto meet = [&](const std::vector<int>& changed, const std::vector<int>& used) {
      return std::ranges::any_of(changed, [&](int c) { return std::ranges::any_of(used, [&](int u) { return overlap(program_, c, u); }); });
    };
    return meet(access_[at(i)].changed, access_[at(j)].used) || meet(access_[at(j)].changed, access_[at(i)].used);
  }

  const Program& program_;
  std::vector<std::vector<int>> overtaken_;
  std::vector<int> owed_;  // [instruction] of those that it must run after, how many are not given out yet
  std::vector<Access> access_;
  std::vector<int> waiting_, out_;
};

}  // namespace

std::vector<std::vector<int>> overtaken(const Program& program) {
  std::vector<std::vector<int>> out(program.code.size());
  for (std::size_t i = 0; i < program.code.size(); ++i)
    for (int other : program.code[i].after)
      if (at(other) > i) out[at(other)].push_back(static_cast<int>(i));
  return out;
}

Program in_order(Program program) {
  if (std::ranges::all_of(overtaken(program), [](const auto& list) { return list.empty(); })) return program;
  Line line(program);
  const int count = static_cast<int>(program.code.size());
  for (int i = 0; i < count; ++i) line.add(i);
  if (!line.waiting().empty()) {
    const auto& step = program.code[at(line.waiting()[0])];
    throw UsageError(
        fmt::format("graph: {}{} must run after what depends on it: a gradient is of values before it and of values after it; "
                    "accepted: fetches without one of the two",
                    step.op->name, step.scope.empty() ? "" : " of " + step.scope));
  }
  std::vector<int> moved(program.code.size());
  for (int i = 0; i < count; ++i) moved[at(line.out()[at(i)])] = i;
  std::vector<Program::Instruction> code;
  for (int i : line.out()) {
    code.push_back(std::move(program.code[at(i)]));
    std::erase_if(code.back().after, [i](int other) { return other > i; });
    for (int& before : code.back().after) before = moved[at(before)];
  }
  program.code = std::move(code);
  return program;
}

}  // namespace gemel
