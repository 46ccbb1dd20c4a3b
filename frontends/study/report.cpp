#include "frontends/study/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "engine/base/files/file.h"
#include "frontends/study/page.h"
#include "frontends/study/plot_svg.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;

std::string word_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  write_file_atomically(file, [&](FileWriter& out) { out.write(text); });
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string out;
  for (const std::string& cell : cells) out += (out.empty() ? "" : ",") + csv_cell(cell);
  return out + "\n";
}

/// Every case with its factors and what was found, a line each.
std::string csv_of(const std::vector<const Case*>& cases, const std::string& metric, const Results& results) {
  std::vector<std::string> factors;
  for (const Case* c : cases)
    for (const auto& [factor, value] : c->factors.items())
      if (std::ranges::count(factors, factor) == 0) factors.push_back(factor);
  std::vector<std::string> head = factors;
  for (const char* column : {"metric", "n", "median", "low", "high", "gap"}) head.emplace_back(column);
  std::string out = csv_line(head);
  for (const Case* c : cases) {
    const Estimate e = results.estimate(*c, metric);
    std::vector<std::string> cells;
    for (const std::string& factor : factors) cells.push_back(c->factors.contains(factor) ? word_of(c->factors[factor]) : "");
    cells.insert(cells.end(), {metric, fmt::format("{}", e.n)});
    if (e.gap.empty())
      cells.insert(cells.end(), {fmt::format("{}", e.median), fmt::format("{}", e.interval.low), fmt::format("{}", e.interval.high), ""});
    else
      cells.insert(cells.end(), {"", "", "", e.gap});
    out += csv_line(cells);
  }
  return out;
}

/// One row for each combination of the row factors' values, one column for each value of the column's.
Grid grid_of(const Table& table, const Study& study, const Results& results) {
  const std::vector<const Case*> cases = study.selected(table.where);
  std::vector<Json> columns;
  for (const Case* c : cases)
    if (!table.columns.empty() && c->factors.contains(table.columns) && std::ranges::count(columns, c->factors[table.columns]) == 0)
      columns.push_back(c->factors[table.columns]);
  Grid out{.caption = fmt::format("{} ({}: median, 95 % interval)", table.caption, table.metric), .head = table.rows};
  if (table.columns.empty()) out.head.push_back(table.metric);
  for (const Json& column : columns) out.head.push_back(fmt::format("{}{}", column.is_string() ? "" : table.columns + " ", word_of(column)));
  const Json base_column = table.base.is_object() && table.base.contains(table.columns) ? table.base[table.columns] : Json();
  for (const Json& column : columns)
    if (!base_column.is_null() && column != base_column) out.head.push_back(fmt::format("{} / {}", word_of(column), word_of(base_column)));
  std::vector<std::string> but = table.columns.empty() ? std::vector<std::string>{} : std::vector{table.columns};
  for (const auto& group : alike_but_for(cases, but)) {
    std::vector<std::string> row;
    for (const std::string& factor : table.rows) row.push_back(group[0]->factors.contains(factor) ? word_of(group[0]->factors[factor]) : "");
    std::vector<Estimate> found;
    double base = 0;
    for (const Json& column : columns) {
      const auto c = std::ranges::find_if(group, [&](const Case* one) { return one->factors[table.columns] == column; });
      found.push_back(c == group.end() ? Estimate{.gap = "no case"} : results.estimate(**c, table.metric));
      if (column == base_column && found.back().gap.empty()) base = found.back().median;
    }
    if (table.columns.empty()) found.push_back(results.estimate(*group[0], table.metric));
    for (const Estimate& e : found) row.push_back(text_of(e));
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (!base_column.is_null() && columns[i] != base_column)
        row.push_back(base > 0 && found[i].gap.empty() ? fmt::format("{:.3f}", found[i].median / base) : "");
    out.rows.push_back(std::move(row));
  }
  return out;
}

std::vector<Line> lines_of(const Plot& plot, const Study& study, const Results& results) {
  std::vector<Line> out;
  for (const Case* c : study.selected(plot.where)) {
    const Estimate e = results.estimate(*c, plot.metric);
    if (!e.gap.empty() || !c->factors.contains(plot.x) || !c->factors[plot.x].is_number()) continue;
    std::vector<std::string> names;
    for (const std::string& factor : plot.lines)
      if (c->factors.contains(factor)) names.push_back(word_of(c->factors[factor]));
    const std::string name = fmt::format("{}", fmt::join(names, ", "));
    auto it = std::ranges::find(out, name, &Line::name);
    if (it == out.end()) it = out.insert(out.end(), Line{name, {}});
    it->points.push_back({c->factors[plot.x].get<double>(), e.median, e.interval});
  }
  for (Line& line : out) std::ranges::sort(line.points, {}, &Point::x);
  return out;
}

