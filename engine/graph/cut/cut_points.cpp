// Cut points between modules, and cuts by names of modules.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "engine/base/error.h"
#include "engine/graph/cut/split.h"

namespace gemel {
namespace {

constexpr std::size_t kLevels = 2;  // of names

bool is_within(const std::string& scope, const std::string& module) {
  return scope.starts_with(module) && (scope.size() == module.size() || scope[module.size()] == '.');
}

std::size_t first_of(const Program& program, const std::string& module) {
  const auto found = std::ranges::find_if(program.code, [&](const auto& step) { return is_within(step.scope, module); });
  return static_cast<std::size_t>(found - program.code.begin());
}

/// "a.b.c" is in the modules "a" and "a.b".
std::vector<std::string> modules_around(const std::string& scope) {
  std::vector<std::string> out;
  for (std::size_t end = 0; end != std::string::npos && out.size() < kLevels && !scope.empty();) {
    end = scope.find('.', end == 0 ? 0 : end + 1);
    out.push_back(scope.substr(0, end));
  }
  return out;
}

/// What a refusal says is accepted.
std::string names_of_points(const Program& program) {
  std::vector<std::string> names;
  for (const CutPoint& p : cut_points(program)) names.push_back(p.module);
  if (names.empty()) return "none, the program has no second module";
  return fmt::format("{}, or a module within one", fmt::join(names, ", "));
}

}  // namespace

std::vector<CutPoint> cut_points(const Program& program) {
  std::vector<CutPoint> out;
  std::set<std::string> begun;
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    std::string outermost;
    for (const std::string& module : modules_around(program.code[i].scope))
      if (begun.insert(module).second && outermost.empty()) outermost = module;
    if (outermost.empty() || i == 0) continue;
    CutPoint point{i, outermost, {}, 0};
    for (const auto& u : crossing(program, i)) {
      point.specs.push_back(u.spec);
      point.bytes += u.spec.bytes();
    }
    out.push_back(std::move(point));
  }
  return out;
}

std::vector<std::size_t> cuts_before(const Program& program, const std::vector<std::string>& modules) {
  std::vector<std::size_t> cuts;
  for (const std::string& module : modules) {
    const std::size_t cut = first_of(program, module);
    if (module.empty() || cut == program.code.size())
      throw UsageError(fmt::format("pipeline: no module '{}' computes anything; accepted: {}", module, names_of_points(program)));
    cuts.push_back(cut);
  }
  for (std::size_t k = 0; k < cuts.size(); ++k) {
    if (k > 0 && cuts[k] < cuts[k - 1])
      throw UsageError(
          fmt::format("pipeline: '{}' is named behind '{}' and runs before it; accepted: modules in the order in which they run", modules[k], modules[k - 1]));
    if (cuts[k] == (k == 0 ? 0 : cuts[k - 1]))
      throw UsageError(fmt::format("pipeline: the piece {} '{}' is empty; accepted: modules that others run before: {}",
                                   k == 0 ? std::string("before") : fmt::format("from '{}' to", modules[k - 1]), modules[k], names_of_points(program)));
  }
  return cuts;
}

}  // namespace gemel
