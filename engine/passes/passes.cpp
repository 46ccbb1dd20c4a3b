#include "engine/passes/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "engine/base/error.h"

namespace gemel {

std::span<const Pass> passes() {
  static constexpr std::array all{
      Pass{"simplification", "leaves out what gives back its input: x * 1, x + 0, -(-x)", Rounding::may_differ, simplify},
      Pass{"decomposition", "writes out operators whose parts fuse with what is around them: normalisation by running statistics", Rounding::may_differ,
           decompose},
      Pass{"constant-folding", "computes once what never varies", Rounding::exact, fold_constants},
      Pass{"common-subexpressions", "computes equal applications to equal contents once", Rounding::exact, merge_common_subexpressions},
      Pass{"dead-code", "drops what no result and no state depends on", Rounding::exact, eliminate_dead_code},
      Pass{"rematerialisation", "computes normalisations again for late readers, in place of storing them", Rounding::may_differ, rematerialise},
      Pass{"elementwise-fusion", "computes chains of elementwise operators in one kernel", Rounding::may_differ, fuse_elementwise},
      Pass{"epilogue-fusion", "computes what follows a product elementwise in the product's kernel", Rounding::may_differ, fuse_epilogues},
      Pass{"part-views", "reads the parts of what was split where they lie, where each is one range of it", Rounding::exact, view_parts},
  };
  return all;
}

PassNames parse_passes(std::string_view text) {
  PassNames out;
  if (text == "none") return out;
  if (text == "all") {
    for (const Pass& p : passes()) out.emplace_back(p.name);
    return out;
  }
  for (bool more = true; more;) {
    const std::string_view name = text.substr(0, text.find(','));
    more = name.size() < text.size();
    text.remove_prefix(name.size() + more);
    if (std::none_of(passes().begin(), passes().end(), [&](const Pass& p) { return p.name == name; })) {
      std::string known;
      for (const Pass& p : passes()) known += fmt::format(", {}", p.name);
      throw UsageError(fmt::format("graph passes: '{}' is unknown; accepted: all, none, or some of {}", name, known.substr(2)));
    }
    out.emplace_back(name);
  }
  return out;
}

Program optimise(Session& session, Program program, const PassNames& names, std::vector<PassReport>* report) {
  verify(program, "capture");
  for (const Pass& pass : passes()) {
    if (std::find(names.begin(), names.end(), pass.name) == names.end()) continue;
    const auto begin = std::chrono::steady_clock::now();
    const std::size_t before = program.code.size();
    program = pass.run(session, std::move(program));
    verify(program, std::string(pass.name));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    if (report) report->push_back({std::string(pass.name), before, program.code.size(), took.count()});
  }
  for (auto& step : program.code) step.after.clear();  // the order honours it, and the indices are of what was captured
  return program;
}

}  // namespace gemel
