#include "frontends/study/report/table_grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace gemel::study {
namespace {

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

class TableGrid {
 public:
  TableGrid(const Table& table, const Study& study, const Results& results)
      : table_(table), unit_(display_unit(table.metric)), results_(results), cases_(study.selected(table.where, table.rows)) {
    for (const Case* c : cases_)
      if (std::ranges::count(columns_, c->factor(table.columns)) == 0) columns_.push_back(c->factor(table.columns));
  }

  Grid grid() const {
    Grid out{.caption = fmt::format("{} ({}: median, 95 % interval; below {} processes their range)", table_.caption, unit_.label, kLeastProcesses),
             .head = table_.rows};
    for (const Json& column : columns_) out.head.push_back(title(column));
    if (!table_.base.is_null())
      for (const Json& column : columns_) out.head.push_back(table_.is_speed_up ? "speed-up of " + title(column) : title(column) + " / base");
    for (const auto& group : alike_but_for(cases_, {table_.columns})) {
      std::vector<std::string> row;
      for (const std::string& factor : table_.rows) row.push_back(word_of(group[0]->factor(factor)));
      for (const Json& column : columns_) row.push_back(cell(group, column));
      if (!table_.base.is_null())
        for (const Json& column : columns_) row.push_back(ratio(group, column));
      out.rows.push_back(std::move(row));
    }
    if (!table_.base.is_null())
      out.caption += fmt::format(". {} {}: geometric mean of the blocks", table_.is_speed_up ? "Speed-ups over" : "Ratios to", described(table_.base));
    return out;
  }

 private:
  std::string title(const Json& column) const {
    if (column.is_null()) return table_.metric;
    return column.is_string() ? word_of(column) : fmt::format("{} {}", table_.columns, word_of(column));
  }
  const Case* in(const std::vector<const Case*>& group, const Json& column) const {
    const auto c = std::ranges::find_if(group, [&](const Case* one) { return one->factor(table_.columns) == column; });
    return c == group.end() ? nullptr : *c;
  }
  std::string cell(const std::vector<const Case*>& group, const Json& column) const {
    const Case* c = in(group, column);
    return c ? text_of(results_.estimate(*c, table_.metric), unit_.size) : "";
  }
  /// To the case that fits the base and is alike in what neither the base nor the columns name.
  std::string ratio(const std::vector<const Case*>& group, const Json& column) const {
    const Case* c = in(group, column);
    if (!c || fits(*c, table_.base)) return "";
    std::vector<std::string> but{table_.columns};
    for (const auto& [factor, value] : table_.base.items()) but.push_back(factor);
    for (const auto& alike : alike_but_for(cases_, but)) {
      if (std::ranges::count(alike, c) == 0) continue;
      const auto base = std::ranges::find_if(alike, [&](const Case* one) { return fits(*one, table_.base); });
      if (base == alike.end()) return "";
      const Estimate e = table_.is_speed_up ? results_.ratio(**base, *c, table_.metric) : results_.ratio(*c, **base, table_.metric);
      return e.gap.empty() ? text_of(e) : "";
    }
    return "";
  }

  const Table& table_;
  const DisplayUnit unit_;
  const Results& results_;
  std::vector<const Case*> cases_;
  std::vector<Json> columns_;
};

}  // namespace

Grid grid_of(const Table& table, const Study& study, const Results& results) { return TableGrid(table, study, results).grid(); }

std::string csv_line(const std::vector<std::string>& cells) {
  std::vector<std::string> quoted;
  for (const std::string& cell : cells) quoted.push_back(csv_cell(cell));
  return fmt::format("{}\n", fmt::join(quoted, ","));
}

std::string csv_of(const std::vector<const Case*>& cases, const std::string& metric, const Results& results) {
  std::vector<std::string> factors;
  for (const Case* c : cases)
    for (const auto& [factor, value] : c->factors.items())
      if (std::ranges::count(factors, factor) == 0) factors.push_back(factor);
  std::vector<std::string> head = factors;
  for (const char* column : {"metric", "n", "median", "low", "high", "of", "gap"}) head.emplace_back(column);
  std::string out = csv_line(head);
  for (const Case* c : cases) {
    const Estimate e = results.estimate(*c, metric);
    std::vector<std::string> cells;
    for (const std::string& factor : factors) cells.push_back(word_of(c->factor(factor)));
    cells.insert(cells.end(), {metric, fmt::format("{}", e.n)});
    if (e.gap.empty())
      cells.insert(cells.end(), {fmt::format("{}", e.median), fmt::format("{}", e.interval.low), fmt::format("{}", e.interval.high),
                                 e.is_range ? "range" : "95 % interval", ""});
    else
      cells.insert(cells.end(), {"", "", "", "", fmt::format("{}: {}", e.gap, e.reason)});
    out += csv_line(cells);
  }
  return out;
}

std::string csv_of(const std::vector<Line>& lines, const std::string& x, const std::string& y) {
  std::string out = csv_line({"line", x, y, "low", "high"});
  for (const Line& line : lines)
    for (const Point& p : line.points)
      out += csv_line({line.name, fmt::format("{}", p.x), fmt::format("{}", p.y), fmt::format("{}", p.interval.low), fmt::format("{}", p.interval.high)});
  return out;
}

}  // namespace gemel::study
