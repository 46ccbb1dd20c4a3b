#include "frontends/train/anomaly_detector.h"

#include <algorithm>
#include <cmath>

namespace gemel::train {
namespace {

bool has_nan(std::span<const Value> values) {
  return std::any_of(values.begin(), values.end(), [](const Value& v) {
    if (!is_floating(v.dtype())) return false;
    const auto numbers = read(v);
    return std::any_of(numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); });
  });
}

/// What an operator only reads.
Values read_by(const OpDef& op, std::span<const Value> in) {
  Values out;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in[i] && std::ranges::find(op.writes, static_cast<int>(i)) == op.writes.end()) out.push_back(in[i]);
  return out;
}

/// Results of an operator: its outputs and what it writes.
Values results_of(const OpDef& op, std::span<const Value> in, std::span<const Value> out) {
  Values results(out.begin(), out.end());
  for (int w : op.writes) results.push_back(in[static_cast<std::size_t>(w)]);
  return results;
}

}  // namespace

AnomalyDetector::AnomalyDetector(Session& session) : session_(session) {
  observation_ = session.interpreter().observe([this](const OpDef& op, std::span<const Value> in, std::span<const Value> out) {
    if (first_) return;
    const Values results = results_of(op, in, out);
    if (!has_nan(results) || has_nan(read_by(op, in))) return;  // a NaN that it was given was made elsewhere, maybe by another rank
    const std::string& scope = *session_.scope();
    first_ = (scope.empty() ? "" : scope + ": ") + op.name + (results.empty() ? "" : " " + to_string(results[0].spec()));
  });
}

}  // namespace gemel::train
