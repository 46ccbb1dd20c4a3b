#include "tests/support/operators/op_harness.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "engine/base/dtype_conversion.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"
#include "engine/ops/catalog.h"
#include "engine/ops/ops.h"

namespace gemel::testing {
namespace {

const Fill& fill_of(const Sample& sample, std::size_t i) {
  static const Fill normal;
  return sample.fills.empty() ? normal : sample.fills[std::min(i, sample.fills.size() - 1)];
}

double drawn(const Fill& fill, std::mt19937& random) {
  if (fill.kind == Fill::Kind::uniform) return std::uniform_real_distribution<double>(fill.low, fill.high)(random);
  if (fill.kind == Fill::Kind::integers) return std::uniform_int_distribution<int>(static_cast<int>(fill.low), static_cast<int>(fill.high) - 1)(random);
  const double x = std::normal_distribution<double>()(random);
  return std::fabs(x) < fill.away_from_zero ? std::copysign(fill.away_from_zero + std::fabs(x), x) : x;
}

std::vector<double> filled(const Spec& spec, const Fill& fill, std::mt19937& random) {
  std::vector<double> out(at(spec.elements()));
  if (fill.kind == Fill::Kind::distinct) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = fill.low + (fill.high - fill.low) * (static_cast<double>(i) + 0.5) / static_cast<double>(out.size());
    std::shuffle(out.begin(), out.end(), random);
  } else {
    for (double& x : out) x = drawn(fill, random);
  }
  if (spec.dtype == DType::boolean)
    for (double& x : out) x = x > 0 ? 1 : 0;
  for (double& x : out) x = is_floating(spec.dtype) ? rounded_to(spec.dtype, x) : std::trunc(x);
  return out;
}

std::vector<double> zeros_or_read(const Value& v, const Spec& spec) { return v ? read(v) : std::vector<double>(at(spec.elements()), 0.0); }

Value weights_like(const Value& y) {
  std::mt19937 random(5);
  std::vector<double> w(at(y.elements()));
  for (double& x : w) x = static_cast<float>(std::uniform_real_distribution<double>(-1, 1)(random));
  return y.session().tensor(y.spec(), std::span<const double>(w));
}

}  // namespace

std::string OpCase::name() const { return op->name + "_" + std::to_string(sample); }

std::vector<OpCase> all_cases() {
  std::vector<OpCase> out;
  for (const OpDef* op : catalog())
    for (int s = 0; op->samples && s < static_cast<int>(op->samples().size()); ++s) out.push_back({op, s});
  return out;
}

InputNumbers numbers_for(const std::string& name, const Sample& sample) {
  std::mt19937 random(stream_hash(name.c_str()));
  InputNumbers out;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) out.push_back(filled(sample.inputs[i], fill_of(sample, i), random));
  return out;
}

bool differentiable(const OpDef& op, const Sample& sample, std::size_t i) {
  if (!op.gradient || !is_floating(sample.inputs[i].dtype)) return false;
  const Specs made = op.infer(sample.inputs, sample.attributes);
  if (std::ranges::none_of(made, [](const Spec& s) { return is_floating(s.dtype); })) return false;
  return std::find(op.writes.begin(), op.writes.end(), static_cast<int>(i)) == op.writes.end();
}

bool any_differentiable(const OpDef& op, const Sample& sample) {
  for (std::size_t i = 0; i < sample.inputs.size(); ++i)
    if (differentiable(op, sample, i)) return true;
  return false;
}

InputNumbers directions_for(const OpDef& op, const Sample& sample, unsigned seed) {
  std::mt19937 random(seed);
  InputNumbers out;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i)
    out.push_back(differentiable(op, sample, i) ? filled(sample.inputs[i], Fill{}, random) : std::vector<double>());
  return out;
}

Values inputs_in(Session& session, const OpDef& op, const Sample& sample, const InputNumbers& numbers, Wanting wanting) {
  Values out;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    Value v = session.tensor(sample.inputs[i], std::span<const double>(numbers[i]));
    out.push_back(wanting == Wanting::yes && differentiable(op, sample, i) ? leaf(v) : v);
  }
  return out;
}

Value objective(const Values& outputs) {
  Value total;
  for (const Value& y : outputs) {
    if (!is_floating(y.dtype()) || !y.wants_gradient()) continue;
    const Value wide = cast(y, DType::float32), w = weights_like(wide);
    const Value part = sum(w * wide + (w * 0.3) * (wide * wide));
    total = total ? total + part : part;
  }
  return total;
}

InputNumbers gradients(Session& session, const OpDef& op, const Sample& sample, const InputNumbers& x) {
  const Values in = inputs_in(session, op, sample, x, Wanting::yes);
  Values wanting;
  std::copy_if(in.begin(), in.end(), std::back_inserter(wanting), [](const Value& v) { return v.wants_gradient(); });
  const Values found = gradient({objective(apply(session, op, in, sample.attributes))}, wanting);
  InputNumbers out;
  for (std::size_t i = 0, w = 0; i < in.size(); ++i) out.push_back(in[i].wants_gradient() ? zeros_or_read(found[w++], in[i].spec()) : std::vector<double>());
  return out;
}

InputNumbers hessian_vector(Session& session, const OpDef& op, const Sample& sample, const InputNumbers& x, const InputNumbers& direction) {
  const Values in = inputs_in(session, op, sample, x, Wanting::yes);
  Values wanting;
  std::copy_if(in.begin(), in.end(), std::back_inserter(wanting), [](const Value& v) { return v.wants_gradient(); });
  const Values g = gradient({objective(apply(session, op, in, sample.attributes))}, wanting, {}, Tape::extend);
  Value dot;
  for (std::size_t i = 0, w = 0; i < in.size(); ++i) {
    if (!in[i].wants_gradient()) continue;
    const Value& gi = g[w++];
    if (!gi || !gi.wants_gradient()) continue;
    const Value part = cast(sum(gi * session.tensor(in[i].spec(), std::span<const double>(direction[i]))), DType::float32);
    dot = dot ? dot + part : part;
  }
  const Values second = dot ? gradient({dot}, wanting) : Values(wanting.size());
  InputNumbers out;
  for (std::size_t i = 0, w = 0; i < in.size(); ++i) out.push_back(in[i].wants_gradient() ? zeros_or_read(second[w++], in[i].spec()) : std::vector<double>());
  return out;
}

double coarsest_roundoff(const OpDef& op, const Sample& sample) {
  Specs specs = op.infer(sample.inputs, sample.attributes);
  specs.insert(specs.end(), sample.inputs.begin(), sample.inputs.end());
  double coarsest = 0;
  for (const Spec& s : specs) coarsest = std::max(coarsest, unit_roundoff(s.dtype));
  return coarsest;
}

bool in_two_bytes(const OpDef& op, const Sample& sample) { return coarsest_roundoff(op, sample) > unit_roundoff(DType::float32); }

double relative_error(const std::vector<double>& got, const std::vector<double>& expected, double floor) {
  if (got.size() != expected.size()) return INFINITY;
  double worst = 0, largest = floor;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) != std::isnan(expected[i])) return INFINITY;
    if (std::isfinite(expected[i])) largest = std::max(largest, std::fabs(expected[i]));
    if (got[i] == expected[i] || std::isnan(got[i])) continue;
    worst = std::max(worst, std::fabs(got[i] - expected[i]));
  }
  return worst / largest;
}

double roundings(const std::vector<double>& got, const std::vector<double>& expected) {
  if (got.size() != expected.size()) return INFINITY;
  double error = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return error == 0 ? 0 : std::sqrt(error / size) * 0x1p24;
}

}  // namespace gemel::testing
