#include "engine/gradients/composed_gradient.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/ops/ops.h"

namespace gemel {
namespace {

Values gradients_of(const Backward& b, std::span<const int> inputs) {
  Values out(at(b.input_count()));
  std::vector<bool> chosen(out.size());
  for (int i : inputs) chosen[at(i)] = b.wants(i);
  if (std::ranges::none_of(chosen, std::identity())) return out;  // what the definition reads was not kept then
  const GradientMode recorded(b.session(), GradientMode::Mode::on);
  Values in, wanted, made, arrived;
  for (int i = 0; i < b.input_count(); ++i) {
    in.push_back(chosen[at(i)] ? begun_anew(b.input(i)) : b.input(i));
    if (chosen[at(i)]) wanted.push_back(in.back());
  }
  const Values all = b.op().composed(in, b.attributes());
  for (int o = 0; o < b.output_count(); ++o)
    if (b.has_gradient(o) && all[at(o)].wants_gradient()) {
      made.push_back(all[at(o)]);
      arrived.push_back(b.gradient(o));
    }
  if (made.empty()) return out;
  Values found = gradient(made, wanted, arrived, b.tape() == Tape::extend ? Tape::extend : Tape::release);
  for (std::size_t i = 0, w = 0; i < out.size(); ++i)
    if (chosen[i]) out[i] = std::move(found[w++]);
  return out;
}

}  // namespace

Values composed_gradient(const Backward& b) {
  std::vector<int> all(at(b.input_count()));
  std::iota(all.begin(), all.end(), 0);
  return gradients_of(b, all);
}

Values composed_gradient(const Backward& b, std::initializer_list<int> inputs) { return gradients_of(b, inputs); }

Value begun_anew(const Value& x) { return x.wants_gradient() ? apply(reshape_def(), list(x), {{"shape", x.shape()}})[0] : leaf(x); }

}  // namespace gemel
