// Reads studies: TOML, and what a case, a table, a plot and a hypothesis may say.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <set>

#include "engine/base/accepted.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/study/study.h"
#include "frontends/study/study_grid.h"
#include "frontends/study/toml_keys.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;

/// What tables, plots and hypotheses may name: the cases of all extents.
class Factors {
 public:
  explicit Factors(const Study& every) : study_(every) {
    for (const Case& c : every.cases)
      for (const auto& [factor, value] : c.factors.items()) names_.insert(factor);
  }
  bool has(const std::string& name) const { return names_.contains(name); }
  void require(const Keys& of, const std::string& name) const {
    if (!names_.contains(name)) of.refuse(of.table(), fmt::format("'{}' is no axis of a grid; accepted: {}", name, fmt::join(names_, ", ")));
  }
  void require(const Keys& of, const std::vector<std::string>& names) const {
    for (const std::string& name : names) require(of, name);
  }
  /// Some case of `where` fits the selection as well.
  void require(const Keys& of, const Selection& selection, const Selection& where = Json::object()) const {
    if (!selection.is_object()) of.refuse(of.table(), fmt::format("{} is no table of axes and values", selection.dump()));
    for (const auto& [name, value] : selection.items()) require(of, name);
    const auto cases = study_.selected(where);
    if (std::ranges::none_of(cases, [&](const Case* c) { return fits(*c, selection); })) of.refuse(of.table(), fmt::format("no case has {}", selection.dump()));
  }
  void require_numbers(const Keys& of, const std::string& name) const {
    require(of, name);
    for (const Case& c : study_.cases)
      if (c.factors.contains(name) && !c.factor(name).is_number())
        of.refuse(of.table(), fmt::format("'{}' is an axis of words; accepted: one of numbers", name));
  }
  /// An axis that a logarithm can be taken of.
  void require_positive(const Keys& of, const std::string& name) const {
    for (const Case& c : study_.cases)
      if (c.factors.contains(name) && !(c.factor(name).get<double>() > 0))
        of.refuse(of.table(), fmt::format("log_x: '{}' has the value {}; accepted: an axis of numbers above 0", name, c.factor(name).dump()));
  }

 private:
  const Study& study_;
  std::set<std::string> names_;
};

constexpr double kLongestTimeout = 1e6;  // seconds
constexpr std::int64_t kMostBlocks = 10'000;

/// Rows and columns tell all cases of the table apart.
void require_one_case_a_cell(const Keys& keys, const Table& table, const Study& study) {
  std::set<std::string> seen;
  for (const Case* c : study.selected(table.where, table.rows)) {
    std::string cell;
    for (const auto& [factor, value] : c->factors.items())
      if (factor == table.columns || std::ranges::count(table.rows, factor)) cell += value.dump() + ";";
    if (!seen.insert(cell).second)
      keys.refuse(keys.table(), fmt::format("table {}: two cases fall into one cell; accepted: rows and columns that name every axis", table.name));
  }
}

void read_views(Keys& keys, const Factors& factors, Study& out) {
  each(keys, "table", [&](Keys& t) {
    Table table{.name = t.file_name("name"),
                .caption = t.needed("caption"),
                .metric = t.text("metric", kStepTime),
                .rows = t.texts("rows"),
                .columns = t.text("columns"),
                .where = t.object("where"),
                .base = t.json("base"),
                .is_speed_up = t.one_of("ratio", "to base", {"to base", "speed-up"}) == "speed-up"};
    t.end();
    factors.require(t, table.rows);
    if (!table.columns.empty()) factors.require(t, table.columns);
    factors.require(t, table.where);
    require_one_case_a_cell(t, table, out);
    if (!table.base.is_null()) factors.require(t, table.base, table.where);
    out.tables.push_back(std::move(table));
  });
  each(keys, "plot", [&](Keys& p) {
    Plot plot{.name = p.file_name("name"),
              .caption = p.needed("caption"),
              .metric = p.text("metric", kStepTime),
              .x = p.needed("x"),
              .lines = p.texts("lines"),
              .where = p.object("where"),
              .log_x = p.value("log_x", false, "boolean"),
              .log_y = p.value("log_y", false, "boolean"),
              .has_bound = p.value("bound", false, "boolean")};
    if (plot.has_bound && std::ranges::find(kBoundedMetrics, plot.metric) == kBoundedMetrics.end())
      p.refuse(*p.find("bound"), fmt::format("no bound of {} is known; accepted: with metric {}", plot.metric, fmt::join(kBoundedMetrics, ", ")));
    if (factors.has(plot.x)) factors.require_numbers(p, plot.x);
    if (factors.has(plot.x) && plot.log_x) factors.require_positive(p, plot.x);
    factors.require(p, plot.lines);
    factors.require(p, plot.where);
    out.plots.push_back(std::move(plot));
  });
}

