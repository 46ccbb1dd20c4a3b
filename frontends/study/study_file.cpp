// Reads studies: TOML, and what a case, a table, a plot and a hypothesis may say.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <set>
#include <sstream>

#include "engine/base/accepted.h"
#include "engine/base/error.h"
#include "frontends/study/study.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;

/// A table of the file, of which every key must be asked for.
class Keys {
 public:
  Keys(const fs::path& file, const toml::table& table, std::string where) : file_(file), table_(table), where_(std::move(where)) {}

  [[noreturn]] void refuse(const toml::node& node, const std::string& what) const {
    throw UsageError(fmt::format("study: {}:{}: {}", file_.string(), node.source().begin.line, what));
  }
  const fs::path& file() const { return file_; }
  const toml::table& table() const { return table_; }
  const toml::node* find(const std::string& key) {
    known_.push_back(key);
    return table_.get(key);
  }
  template <class T>
  T value(const std::string& key, T standard, const char* type) {
    const toml::node* node = find(key);
    if (!node) return standard;
    const auto v = node->value<T>();
    if (!v) refuse(*node, fmt::format("{} is no {}", key, type));
    return *v;
  }
  std::string text(const std::string& key, const std::string& standard = "") { return value<std::string>(key, standard, "text"); }
  std::string needed(const std::string& key) {
    const toml::node* node = table_.get(key);
    if (!node) refuse(table_, fmt::format("{} has no {}", where_, key));
    return text(key);
  }
  std::vector<std::string> texts(const std::string& key) {
    std::vector<std::string> out;
    const toml::node* node = find(key);
    if (!node) return out;
    if (!node->is_array()) refuse(*node, fmt::format("{} is no list of texts", key));
    for (const toml::node& one : *node->as_array()) {
      if (!one.is_string()) refuse(one, fmt::format("{} is no list of texts", key));
      out.push_back(*one.value<std::string>());
    }
    return out;
  }
  std::string one_of(const std::string& key, const std::string& standard, std::initializer_list<const char*> accepted) {
    const std::string v = text(key, standard);
    if (std::ranges::find(accepted, v) == accepted.end()) refuse(*table_.get(key), fmt::format("{} is '{}'; accepted: {}", key, v, fmt::join(accepted, ", ")));
    return v;
  }
  Json json(const std::string& key) {
    const toml::node* node = find(key);
    return node ? json_of(*node) : Json();
  }
  Json object(const std::string& key) {
    const toml::node* node = find(key);
    if (!node) return Json::object();
    if (!node->is_table()) refuse(*node, fmt::format("{} is no table", key));
    return json_of(*node);
  }
  /// @throws UsageError for a key that nobody has asked for
  void end() const {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (std::ranges::count(known_, name)) continue;
      const std::string near = nearest(name, known_);
      refuse(node, fmt::format("{} has no '{}'{}; accepted: {}", where_, name, near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                               fmt::join(known_, ", ")));
    }
  }

  Json json_of(const toml::node& node) const {
    if (const auto* table = node.as_table()) {
      // TOML's tables are sorted by the library; the order of the file is that of the lines.
      std::vector<std::pair<std::string, const toml::node*>> entries;
      for (const auto& [key, value] : *table) entries.emplace_back(std::string(key.str()), &value);
      std::ranges::sort(entries, {}, [](const auto& e) { return std::pair(e.second->source().begin.line, e.second->source().begin.column); });
      Json out = Json::object();
      for (const auto& [key, value] : entries) out[key] = json_of(*value);
      return out;
    }
    if (const auto* array = node.as_array()) {
      Json out = Json::array();
      for (const toml::node& one : *array) out.push_back(json_of(one));
      return out;
    }
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* number = node.as_integer()) return number->get();
    if (const auto* number = node.as_floating_point()) return number->get();
    if (const auto* truth = node.as_boolean()) return truth->get();
    refuse(node, "dates and times are no values here");
  }

 private:
  const fs::path& file_;
  const toml::table& table_;
  std::string where_;
  std::vector<std::string> known_;
};

template <class Read>
void each(Keys& keys, const std::string& name, Read read) {
  const toml::node* node = keys.find(name);
  if (!node) return;
  if (!node->is_array()) keys.refuse(*node, fmt::format("{} is no list of tables: [[{}]]", name, name));
  for (const toml::node& one : *node->as_array()) {
    if (!one.is_table()) keys.refuse(one, fmt::format("{} is no list of tables: [[{}]]", name, name));
    Keys its(keys.file(), *one.as_table(), fmt::format("[[{}]]", name));
    read(its);
    its.end();
  }
}

std::string word_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// The cases of a grid: every combination of its axes' values. A value is one of the spec's, or a table that has a name and several of the spec's.
class Grid {
 public:
  explicit Grid(Json common) : made_{{"", Json::object(), std::move(common)}} {}

  void axis(const std::string& factor, const Json& values) {
    std::vector<Case> next;
    for (const Case& c : made_)
      for (const Json& value : values.is_array() ? values : Json::array({values})) next.push_back(with(c, factor, value));
    made_ = std::move(next);
  }
  std::vector<Case> cases() && { return std::move(made_); }

