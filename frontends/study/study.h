// Study: cases as grids over the fields of runs, what is measured of them, and what is asked. Read from a file of data, see docs/guide/studies.md.
#pragma once
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gemel::study {

using Json = nlohmann::ordered_json;

/// How much of a study runs: the small grid, the usual one, or the published sizes.
enum class Extent { quick, usual, full };

/// Frameworks that studies/peers has a program for; a case is of one where its spec names it as `peer`.
inline constexpr std::array kPeers{"pytorch", "tensorflow", "horovod", "onnxruntime", "openvino"};
/// `mode` of such a case: as a peer runs without further ado, or as fast as it can.
inline constexpr std::array kPeerModes{"default", "best"};

/// Keys of a case's spec that the runner itself reads.
inline constexpr const char *kCores = "cores", *kBusyCores = "busy-cores", *kEpochSamples = "epoch-samples";
inline constexpr std::array kOfRunner{kCores, kBusyCores, kEpochSamples};
/// `command` of a case's spec.
inline constexpr std::array kCommands{"bench train", "bench infer", "train", "eval", "infer"};

struct Study;

/// One process, repeated.
struct Case {
  std::string name;                  // "resnet18/batch-size=8/graph": the factors' values
  Json factors;                      // by name, in the order of the file
  Json spec;                         // of the run, without defaults
  std::map<std::string, int> lines;  // of the study's file, where a key of the spec stands
  int line = 0;                      // where its grid begins
  /// The factor's value; null where the case has none of that name.
  Json factor(const std::string& of) const { return factors.contains(of) ? factors.at(of) : Json(); }
  bool is_of_peer() const { return spec.contains("peer"); }
  /// Refuses a key of its spec, with the line where it stands, or of the grid where the spec has none.
  [[noreturn]] void refuse(const Study& study, const std::string& key, const std::string& what) const;
};

/// Cases that are alike but for some factors: each of these has the value given.
using Selection = Json;

/// The metric where none is named: the time of a step.
inline constexpr const char* kStepTime = "ms";

/// Whether each factor of the selection has its value.
bool fits(const Case& c, const Selection& where);
/// "resnet18", "8"
std::string word_of(const Json& value);

struct Table {
  std::string name, caption, metric;
  std::vector<std::string> rows;  // factors
  std::string columns;            // a factor; empty: one column
  Selection where = Json::object();
  Selection base;            // beside each cell its ratio to the case where this holds, alike in the other rows; null: none
  bool is_speed_up = false;  // the ratio is the base over the cell
};

struct Plot {
  std::string name, caption, metric;
  std::string x;                   // a factor of numbers, or a metric where no grid has such a factor
  std::vector<std::string> lines;  // factors, each combination of which is one
  Selection where = Json::object();
  bool log_x = false, log_y = false;
  bool has_bound = false;  // the least that the device needs for it is drawn too; of kBoundedMetrics
};
/// Metrics of which a device's peak gives a bound.
inline constexpr std::array kBoundedMetrics{"ms", "ms_per_sample", "samples_per_s"};

/// What the device can do at most, in a second, as `gemel devices --measure` found it.
struct DevicePeak {
  double flops = 0, read_bytes = 0;
};

/// What a run tells while it goes on, drawn over the run: each epoch's line of its record, or each second's line of its usage.
struct Curve {
  std::string name, caption;
  bool of_usage = false;           // else of epochs
  std::string x, y;                // keys of the lines
  std::vector<std::string> lines;  // factors, each combination of which is one
  Selection where = Json::object();
};

/// Where a metric stops falling with a factor of numbers.
struct Knee {
  std::string name, caption, metric;
  std::string over;                // a factor of numbers
  std::vector<std::string> lines;  // factors, each combination of which has a knee
  Selection where = Json::object();
  double saves = 0.1;  // the share of the metric that a doubling of the factor saves before the knee
};

enum class Method { ratio, trend, variance, correlation };

/// A statement of a published text that this study tests.
struct Hypothesis {
  std::string name, claim, source;
  Method method = Method::ratio;
  std::string metric;
  Selection a, b;    // of a ratio: metric of a over that of b, over all pairs of cases that are alike in the other factors
  std::string over;  // of a trend or an analysis of variance: a factor of numbers
  std::string with;  // of a correlation: another metric
  Selection where = Json::object();
  double margin = 0.05;  // a ratio nearer to 1 is of no interest
  std::string expected;  // "below 1", "above 1", "equal", "rises", "falls", "level", "matters", "does not matter"
};

struct Published {
  std::string caption, source, evidence, unit;
  std::vector<std::string> columns;
  std::vector<Json> rows;
};

/// A data set that cases name by "{data}/NAME" in their specs: where it comes from.
struct DataSource {
  std::string name, from;
  std::string file, begins;  // by which it is known: the first bytes of one of its files, in hexadecimal; empty: it is not looked at
};

struct Study {
  std::string name, file, title, question, source;  // file: as errors name it
  std::vector<Case> cases;
  int least_repeats = 6;  // with which a test of each hypothesis can find a difference
  int most_repeats = 30;
  double narrow = 0.05;    // runs go on until each median of the first table is known to this share of it
  double timeout_s = 600;  // of one process; of the full extent, which has no bound, as long as can be
  std::vector<DataSource> data;
  std::vector<Table> tables;
  std::vector<Plot> plots;
  std::vector<Curve> curves;
  std::vector<Knee> knees;
  std::vector<Hypothesis> hypotheses;
  std::vector<Published> published;
  std::vector<std::string> remarks;
  std::string text;  // the file
  Extent extent = Extent::usual;
  std::vector<std::string> unofficial;  // of results: data sets whose files are not those that `from` has
  Json machine;                         // of results: where they were measured; null: it is not on record
  std::optional<double> scale;          // of results: the share of the steps that its processes run, once it is decided

  /// Those in which each factor of the selection has its value, and that have these factors. A table has the cases with its rows' factors, a plot or a curve
  /// those with its lines'.
  std::vector<const Case*> selected(const Selection& where, const std::vector<std::string>& with = {}) const;
};

/// Cases that are alike in all factors but these, in the order of the study.
std::vector<std::vector<const Case*>> alike_but_for(const std::vector<const Case*>& cases, const std::vector<std::string>& factors);

/// A case that a hypothesis calls a, and the one alike in the factors that neither of its selections names, which it calls b.
struct CasePair {
  const Case *a, *b;
};
/// Of a hypothesis by ratio. @throws UsageError where more than one case could be a or b of a pair
std::vector<CasePair> pairs_of(const Hypothesis& h, const Study& study);

/// Whether cases that differ in `over` alone make groups, and these have less than two of its numbers in common.
bool has_no_shared_levels(const Hypothesis& h, const Study& study);

/// The fewest blocks in which a sign-flip test of one of so many hypotheses can come out below 5 %, adjusted; and not fewer than an interval needs.
int least_blocks(std::size_t hypotheses);
/// Removes tables, plots and hypotheses that need other cases than the study has, and the ratios of a table without its base; sets least_repeats.
void drop_what_has_no_cases(Study& study);
/// The study of Gemel's cases alone, and the tables, plots and hypotheses that these are enough for.
Study without_peers(Study study);

/// @throws UsageError for an unknown key, a wrong type or a reference to a factor that no grid has, with the line; DataError where it cannot be read
Study read_study(const std::filesystem::path& file, Extent extent);
/// @param shown  the file, as errors name it
Study parse_study(const std::string& text, const std::filesystem::path& shown, Extent extent);

/// In a study's folder: the peak of its device.
inline constexpr const char* kPeakFile = "device.json";

/// The study files that are installed or lie in the source tree, by name.
std::vector<std::filesystem::path> study_files();
/// The programs of peers, which lie beside them.
std::filesystem::path peers_folder();
/// @param name  of one of them, or a path  @throws UsageError with the nearest name
std::filesystem::path find_study(const std::string& name);

}  // namespace gemel::study