void read_curves(Keys& keys, const Factors& factors, Study& out) {
  each(keys, "curve", [&](Keys& c) {
    Curve curve{.name = c.file_name("name"),
                .caption = c.needed("caption"),
                .of_usage = c.one_of("of", "epochs", {"epochs", "usage"}) == "usage",
                .x = c.text("x", "seconds"),
                .y = c.needed("y"),
                .lines = c.texts("lines"),
                .where = c.object("where")};
    factors.require(c, curve.lines);
    factors.require(c, curve.where);
    out.curves.push_back(std::move(curve));
  });
}

void read_knees(Keys& keys, const Factors& factors, Study& out) {
  each(keys, "knee", [&](Keys& k) {
    Knee knee{.name = k.file_name("name"),
              .caption = k.needed("caption"),
              .metric = k.text("metric", kStepTime),
              .over = k.needed("over"),
              .lines = k.texts("lines"),
              .where = k.object("where"),
              .saves = k.positive("saves", Knee().saves, 1)};
    factors.require_numbers(k, knee.over);
    factors.require(k, knee.lines);
    factors.require(k, knee.where);
    require_one_case_a_cell(k, {.name = knee.name, .rows = knee.lines, .columns = knee.over, .where = knee.where}, out);
    out.knees.push_back(std::move(knee));
  });
}

/// What a method of hypotheses needs beside the metric, and what it can expect.
struct MethodWords {
  Method method;
  const char *name, *needs;
  std::vector<std::string> expected;
};
const std::vector<MethodWords>& methods() {
  static const std::vector<MethodWords> all{{Method::ratio, "ratio", "a and b", {"below 1", "above 1", "equal"}},
                                            {Method::trend, "trend", "over", {"rises", "falls", "level"}},
                                            {Method::variance, "variance", "over", {"matters", "does not matter"}},
                                            {Method::correlation, "correlation", "with", {"rises", "falls"}}};
  return all;
}

/// Some extent has cases to compare, and in none of them it is open which these are.
void require_pairs(const Keys& h, const Hypothesis& one, const std::array<Study, 3>& extents) {
  bool has_pair = false;
  for (const Study& extent : extents) try {
      has_pair = !pairs_of(one, extent).empty() || has_pair;
    } catch (const UsageError& e) {
      h.refuse(h.table(), fmt::format("hypothesis {}: {}", one.name, e.what()));
    }
  if (!has_pair)
    h.refuse(h.table(), fmt::format("hypothesis {}: no case with {} is alike one with {} in the other axes; accepted: a and b that name every axis in which "
                                    "their cases differ",
                                    one.name, one.a.dump(), one.b.dump()));
}

