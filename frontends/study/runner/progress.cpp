#include "frontends/study/runner/progress.h"

#include <algorithm>

#include "frontends/study/statistics/averages.h"
#include "frontends/study/statistics/bootstrap.h"

namespace gemel::study {

namespace {

/// None: it is not known.
std::optional<double> first_step_s(const ProcessRecord& run) {
  if (run.metrics.contains("first_time")) return 1e-3 * run.metrics["first_time"].get<double>();
  const bool is_train = run.spec.is_object() && run.spec.value("command", "") == "train";
  return is_train && !run.samples_ms.empty() ? std::optional(1e-3 * run.samples_ms[0].get<double>()) : std::nullopt;
}

}  // namespace

Progress::Progress(const Study& study, const std::vector<ProcessRecord>& before, double scale)
    : study_(study), scale_(scale), metric_(study.tables.empty() ? "ms" : study.tables[0].metric) {
  for (const ProcessRecord& run : before) add(run);
}

void Progress::add(const ProcessRecord& run) {
  order_ = std::max(order_, run.order);
  const bool is_gap = run.status != "ok";
  if (!is_gap && run.scale != scale_) return;
  Known& known = known_[run.name];
  known.blocks.insert(run.repeat);
  known.seconds = run.seconds;
  if (const auto first = first_step_s(run); first && run.peer() == kGemel) {
    if (known.blocks.size() == 1) known.first_step_s = first;
    least_first_step_s_ = std::min(*first, least_first_step_s_.value_or(*first));
  }
  known.is_gap = known.is_gap || is_gap;
  const std::string metric = run.metrics.contains(metric_) ? metric_ : "ms";  // of what the first table does not show
  if (run.metrics.contains(metric)) known.values.push_back(run.metrics[metric].get<double>());
  const auto c = std::ranges::find(study_.cases, run.name, &Case::name);
  if (!is_gap && c != study_.cases.end()) known.cost.emplace(c->spec, run);
}

double Progress::one_off_s(const Known& known) const { return known.blocks.size() == 1 && known.first_step_s ? *known.first_step_s - *least_first_step_s_ : 0; }

bool Progress::is_gap(const Case& c) const {
  const auto it = known_.find(c.name);
  return it != known_.end() && it->second.is_gap;
}

bool Progress::goes_on(const Case& c, int block) const {
  const auto it = known_.find(c.name);
  return it == known_.end() || (!it->second.is_gap && !it->second.blocks.contains(block));
}

double Progress::seconds(const Case& c) const {
  const auto it = known_.find(c.name);
  if (it != known_.end()) return it->second.seconds - one_off_s(it->second);
  double sum = 0;
  for (const auto& [name, known] : known_) sum += known.seconds - one_off_s(known);
  return known_.empty() ? 0 : sum / static_cast<double>(known_.size());
}

double Progress::seconds_of_block(bool of_gemel_alone) const {
  double sum = 0;
  for (const Case& c : study_.cases)
    if (!is_gap(c) && !(of_gemel_alone && c.is_of_peer())) sum += seconds(c);
  return sum;
}

std::vector<CaseCost> Progress::costs() const {
  std::vector<CaseCost> out;
  for (const auto& [name, known] : known_)
    if (known.cost && !known.is_gap) out.push_back(known.cost->less(one_off_s(known)));
  return out;
}

std::map<std::string, int> Progress::repeats_within(int blocks, double seconds) const {
  std::vector<const Case*> cases;
  std::vector<double> costs;
  for (const Case& c : study_.cases) {
    if (is_gap(c)) continue;
    cases.push_back(&c);
    costs.push_back(this->seconds(c));
    if (const auto it = known_.find(c.name); it != known_.end()) seconds += static_cast<double>(it->second.blocks.size()) * costs.back();
  }
  const std::vector<int> repeats = study::repeats_within(costs, blocks, seconds);
  std::map<std::string, int> out;
  for (std::size_t i = 0; i < cases.size(); ++i) out[cases[i]->name] = repeats[i];
  return out;
}

bool Progress::is_enough() const {
  return std::ranges::all_of(known_, [&](const auto& one) {
    const Known& known = one.second;
    if (known.is_gap) return true;
    if (std::ssize(known.values) < study_.least_repeats) return false;
    const Interval interval = median_interval(known.values, {.resamples = 999});
    return interval.high - interval.low <= study_.narrow * median(known.values);
  });
}

}  // namespace gemel::study
