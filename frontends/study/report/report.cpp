#include "frontends/study/report/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/base/files/file.h"
#include "frontends/study/report/answers.h"
#include "frontends/study/report/circumstances.h"
#include "frontends/study/report/knees.h"
#include "frontends/study/report/page.h"
#include "frontends/study/report/plot_lines.h"
#include "frontends/study/report/table_grid.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  write_file_atomically(file, [&](FileWriter& out) { out.write(text); });
}

/// The reason of each failure once, with the cases that have it; and the cases that did not run.
ListItems gaps_of(const Study& study, const Results& results) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  const auto add = [&](const std::string& name, const std::string& reason) {
    auto it = std::ranges::find(by_reason, reason, [](const auto& one) { return one.first; });
    if (it == by_reason.end()) it = by_reason.insert(by_reason.end(), {reason, {}});
    it->second.push_back(name);
  };
  for (const ProcessRecord* run : results.failures()) add(fmt::format("{} (block {})", run->name, run->repeat + 1), run->status + ": " + run->reason);
  for (const Case& c : study.cases)
    if (const Estimate e = results.estimate(c, "process_seconds");
        e.n == 0 && std::ranges::none_of(results.failures(), [&](const auto* run) { return run->name == c.name; }))
      add(c.name, e.gap + ": " + e.reason);
  for (const Table& table : study.tables)
    for (const Case* c : study.selected(table.where, table.rows))
      if (const Estimate e = results.estimate(*c, table.metric); e.gap == kNotMeasured) add(c->name, fmt::format("no {}: {}", table.metric, e.reason));
  ListItems out;
  for (const auto& [reason, names] : by_reason) out.items.push_back(fmt::format("{}: {}", fmt::join(names, ", "), reason));
  return out;
}

/// What was not measured as a whole but scaled from a part: epochs.
std::string about_epochs(const Study& study, const Results& results) {
  std::set<std::size_t> measured;
  std::set<double> all;
  for (const Case& c : study.cases)
    for (const ProcessRecord* run : results.runs_of(c))
      if (run->metrics.contains("epoch_s") && run->metrics.contains("ms")) {
        const bool is_train = run->spec.value("command", "") == "train";  // whose first step does not count
        measured.insert(run->samples_ms.size() - (is_train && run->samples_ms.size() > 1));
        all.insert(std::round(1000 * run->metrics["epoch_s"].get<double>() / run->metrics["ms"].get<double>()));
      }
  if (measured.empty()) return "";
  return fmt::format(" The time of an epoch is scaled: the median of {} steps, times {}.", fmt::join(measured, " or "), fmt::join(all, " or "));
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
  const double scale = study.scale.value_or(1);
  const std::string shortened = scale == 1 ? ""
                                           : fmt::format(
                                                 " To end within its budget processes ran as few as {:.0f} % of the steps that the study asks for, but 4 "
                                                 "steps, or an epoch of fewer samples, at least.",
                                                 100 * scale);
  const std::string other_data =
      study.unofficial.empty()
          ? ""
          : fmt::format(" The files of {} are not the official ones: accuracies do not compare with published ones.", fmt::join(study.unofficial, ", "));
  return fmt::format("Measured: {} processes of {} cases in {}, {:.0f} s in all.{}{}{}", ok, study.cases.size(), in, seconds, shortened,
                     about_epochs(study, results), other_data);
}

/// What was measured when the study ran; empty where nothing was, or it failed.
std::optional<DevicePeak> recorded_peak(const fs::path& folder) {
  if (!is_there(folder / kPeakFile)) return std::nullopt;
  const Json found = Json::parse(as_text(read_whole(folder / kPeakFile)), nullptr, false);
  const auto number = [&](const char* key) { return found.is_object() && found.value(key, Json()).is_number() ? found[key].get<double>() : 0; };
  const DevicePeak out{.flops = number("flops_per_second"), .read_bytes = number("read_bytes_per_second")};
  if (out.flops <= 0 || out.read_bytes <= 0) return std::nullopt;
  return out;
}

/// " Dotted: ..."
std::string about_bound(const DevicePeak& peak) {
  return fmt::format(
      " Dotted: what the whole device allows, the operations of a step at its peak of {:.3g} GFLOP/s, or reading each parameter once at {:.3g} GB/s, "
      "whichever takes longer; Winograd's convolutions need fewer operations than are counted.",
      1e-9 * peak.flops, 1e-9 * peak.read_bytes);
}

std::string csv_of_bounds(const std::vector<Line>& lines, const std::string& x, const std::string& metric) {
  std::string out = csv_line({"line", x, metric + " at the bound"});
  for (const Line& line : lines)
    for (const Point& p : line.bound) out += csv_line({line.name, fmt::format("{}", p.x), fmt::format("{}", p.y)});
  return out;
}

Axis axis_of(const std::string& metric, bool is_log) {
  const DisplayUnit unit = display_unit(metric);
  return {unit.label, is_log, unit.size};
}

/// Builds the page of a study part by part, and writes the files that belong to a part.
class ReportWriter {
 public:
  ReportWriter(const Study& study, const Results& results, fs::path folder)
      : study_(study), results_(results), folder_(std::move(folder)), peak_(recorded_peak(folder_)), page_{.title = study.title, .blocks = {}} {}