void read_hypotheses(Keys& keys, const Factors& factors, const std::array<Study, 3>& extents, Study& out) {
  each(keys, "hypothesis", [&](Keys& h) {
    Hypothesis one{.name = h.needed("name"),
                   .claim = h.needed("claim"),
                   .source = h.needed("source"),
                   .metric = h.text("metric", kStepTime),
                   .a = h.object("a"),
                   .b = h.object("b"),
                   .over = h.text("over"),
                   .with = h.text("with"),
                   .where = h.object("where"),
                   .margin = h.positive("margin", 0.05, 1)};
    std::vector<std::string> names;
    for (const MethodWords& words : methods()) names.push_back(words.name);
    const std::string name = h.one_of("method", names[0], names);
    h.find("expected");
    h.end();
    const MethodWords& words = *std::ranges::find(methods(), name, &MethodWords::name);
    one.method = words.method;
    const bool compares = !one.a.empty() && !one.b.empty(), is_over = !one.over.empty(), is_with = !one.with.empty();
    const bool needs_over = one.method == Method::trend || one.method == Method::variance;
    if (compares != (one.method == Method::ratio) || is_over != needs_over || is_with != (one.method == Method::correlation))
      h.refuse(h.table(), fmt::format("a hypothesis by {} needs {}, and nothing else of a, b, over and with", name, words.needs));
    one.expected = h.one_of("expected", "", words.expected);
    factors.require(h, one.where);
    factors.require(h, one.a, one.where);
    factors.require(h, one.b, one.where);
    if (!one.over.empty()) factors.require_numbers(h, one.over);
    if (one.method == Method::ratio) require_pairs(h, one, extents);
    for (const Study& extent : extents)
      if (needs_over && has_no_shared_levels(one, extent))
        h.refuse(h.table(),
                 fmt::format("hypothesis {}: its groups of cases that differ in {} alone have less than two values of it in common; accepted: a where "
                             "that leaves those that have",
                             one.name, one.over));
    out.hypotheses.push_back(std::move(one));
  });
}

void read_published(Keys& keys, Study& out) {
  each(keys, "published", [&](Keys& p) {
    Published one{.caption = p.needed("caption"),
                  .source = p.needed("source"),
                  .evidence = p.one_of("evidence", "primary", {"primary", "secondary", "figure_reading"}),
                  .unit = p.text("unit"),
                  .columns = p.texts("columns")};
    const Json rows = p.json("rows");
    for (const Json& row : rows) {
      if (!row.is_array() || row.size() != one.columns.size()) p.refuse(p.table(), fmt::format("a row has not {} values: {}", one.columns.size(), row.dump()));
      one.rows.push_back(row);
    }
    out.published.push_back(std::move(one));
  });
}

/// name = "where it comes from", or a table that also tells how its official files begin.
void read_data(Keys& keys, Study& out) {
  const toml::node* data = keys.find("data");
  if (!data) return;
  if (!data->is_table()) keys.refuse(*data, "data is no table");
  for (const auto& [key, node] : *data->as_table()) {
    const std::string name(key.str());
    if (node.is_string()) {
      out.data.push_back({.name = name, .from = *node.value<std::string>()});
      continue;
    }
    if (!node.is_table()) keys.refuse(node, fmt::format("{} is no text and no table", name));
    Keys its(keys.file(), *node.as_table(), fmt::format("data.{}", name));
    DataSource one{.name = name, .from = its.needed("from"), .file = its.text("file"), .begins = its.text("begins")};
    its.end();
    if (one.file.empty() != one.begins.empty() || one.begins.size() % 2 || one.begins.find_first_not_of("0123456789abcdef") != std::string::npos)
      keys.refuse(node, fmt::format("data.{}: begins is '{}'; accepted: the first bytes of `file` in hexadecimal", name, one.begins));
    out.data.push_back(std::move(one));
  }
}

/// A peer is one that Gemel has a program for, wherever the file names it.
void require_peers(const Keys& keys, const toml::node& node) {
  if (const auto* list = node.as_array())
    for (const toml::node& one : *list) require_peers(keys, one);
  if (const auto* table = node.as_table())
    for (const auto& [key, value] : *table) {
      const auto require = [&](const auto& accepted) {
        const std::string given = value.template value<std::string>().value_or("");
        if (std::ranges::find(accepted, given) == accepted.end())
          keys.refuse(value, fmt::format("{} is '{}'; accepted: {}", key.str(), given, fmt::join(accepted, ", ")));
      };
      if (key == "peer") require(kPeers);
      if (key == "mode" && table->contains("peer")) require(kPeerModes);
      require_peers(keys, value);
    }
}

