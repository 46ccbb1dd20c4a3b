#include "frontends/study/study_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace gemel::study {
namespace {

/// One of the spec's, or what a table without its name has of them.
struct AxisValue {
  std::string word;  // in the names of cases
  Json factor;
  SpecTable spec;
};

struct Axis {
  std::string factor;
  const toml::node* node;
  std::vector<AxisValue> values;
};

AxisValue value_of(const Keys& grid, const std::string& factor, const toml::node& node) {
  AxisValue out;
  if (const auto* table = node.as_table()) {
    out.spec = grid.spec_of(*table);
    if (!out.spec.values.contains("name") || !out.spec.values["name"].is_string())
      grid.refuse(node, fmt::format("a value of {} is a table without a name", factor));
    out.factor = out.spec.values["name"];
    out.word = out.factor.get<std::string>();
    out.spec.values.erase("name");
    out.spec.lines.erase("name");
    return out;
  }
  out.factor = grid.json_of(node);
  out.word = out.factor.is_string() ? out.factor.get<std::string>() : fmt::format("{}={}", factor, word_of(out.factor));
  out.spec.set(factor, out.factor, line_of(node));
  return out;
}

Axis axis_of(const Keys& grid, const std::string& factor, const toml::node& node) {
  Axis out{factor, &node, {}};
  const auto add = [&](const toml::node& one) {
    AxisValue value = value_of(grid, factor, one);
    const auto is_same = [&](const AxisValue& before) { return before.word == value.word && before.factor == value.factor; };
    if (std::ranges::any_of(out.values, is_same)) grid.refuse(one, fmt::format("axis {} has the value {} twice", factor, value.factor.dump()));
    out.values.push_back(std::move(value));
  };
  if (const auto* array = node.as_array())
    for (const toml::node& one : *array) add(one);
  else
    add(node);
  if (out.values.empty()) grid.refuse(node, fmt::format("axis {} has no values", factor));
  return out;
}

std::vector<Axis> axes_in(Keys& grid, const std::string& key) {
  std::vector<Axis> out;
  const toml::node* node = grid.find(key);
  if (!node) return out;
  if (!node->is_table()) grid.refuse(*node, fmt::format("{} is no table", key));
  for (const auto& [factor, values] : Keys::in_order_of_file(*node->as_table())) out.push_back(axis_of(grid, factor, *values));
  return out;
}

Case with(Case c, const Axis& axis, const AxisValue& value) {
  c.name += (c.name.empty() ? "" : "/") + value.word;
  c.factors[axis.factor] = value.factor;
  c.spec.update(value.spec.values);
  for (const auto& [key, line] : value.spec.lines) c.lines[key] = line;
  return c;
}

}  // namespace

std::vector<Case> read_grid(Keys& grid, const SpecTable& common, Extent extent) {
  SpecTable spec = common;
  spec.update(grid.spec("spec"));
  std::vector<Axis> axes = axes_in(grid, "axes");
  if (axes.empty()) grid.refuse(grid.table(), "[[grid]] has no axes");
  for (const auto& [key, of] : {std::pair{"quick", Extent::quick}, {"full", Extent::full}})
    for (Axis& changed : axes_in(grid, key)) {
      const auto axis = std::ranges::find(axes, changed.factor, &Axis::factor);
      if (axis == axes.end()) grid.refuse(*changed.node, fmt::format("'{}' is no axis of this grid", changed.factor));
      if (of == extent) *axis = std::move(changed);
    }
  std::vector<Case> out{{.name = "", .factors = Json::object(), .spec = std::move(spec.values), .lines = std::move(spec.lines), .line = line_of(grid.table())}};
  for (const Axis& axis : axes) {
    std::vector<Case> next;
    for (const Case& c : out)
      for (const AxisValue& value : axis.values) next.push_back(with(c, axis, value));
    out = std::move(next);
  }
  return out;
}

}  // namespace gemel::study
