// gemel ops: the reference of the operators and of the functions composed of them, from their records.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/error.h"
#include "engine/functions/functions.h"
#include "engine/ops/catalog.h"
#include "frontends/cli/command.h"
#include "frontends/cli/options/arguments.h"

namespace gemel::cli {
namespace {

std::string gradient_text(const OpDef& op) {
  if (!op.gradient) return "none";
  std::vector<std::string> kept;
  const auto keep = [&kept](std::uint32_t mask, const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size() && i < 32; ++i)
      if ((mask >> i) & 1u) kept.push_back(names[i]);
  };
  Reads all;
  for (const Reads& r : op.gradient_reads) all = all | r;
  keep(all.inputs, op.inputs);
  keep(all.outputs, op.outputs);
  return kept.empty() ? "keeps nothing" : fmt::format("keeps {}", fmt::join(kept, ", "));
}

/// What operators and functions have.
template <class Def>
void print_signature(const Def& def, const std::string& outputs) {
  fmt::print("{}({}) -> {}\n  {}\n", def.name, fmt::join(def.inputs, ", "), outputs, def.doc);
  for (const AttributeDef& a : def.attributes) fmt::print("  {}: {}, {}\n", a.name, to_string(a.type), a.doc);
}

const char* target_text(Target target) { return target == Target::any ? "" : target == Target::cpu ? " (for CPUs)" : " (for GPUs)"; }

void print(const OpDef& op) {
  print_signature(op, op.outputs.empty() ? "nothing" : fmt::format("{}", fmt::join(op.outputs, ", ")));
  for (int w : op.writes) fmt::print("  writes {} in place\n", op.inputs[static_cast<std::size_t>(w)]);
  if (op.draws) fmt::print("  draws from {}\n", op.inputs[static_cast<std::size_t>(*op.draws)]);
  fmt::print("  gradient: {}\n", gradient_text(op));
  for (const Variant& v : op.variants) fmt::print("  variant {}{}: {}\n", v.name, target_text(v.target), v.doc);
}

void print(const FunctionDef& function) {
  print_signature(function, "y");
  fmt::print("  composed of operators, which give its gradient\n");
}

[[noreturn]] void refuse(const std::string& name) {
  std::vector<std::string> names;
  for (const OpDef* op : catalog()) names.push_back(op->name);
  for (const FunctionDef* function : functions()) names.push_back(function->name);
  const std::string near = nearest(name, names);
  throw UsageError(fmt::format("ops: '{}' is unknown{}; `gemel ops` lists them", name, near.empty() ? "" : ", did you mean '" + near + "'?"));
}

}  // namespace

int ops(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()("name", po::value<std::string>(), "only this operator or function");
  po::positional_options_description positional;
  positional.add("name", 1);
  const auto values = parse("ops", "The operator reference: `gemel ops` or `gemel ops NAME`.", options, arguments, positional);
  if (!values.count("name")) {
    for (const OpDef* op : catalog()) fmt::print("{:<28} {}\n", op->name, op->doc);
    for (const FunctionDef* function : functions()) fmt::print("{:<28} {} Composed of operators.\n", function->name, function->doc);
    return 0;
  }
  const auto name = values["name"].as<std::string>();
  if (const OpDef* op = find_op(name))
    print(*op);
  else if (const FunctionDef* function = find_function(name))
    print(*function);
  else
    refuse(name);
  return 0;
}

}  // namespace gemel::cli