 private:
  static Case with(Case c, const std::string& factor, const Json& value) {
    std::string word;
    if (value.is_object()) {
      word = value.at("name").get<std::string>();
      c.factors[factor] = word;
      for (const auto& [key, item] : value.items())
        if (key != "name") c.spec[key] = item;
    } else {
      word = value.is_string() ? value.get<std::string>() : fmt::format("{}={}", factor, word_of(value));
      c.factors[factor] = value;
      c.spec[factor] = value;
    }
    c.name += (c.name.empty() ? "" : "/") + word;
    return c;
  }

  std::vector<Case> made_;
};

/// Axes of the extent replace those of the same names.
std::vector<Case> read_grid(Keys& grid, const Json& shared, Extent extent) {
  Json common = shared;
  common.update(grid.object("spec"));
  Json axes = grid.object("axes");
  if (axes.empty()) grid.refuse(grid.table(), "[[grid]] has no axes");
  const Json quick = grid.object("quick"), full = grid.object("full");
  axes.update(extent == Extent::quick ? quick : extent == Extent::full ? full : Json::object());
  Grid out(std::move(common));
  for (const auto& [factor, values] : axes.items()) {
    for (const Json& value : values.is_array() ? values : Json::array({values}))
      if (value.is_object() && !(value.contains("name") && value["name"].is_string()))
        grid.refuse(*grid.table().get("axes"), fmt::format("a value of {} is a table without a name", factor));
    out.axis(factor, values);
  }
  return std::move(out).cases();
}

/// The factors of all cases: what tables, plots and hypotheses may name.
class Factors {
 public:
  explicit Factors(const std::vector<Case>& cases) {
    for (const Case& c : cases)
      for (const auto& [factor, value] : c.factors.items()) names_.insert(factor);
  }
  void require(const Keys& of, const std::string& name) const {
    if (!names_.contains(name)) of.refuse(of.table(), fmt::format("'{}' is no axis of a grid; accepted: {}", name, fmt::join(names_, ", ")));
  }
  void require(const Keys& of, const std::vector<std::string>& names) const {
    for (const std::string& name : names) require(of, name);
  }
  void require(const Keys& of, const Selection& where) const {
    for (const auto& [name, value] : where.items()) require(of, name);
  }

 private:
  std::set<std::string> names_;
};

constexpr const char* kMetric = "ms";

/// Rows and columns tell all cases of the table apart.
void require_one_case_a_cell(const Keys& keys, const Table& table, const Study& study) {
  std::set<std::string> seen;
  for (const Case* c : study.selected(table.where)) {
    std::string cell;
    for (const auto& [factor, value] : c->factors.items())
      if (factor == table.columns || std::ranges::count(table.rows, factor)) cell += value.dump() + ";";
    if (!seen.insert(cell).second)
      keys.refuse(keys.table(), fmt::format("table {}: two cases fall into one cell; accepted: rows and columns that name every axis", table.name));
  }
}

void read_views(Keys& keys, Study& out) {
  const Factors factors(out.cases);
  each(keys, "table", [&](Keys& t) {
    Table table{.name = t.needed("name"),
                .caption = t.needed("caption"),
                .metric = t.text("metric", kMetric),
                .rows = t.texts("rows"),
                .columns = t.text("columns"),
                .where = t.object("where"),
                .base = t.json("base")};
    factors.require(t, table.rows);
    if (!table.columns.empty()) factors.require(t, table.columns);
    factors.require(t, table.where);
    require_one_case_a_cell(t, table, out);
    if (table.base.is_object()) factors.require(t, table.base);
    out.tables.push_back(std::move(table));
  });
  each(keys, "plot", [&](Keys& p) {
    Plot plot{.name = p.needed("name"),
              .caption = p.needed("caption"),
              .metric = p.text("metric", kMetric),
              .x = p.needed("x"),
              .lines = p.texts("lines"),
              .where = p.object("where"),
              .log_x = p.value("log_x", false, "boolean"),
              .log_y = p.value("log_y", false, "boolean")};
    factors.require(p, plot.x);
    factors.require(p, plot.lines);
    factors.require(p, plot.where);
    out.plots.push_back(std::move(plot));
  });
}

