#include "frontends/study/runner/process_meter.h"

#include <algorithm>

#include "engine/base/clock.h"
#include "engine/base/usage/process_state.h"

namespace gemel::study {
namespace {

constexpr double kPeriod = 0.1, kLine = 1;  // seconds

}  // namespace

void ProcessMeter::tick(pid_t process) {
  const double now = unix_seconds();
  if (!samples_.empty() && now - samples_.back().at < kPeriod) return;
  const ProcessUsage usage = usage_of_tree(process);
  samples_.push_back({now, usage.processor_seconds, busy_seconds_of_machine(), usage.resident_bytes, power_.joules(), power_.cards().utilisation()});
}

/// Where a process has ended between two measurements its time is gone from the sum.
double ProcessMeter::utilisation(const Sample& from, const Sample& to) const {
  return std::clamp((to.processor_seconds - from.processor_seconds) / ((to.at - from.at) * cores_), 0.0, 1.0);
}

ProcessMeter::Json ProcessMeter::means(const Span& span) const {
  std::vector<Sample> in;
  for (const Sample& s : samples_)
    if (s.at >= span.from && s.at <= span.to) in.push_back(s);
  Json out = Json::object();
  if (in.size() < 2) return out;  // shorter than what can be measured
  const Sample &first = in.front(), &last = in.back();
  out["utilisation"] = utilisation(first, last);
  if (first.machine_seconds && last.machine_seconds) {
    const double others = *last.machine_seconds - *first.machine_seconds - (last.processor_seconds - first.processor_seconds);
    out["other_cores"] = std::max(0.0, others / (last.at - first.at));
  }
  out["peak_resident_bytes"] = std::ranges::max_element(in, {}, &Sample::resident_bytes)->resident_bytes;
  if (first.joules) out["watts"] = (*last.joules - *first.joules) / (last.at - first.at);
  double sum = 0;
  int cards = 0;
  for (const Sample& s : in)
    if (s.card_utilisation) {
      sum += *s.card_utilisation;
      ++cards;
    }
  if (cards > 0) out["card_utilisation"] = sum / cards;
  return out;
}

std::vector<ProcessMeter::Json> ProcessMeter::lines() const {
  std::vector<Json> out;
  if (samples_.empty()) return out;
  const Sample* begin = &samples_.front();
  for (const Sample& s : samples_) {
    if (s.at - begin->at < kLine) continue;
    Json line{{"seconds", s.at - samples_.front().at}, {"cpu", utilisation(*begin, s)}, {"resident_bytes", s.resident_bytes}};
    if (s.joules) line["watts"] = (*s.joules - *begin->joules) / (s.at - begin->at);
    out.push_back(std::move(line));
    begin = &s;
  }
  return out;
}

}  // namespace gemel::study