void require_command(const Case& c, const Study& study) {
  const Json command = c.spec.value("command", Json());
  if (command.is_null()) c.refuse(study, "command", "it has no command in its spec");
  if (std::ranges::none_of(kCommands, [&](const char* known) { return command == known; }))
    c.refuse(study, "command", fmt::format("command is {}; accepted: \"{}\"", command.dump(), fmt::join(kCommands, "\", \"")));
}

/// Plots and curves are files of one folder.
std::vector<std::string> names_of_figures(const Study& study) {
  std::vector<std::string> out;
  for (const Plot& p : study.plots) out.push_back(p.name);
  for (const Curve& c : study.curves) out.push_back(c.name);
  return out;
}

void require_unique_names(const Keys& keys, const Study& study) {
  std::set<std::string> cases, tables, plots, hypotheses;
  for (const Case& c : study.cases)
    if (!cases.insert(c.name).second) keys.refuse(keys.table(), fmt::format("two cases are named {}", c.name));
  for (const Table& t : study.tables)
    if (!tables.insert(t.name).second) keys.refuse(keys.table(), fmt::format("two tables are named {}", t.name));
  for (const Knee& k : study.knees)
    if (!tables.insert(k.name).second) keys.refuse(keys.table(), fmt::format("two tables are named {}", k.name));
  for (const std::string& name : names_of_figures(study))
    if (!plots.insert(name).second) keys.refuse(keys.table(), fmt::format("two plots are named {}", name));
  for (const Hypothesis& h : study.hypotheses)
    if (!hypotheses.insert(h.name).second) keys.refuse(keys.table(), fmt::format("two hypotheses are named {}", h.name));
}

}  // namespace

Study read_study(const fs::path& file, Extent extent) { return parse_study(std::string(as_text(read_whole(file))), file, extent); }

Study parse_study(const std::string& text, const fs::path& file, Extent extent) {
  Study out{.name = file.stem().string(), .file = file.string()};
  out.text = text;
  out.extent = extent;
  toml::table table;
  try {
    table = toml::parse(out.text, file.string());
  } catch (const toml::parse_error& e) {
    throw UsageError(fmt::format("study: {}:{}: {}", file.string(), e.source().begin.line, e.description()));
  }
  Keys keys(file, table, "a study");
  require_peers(keys, table);
  out.title = keys.needed("title");
  out.question = keys.needed("question");
  out.source = keys.text("source");
  out.remarks = keys.texts("remarks");
  out.narrow = keys.positive("narrow", out.narrow, 1);
  out.timeout_s = keys.positive("timeout_s", out.timeout_s, kLongestTimeout);
  if (extent == Extent::full) out.timeout_s = kLongestTimeout;  // a process of published size takes as long as it takes
  out.most_repeats = static_cast<int>(keys.whole("most_repeats", out.most_repeats, 1, kMostBlocks));
  read_data(keys, out);
  const SpecTable spec = keys.spec("spec"), quick = keys.spec("quick"), full = keys.spec("full");
  Study every;                   // the cases of all extents together
  std::array<Study, 3> extents;  // of each
  each(keys, "grid", [&](Keys& grid) {
    for (const Extent one : {Extent::quick, Extent::usual, Extent::full}) {
      SpecTable common = spec;
      common.update(one == Extent::quick ? quick : one == Extent::full ? full : SpecTable());
      const std::vector<Case> cases = read_grid(grid, common, one);
      std::ranges::copy(cases, std::back_inserter(every.cases));
      std::ranges::copy(cases, std::back_inserter(extents[static_cast<std::size_t>(one)].cases));
    }
  });
  out.cases = extents[static_cast<std::size_t>(extent)].cases;
  if (out.cases.empty()) keys.refuse(table, "a study has no [[grid]]");
  for (const Case& c : out.cases) require_command(c, out);
  const Factors factors(every);
  read_views(keys, factors, out);
  read_curves(keys, factors, out);
  read_knees(keys, factors, out);
  read_hypotheses(keys, factors, extents, out);
  read_published(keys, out);
  keys.end();
  require_unique_names(keys, out);
  drop_what_has_no_cases(out);
  return out;
}

}  // namespace gemel::study