  void answer() {
    add(Paragraph{first_line(study_, results_)});
    add(Heading{"The question and the answer"});
    add(Paragraph{study_.question});
    if (!study_.source.empty()) add(Paragraph{"After: " + study_.source + "."});
    ListItems answers;
    if (std::string all = summary_of(study_, results_); !all.empty()) answers.items.push_back(std::move(all));
    for (std::size_t i = 0; i < study_.hypotheses.size(); ++i)
      answers.items.push_back(answer_to(study_.hypotheses[i], results_.verdicts()[i], study_, results_));
    for (const Knee& knee : study_.knees) {
      std::vector<std::string> lines;
      for (const FoundKnee& found : knees_of(knee, study_, results_)) lines.push_back(fmt::format("{}: {}", fmt::join(found.line, ", "), found.text()));
      answers.items.push_back(fmt::format("{}, by {}: {}.", knee.caption, knee.over, fmt::join(lines, "; ")));
    }
    if (!answers.items.empty()) add(std::move(answers));
    if (ListItems gaps = gaps_of(study_, results_); !gaps.items.empty()) {
      add(Heading{"Gaps"});
      add(std::move(gaps));
    }
  }
  void figures() {
    add(Heading{"What was measured"});
    for (const Table& table : study_.tables) {
      add(grid_of(table, study_, results_));
      write(folder_ / "tables" / (table.name + ".csv"), csv_of(study_.selected(table.where, table.rows), table.metric, results_));
    }
    for (const Knee& knee : study_.knees) {
      Grid grid = grid_of(knee, knees_of(knee, study_, results_));
      std::string csv = csv_line(grid.head);
      for (const auto& row : grid.rows) csv += csv_line(row);
      write(folder_ / "tables" / (knee.name + ".csv"), csv);
      add(std::move(grid));
    }
    for (const Plot& plot : study_.plots) {
      const std::vector<Line> lines = lines_of(plot, study_, results_, peak_);
      const bool has_bound = std::ranges::any_of(lines, [](const Line& line) { return !line.bound.empty(); });
      add_figure(plot.name, plot.caption + (has_bound ? about_bound(*peak_) : ""),
                 plot_svg(lines, axis_of(plot.x, plot.log_x), axis_of(plot.metric, plot.log_y)),
                 csv_of(study_.selected(plot.where, plot.lines), plot.metric, results_));
      if (has_bound) write(folder_ / "plots" / (plot.name + "-bound.csv"), csv_of_bounds(lines, plot.x, plot.metric));
    }
    for (const Curve& curve : study_.curves) {
      const std::vector<Line> lines = lines_of(curve, study_, results_);
      add_figure(curve.name, curve.caption, plot_svg(lines, axis_of(curve.x, false), axis_of(curve.y, false)), csv_of(lines, curve.x, curve.y));
    }
  }
  void published() {
    if (!results_.verdicts().empty()) add(Heading{"What published studies found, and what is found here"});
    for (const Verdict& v : results_.verdicts())
      add(Paragraph{fmt::format("Statement: {} ({}) Found here: {} So of the statement: {}.", v.claim, v.source, v.sentence, v.claim_holds)});
    for (const Published& p : study_.published) {
      const char* how = p.evidence == "figure_reading" ? ", read off a figure" : p.evidence == "secondary" ? ", as others quote it" : "";
      Grid grid{
          .caption = fmt::format("Published{}: {}{} ({})", how, p.caption, p.unit.empty() ? "" : ", in " + p.unit, p.source), .head = p.columns, .rows = {}};
      for (const Json& row : p.rows) {
        std::vector<std::string> cells;
        for (const Json& cell : row) cells.push_back(word_of(cell));
        grid.rows.push_back(std::move(cells));
      }
      add(std::move(grid));
    }
  }
  void circumstances() {
    add(Heading{"How it was measured"});
    add(machine_grid(study_, results_));
    if (ListItems doubts = doubts_of(study_, results_); !doubts.items.empty()) {
      add(Paragraph{"Doubts about single cases:"});
      add(std::move(doubts));
    }
    for (const std::string& remark : study_.remarks) add(Paragraph{remark});
    if (!results_.agreements().empty()) add(agreement_grid(results_));
    add(Paragraph{"How this report keeps the rules of Hoefler and Belli, Scientific benchmarking of parallel computing systems, 2015:"});
    add(rules());
    if (Listing commands = commands_of(study_, results_); !commands.text.empty()) {
      const bool has_peers = std::ranges::any_of(study_.cases, &Case::is_of_peer);
      add(Paragraph{
          std::string("The first process of each case as a command for a shell on this machine; runs.jsonl has that of every process.") +
          (has_peers ? " Peers start from weights and data that a study makes for them and removes: their cases run by `gemel study run` alone." : "")});
      add(std::move(commands));
    }
  }
  const Page& page() const { return page_; }

 private:
  /// Nothing where there are no points.
  void add_figure(const std::string& name, const std::string& caption, const Drawing& drawing, const std::string& csv) {
    if (drawing.svg.empty()) return;
    write(folder_ / "plots" / (name + ".svg"), drawing.svg);
    write(folder_ / "plots" / (name + ".csv"), csv);
    const std::string remark =
        drawing.left_out == 0 ? "" : fmt::format(" Left out: {} points of 0 or less, for which a logarithmic axis has no place.", drawing.left_out);
    add(Figure{fmt::format("{} Bars: 95 % intervals of the median, below {} processes their range.{}", caption, kLeastProcesses, remark), drawing.svg,
               "plots/" + name + ".svg"});
  }
  void add(Block block) { page_.blocks.push_back(std::move(block)); }

  const Study& study_;
  const Results& results_;
  fs::path folder_;
  std::optional<DevicePeak> peak_;
  Page page_;
};

}  // namespace

void write_report(const Study& study, const Results& results, const fs::path& folder) {
  ReportWriter writer(study, results, folder);
  writer.answer();
  writer.figures();
  writer.published();
  writer.circumstances();
  write(folder / "results.json", results.json().dump(1) + "\n");
  write(folder / "report.md", markdown(writer.page()));
  write(folder / "report.html", html(writer.page()));
}

}  // namespace gemel::study