void read_hypotheses(Keys& keys, Study& out) {
  const Factors factors(out.cases);
  each(keys, "hypothesis", [&](Keys& h) {
    Hypothesis one{.name = h.needed("name"),
                   .claim = h.needed("claim"),
                   .source = h.needed("source"),
                   .metric = h.text("metric", kMetric),
                   .a = h.object("a"),
                   .b = h.object("b"),
                   .over = h.text("over"),
                   .where = h.object("where"),
                   .margin = h.value("margin", 0.05, "number")};
    const std::string method = h.one_of("method", "ratio", {"ratio", "trend", "variance"});
    one.method = method == "trend" ? Method::trend : method == "variance" ? Method::variance : Method::ratio;
    const bool is_ratio = one.method == Method::ratio;
    if (is_ratio != (!one.a.empty() && !one.b.empty()) || is_ratio != one.over.empty())
      h.refuse(h.table(), fmt::format("a hypothesis by {} needs {}", method, is_ratio ? "a and b" : "over, and neither a nor b"));
    one.expected = is_ratio                      ? h.one_of("expected", "", {"below 1", "above 1", "equal"})
                   : one.method == Method::trend ? h.one_of("expected", "", {"rises", "falls", "level"})
                                                 : h.one_of("expected", "", {"matters", "does not matter"});
    factors.require(h, one.a);
    factors.require(h, one.b);
    factors.require(h, one.where);
    if (!one.over.empty()) factors.require(h, one.over);
    out.hypotheses.push_back(std::move(one));
  });
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

std::string whole(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  if (!in) throw DataError(fmt::format("read: cannot open {}", file.string()));
  return out.str();
}

}  // namespace

std::vector<const Case*> Study::selected(const Selection& where) const {
  std::vector<const Case*> out;
  for (const Case& c : cases) {
    bool fits = true;
    for (const auto& [factor, value] : where.items()) fits = fits && c.factors.contains(factor) && c.factors[factor] == value;
    if (fits) out.push_back(&c);
  }
  return out;
}

Study read_study(const fs::path& file, Extent extent) { return parse_study(whole(file), file, extent); }

Study parse_study(const std::string& text, const fs::path& file, Extent extent) {
  Study out{.name = file.stem().string()};
  out.text = text;
  out.extent = extent;
  toml::table table;
  try {
    table = toml::parse(out.text, file.string());
  } catch (const toml::parse_error& e) {
    throw UsageError(fmt::format("study: {}:{}: {}", file.string(), e.source().begin.line, e.description()));
  }
  Keys keys(file, table, "a study");
  out.title = keys.needed("title");
  out.question = keys.needed("question");
  out.source = keys.text("source");
  out.remarks = keys.texts("remarks");
  out.narrow = keys.value("narrow", out.narrow, "number");
  out.timeout_s = keys.value("timeout_s", out.timeout_s, "number");
  out.most_repeats = static_cast<int>(keys.value<std::int64_t>("most_repeats", out.most_repeats, "whole number"));
  Json common = keys.object("spec");
  const Json quick = keys.object("quick"), full = keys.object("full");
  common.update(extent == Extent::quick ? quick : extent == Extent::full ? full : Json::object());
  each(keys, "grid", [&](Keys& grid) { std::ranges::move(read_grid(grid, common, extent), std::back_inserter(out.cases)); });
  if (out.cases.empty()) keys.refuse(table, "a study has no [[grid]]");
  for (const Case& c : out.cases)
    if (!c.spec.contains("command")) keys.refuse(table, fmt::format("case {} has no command in its spec", c.name));
  read_views(keys, out);
  read_hypotheses(keys, out);
  keys.end();
  std::set<std::string> names;
  for (const Case& c : out.cases)
    if (!names.insert(c.name).second) keys.refuse(table, fmt::format("two cases are named {}", c.name));
  return out;
}

Study recorded_study(const fs::path& folder) {
  const fs::path file = folder / "study.json";
  const Json about = Json::parse(whole(file), nullptr, false);
  if (!about.is_object() || !about.contains("study") || !about.contains("extent"))
    throw DataError(fmt::format("study: {} is no record of a study", file.string()));
  return parse_study(about["study"], about["name"].get<std::string>() + ".toml", static_cast<Extent>(about["extent"].get<int>()));
}

std::vector<fs::path> study_files() {
  std::error_code none;
  const fs::path self = fs::read_symlink("/proc/self/exe", none).parent_path();
  std::vector<fs::path> out;
  for (const fs::path& folder : {fs::path(GEMEL_SOURCE_STUDIES), self.parent_path() / "share/gemel/studies", fs::path(GEMEL_INSTALLED_STUDIES)}) {
    for (const auto& entry : fs::directory_iterator(folder, none))
      if (entry.path().extension() == ".toml") out.push_back(entry.path());
    if (!out.empty()) break;
  }
  std::ranges::sort(out);
  return out;
}

fs::path find_study(const std::string& name) {
  if (name.ends_with(".toml")) return name;
  std::vector<std::string> known;
  for (const fs::path& file : study_files()) {
    if (file.stem() == name) return file;
    known.push_back(file.stem().string());
  }
  if (known.empty())
    throw UsageError(fmt::format("study: '{}' is unknown, and no studies lie in {}; accepted: a file that ends in .toml", name, GEMEL_INSTALLED_STUDIES));
  const std::string near = nearest(name, known);
  throw UsageError(fmt::format("study: '{}' is unknown{}; accepted: {}, or a file that ends in .toml", name,
                               near.empty() ? "" : fmt::format(", did you mean '{}'?", near), fmt::join(known, ", ")));
}

}  // namespace gemel::study