/// The reason of each gap once, with the cases that have it.
ListItems gaps_of(const Study& study, const Results& results) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  for (const Case& c : study.cases) {
    const Estimate e = results.estimate(c, "process_seconds");
    if (e.gap.empty()) continue;
    auto it = std::ranges::find(by_reason, e.gap, [](const auto& one) { return one.first; });
    if (it == by_reason.end()) it = by_reason.insert(by_reason.end(), {e.gap, {}});
    it->second.push_back(c.name);
  }
  ListItems out;
  for (const auto& [reason, names] : by_reason) out.items.push_back(fmt::format("{}: {}", fmt::join(names, ", "), reason));
  return out;
}

std::string first_line(const Study& study, const Results& results) {
  std::set<int> blocks;
  std::size_t ok = 0;
  double seconds = 0;
  for (const ProcessRecord& run : results.runs()) {
    blocks.insert(run.repeat);
    ok += run.status == "ok";
    seconds += run.seconds;
  }
  const std::string in = blocks.size() == 1 ? "one block, in random order" : fmt::format("{} blocks, each in another random order", blocks.size());
  return fmt::format("Measured: {} processes of {} cases in {}, {:.0f} s in all. Nothing is scaled.", ok, study.cases.size(), in, seconds);
}

/// How the report keeps the rules of T. Hoefler, R. Belli, Scientific benchmarking of parallel computing systems, 2015.
ListItems rules() {
  return {
      {"1, speed-ups: each table has absolute figures, and ratios stand beside the base that it names.",
       "2, subsets: every case of the study is in the tables, gaps with their reasons.",
       "3, 4, averages: medians; rates come of median times; ratios are averaged geometrically.",
       "5, 6, variation and normality: intervals of medians by bootstrap (BCa) and sign-flip tests suppose no distribution; intervals of ratios and tests of "
       "equality are of logarithms of ratios, by Student's t.",
       "7, comparisons: by tests, with p adjusted by Holm over all hypotheses of the study; the unit is the process, not the step.",
       "8, percentiles: samples_ms of every process are in runs.jsonl.", "9, factors: the spec of every process is in runs.jsonl, the machine below.",
       "10, time of ranks: a step is as long as on the slowest rank.", "11, bounds: the study says where one is drawn.",
       "12, lines join points only along a factor of numbers."}};
}

}  // namespace

void write_report(const Study& study, const Results& results, const fs::path& folder) {
  Page page{.title = study.title};
  const auto add = [&](Block block) { page.blocks.push_back(std::move(block)); };
  add(Paragraph{first_line(study, results)});
  add(Heading{"The question and the answer"});
  add(Paragraph{study.question});
  ListItems answers;
  for (const Verdict& v : results.verdicts()) answers.items.push_back(fmt::format("{} Here: {}.", v.claim, v.claim_holds));
  if (!answers.items.empty()) add(std::move(answers));
  if (ListItems gaps = gaps_of(study, results); !gaps.items.empty()) {
    add(Heading{"Gaps"});
    add(std::move(gaps));
  }
  add(Heading{"What was measured"});
  for (const Table& table : study.tables) {
    add(grid_of(table, study, results));
    write(folder / "tables" / (table.name + ".csv"), csv_of(study.selected(table.where), table.metric, results));
  }
  for (const Plot& plot : study.plots) {
    const std::string svg = plot_svg(lines_of(plot, study, results), {plot.x, plot.log_x}, {plot.metric, plot.log_y});
    if (svg.empty()) continue;
    write(folder / "plots" / (plot.name + ".svg"), svg);
    write(folder / "plots" / (plot.name + ".csv"), csv_of(study.selected(plot.where), plot.metric, results));
    add(Figure{fmt::format("{} Bars: 95 % intervals of the median.", plot.caption), svg, "plots/" + plot.name + ".svg"});
  }
  if (!results.verdicts().empty()) add(Heading{"What published studies found, and what is found here"});
  for (const Verdict& v : results.verdicts())
    add(Paragraph{fmt::format("Published: {} ({}) Found here: {} So of the statement: {}.", v.claim, v.source, v.sentence, v.claim_holds)});
  for (const Published& p : study.published) {
    Grid grid{.caption = fmt::format("Published{}: {} {} ({}){}",
                                     p.evidence == "figure_reading" ? ", read off a figure"
                                     : p.evidence == "secondary"    ? ", as others quote it"
                                                                    : "",
                                     p.caption, p.unit.empty() ? "" : "[" + p.unit + "]", p.source, ""),
              .head = p.columns};
    for (const Json& row : p.rows) {
      std::vector<std::string> cells;
      for (const Json& cell : row) cells.push_back(cell.is_null() ? "" : word_of(cell));
      grid.rows.push_back(std::move(cells));
    }
    add(std::move(grid));
  }
  add(Heading{"How it was measured"});
  for (const std::string& remark : study.remarks) add(Paragraph{remark});
  add(rules());
  add(Listing{results.machine()});
  std::string commands;
  std::set<std::string> seen;
  for (const ProcessRecord& run : results.runs())
    if (seen.insert(run.name).second) commands += fmt::format("{}: {} with {}\n", run.name, run.command, run.spec.dump());
  add(Listing{commands});
  write(folder / "results.json", results.json().dump(1) + "\n");
  write(folder / "report.md", markdown(page));
  write(folder / "report.html", html(page));
}

}  // namespace gemel::study
