#include "tests/support/operators/finite_differences.h"

#include <random>

#include "engine/base/numbers.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {

std::vector<double> noise(std::int64_t n, unsigned seed, double scale) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> out(at(n));
  for (double& x : out) x = static_cast<float>(scale * normal(random));
  return out;
}

Data noise_for(const Specs& specs, unsigned seed, double scale) {
  Data out;
  for (const Spec& s : specs) out.push_back(noise(s.elements(), seed++, scale));
  return out;
}

Values leaves_for(Session& session, const Specs& specs, const Data& data) {
  Values out;
  for (std::size_t i = 0; i < specs.size(); ++i) out.push_back(leaf(session.tensor(specs[i], std::span<const double>(data[i]))));
  return out;
}

Value weighted(const Value& y) {
  const Value w = y.session().tensor(y.spec(), std::span<const double>(noise(y.elements(), 5)));
  return sum(w * y + (y * y) * (w * 0.3));
}

namespace {

std::vector<double> flat(const Values& values, const Specs& specs) {
  std::vector<double> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto part = values[i] ? read(values[i]) : std::vector<double>(at(specs[i].elements()), 0.0);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

}  // namespace

Data moved(Data from, const Data& along, double by) {
  for (std::size_t i = 0; i < from.size(); ++i)
    for (std::size_t j = 0; j < along[i].size(); ++j) from[i][j] += by * along[i][j];
  return from;
}

std::vector<double> first_order(Session& session, const Scalar& f, const Specs& specs, const Data& x) {
  const Values v = leaves_for(session, specs, x);
  return flat(gradient({f(v)}, v), specs);
}

std::vector<double> hessian_vector(Session& session, const Scalar& f, const Specs& specs, const Data& x, const Data& along) {
  const Values v = leaves_for(session, specs, x);
  const Values g = gradient({f(v)}, v, {}, Tape::extend);
  Value dot = leaf(full(session, f32({}), 0));
  for (std::size_t i = 0; i < g.size(); ++i)
    if (g[i]) dot = dot + sum(g[i] * session.tensor(specs[i], std::span<const double>(along[i])));
  return flat(gradient({dot}, v), specs);
}

DifferenceErrors against_differences(const Scalar& f, const Specs& specs, double scale) {
  constexpr double step = 1e-5;
  const auto session = Session::reference();
  const Data x = noise_for(specs, 11, scale), along = noise_for(specs, 77);
  std::vector<double> by_difference;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < x[i].size(); ++j) {
      Data up = x, down = x;
      up[i][j] += step;
      down[i][j] -= step;
      const double above = read(f(leaves_for(*session, specs, up)))[0], below = read(f(leaves_for(*session, specs, down)))[0];
      by_difference.push_back((above - below) / (2 * step));
    }
  auto second = first_order(*session, f, specs, moved(x, along, step));
  const auto down = first_order(*session, f, specs, moved(x, along, -step));
  for (std::size_t i = 0; i < second.size(); ++i) second[i] = (second[i] - down[i]) / (2 * step);
  return {relative_error(first_order(*session, f, specs, x), by_difference), relative_error(hessian_vector(*session, f, specs, x, along), second)};
}

}  // namespace gemel::testing
