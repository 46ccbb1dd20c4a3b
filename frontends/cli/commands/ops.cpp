// gemel ops: the reference of the operators, from their records.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/error.h"
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

void print(const OpDef& op) {
  const std::string outputs = op.outputs.empty() ? "nothing" : fmt::format("{}", fmt::join(op.outputs, ", "));
  fmt::print("{}({}) -> {}\n  {}\n", op.name, fmt::join(op.inputs, ", "), outputs, op.doc);
  for (const AttributeDef& a : op.attributes) fmt::print("  {}: {}, {}\n", a.name, to_string(a.type), a.doc);
  for (int w : op.writes) fmt::print("  writes {} in place\n", op.inputs[static_cast<std::size_t>(w)]);
  if (op.draws) fmt::print("  draws from {}\n", op.inputs[static_cast<std::size_t>(*op.draws)]);
  fmt::print("  gradient: {}\n", gradient_text(op));
  for (const Variant& v : op.variants) fmt::print("  variant {}: {}\n", v.name, v.doc);
}

}  // namespace

int ops(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()("name", po::value<std::string>(), "only this operator");
  po::positional_options_description positional;
  positional.add("name", 1);
  const auto values = parse("ops", "The operator reference: `gemel ops` or `gemel ops NAME`.", options, arguments, positional);
  if (!values.count("name")) {
    for (const OpDef* op : catalog()) fmt::print("{:<28} {}\n", op->name, op->doc);
    return 0;
  }
  const auto name = values["name"].as<std::string>();
  const OpDef* op = find_op(name);
  if (!op) {
    std::vector<std::string> names;
    for (const OpDef* known : catalog()) names.push_back(known->name);
    const std::string near = nearest(name, names);
    throw UsageError(fmt::format("ops: '{}' is unknown{}; `gemel ops` lists them", name, near.empty() ? "" : ", did you mean '" + near + "'?"));
  }
  print(*op);
  return 0;
}

}  // namespace gemel::cli
