// conditional: a choice between two captured programs. Its gradient is a choice between their gradients.
#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/control/control_common.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

using namespace control;

// inputs: predicate, what `then` captured, what `otherwise` captured

Specs conditional_infer(const Specs& in, const Attributes& a) {
  const auto& then = *a.program("then");
  const auto& otherwise = *a.program("otherwise");
  if (in.empty() || in[0] != b8({}))
    throw ShapeError(fmt::format("conditional: predicate is {}; accepted: bool []", in.empty() ? "missing" : to_string(in[0])));
  const std::size_t n = counted("conditional", a, "then_captures", in.size() - 1);
  check_takes("conditional", "then", then, cut(in, 1, 1 + n));
  check_takes("conditional", "otherwise", otherwise, cut(in, 1 + n, in.size()));
  const Specs first = outputs_of(then), second = outputs_of(otherwise);
  if (first.empty()) throw ShapeError("conditional: the branches return nothing; accepted: one value at least");
  if (first.size() != second.size())
    throw ShapeError(fmt::format("conditional: then returns {} values, otherwise {}; accepted: as many", first.size(), second.size()));
  for (std::size_t o = 0; o < first.size(); ++o)
    if (first[o] != second[o])
      throw ShapeError(
          fmt::format("conditional: value {} is {} from then, {} from otherwise; accepted: equal specs", o, to_string(first[o]), to_string(second[o])));
  return first;
}

void conditional_execute(Interpreter&, const Attributes& a, std::span<const Value> in, std::span<const Value> out) {
  const bool yes = read(in[0])[0] != 0;  // the host waits here
  const std::size_t n = at(a.integer("then_captures"));
  in[0].session().executor(a.program(yes ? "then" : "otherwise")).run(yes ? in.subspan(1, n) : in.subspan(1 + n), out);
}

Values choose(Value predicate, const Part& then, const Part& otherwise) {
  return apply(conditional_def(), join(join(Values{std::move(predicate)}, then.operands), otherwise.operands),
               {{"then", then.program}, {"otherwise", otherwise.program}, {"then_captures", static_cast<std::int64_t>(then.operands.size())}});
}

/// One branch of the gradient: gradients of its own inputs that are wanted, zeros for those of the other.
struct Side {
  Shared program;
  Values inputs;
  std::vector<std::size_t> wanted;
};
Side side_of(const Backward& b, const char* name, int from, int to) {
  Side side{b.attributes().program(name), {}, {}};
  for (int i = from; i < to; ++i) {
    if (b.wants(i) && is_floating(b.input_spec(i).dtype)) side.wanted.push_back(side.inputs.size());
    side.inputs.push_back(b.input(i));
  }
  return side;
}

Values conditional_gradient(const Backward& b) {
  Session& session = b.session();
  const int n = static_cast<int>(b.attributes().integer("then_captures"));
  const Side first = side_of(b, "then", 1, 1 + n), second = side_of(b, "otherwise", 1 + n, b.input_count());
  Values arrived;
  std::vector<std::size_t> outputs;
  for (int o = 0; o < b.output_count(); ++o)
    if (b.has_gradient(o)) {
      arrived.push_back(b.gradient(o));
      outputs.push_back(at(o));
    }
  const auto gradient_of = [&](const Side& side, const Values& v) {
    Values seeds(at(b.output_count()));
    for (std::size_t i = 0; i < outputs.size(); ++i) seeds[outputs[i]] = v[side.inputs.size() + i];
    return side.wanted.empty() ? Values() : pull_back(session, *side.program, cut(v, 0, side.inputs.size()), seeds, side.wanted);
  };
  const auto zeros_of = [&](const Side& side) {
    Values out;
    for (std::size_t i : side.wanted) out.push_back(full(session, side.inputs[i].spec(), 0));
    return out;
  };
  const Part then = capture_part(session, {}, join(first.inputs, arrived), [&](const Values& v) { return join(gradient_of(first, v), zeros_of(second)); });
  const Part otherwise =
      capture_part(session, {}, join(second.inputs, arrived), [&](const Values& v) { return join(zeros_of(first), gradient_of(second, v)); });
  Values found(at(b.input_count()));
  if (first.wanted.empty() && second.wanted.empty()) return found;
  const Values chosen = choose(b.input(0), then, otherwise);
  for (std::size_t i = 0; i < first.wanted.size(); ++i) found[1 + first.wanted[i]] = chosen[i];
  for (std::size_t i = 0; i < second.wanted.size(); ++i) found[at(1 + n) + second.wanted[i]] = chosen[first.wanted.size() + i];
  return found;
}

std::vector<Sample> conditional_samples() {
  const auto session = Session::reference();
  const auto then = capture(
      *session, {f32({2, 3}), f32({3})}, [](const Values& v) -> Values { return {exp(v[0]) * v[1]}; }, Outside::passed);
  const auto otherwise = capture(
      *session, {f32({2, 3})}, [](const Values& v) -> Values { return {v[0] * v[0] * v[0]}; }, Outside::passed);
  const Attributes attributes{{"then", std::make_shared<const Program>(then)}, {"otherwise", std::make_shared<const Program>(otherwise)}, {"then_captures", 2}};
  const Specs in{b8({}), f32({2, 3}), f32({3}), f32({2, 3})};
  return {{in, attributes, {uniform(1, 2), Fill{}}}, {in, attributes, {uniform(-2, -1), Fill{}}}};
}

std::vector<Rejected> conditional_rejected() {
  const Sample s = conditional_samples()[0];
  return {{{f32({2}), f32({2, 3}), f32({3}), f32({2, 3})}, s.attributes, "conditional: predicate is float32 [2]; accepted: bool []"},
          {{b8({}), f32({2, 3}), f32({4}), f32({2, 3})}, s.attributes, "conditional: value 1 for then is float32 [4]; accepted: float32 [3]"}};
}

}  // namespace

const OpDef& conditional_def() {
  static const OpDef def{
      .name = "conditional",
      .doc = "One of two captured branches, by a boolean.",
      .inputs = {"predicate", "captured..."},
      .outputs = {"y..."},
      .attributes = {{"then", Type::program, "runs where the predicate holds"},
                     {"otherwise", Type::program, "runs where it does not"},
                     {"then_captures", Type::integer, "how many of the captured values are for `then`; the others are for `otherwise`"}},
      .infer = conditional_infer,
      .cost = no_cost,
      .gradient = conditional_gradient,
      .gradient_reads = {all_inputs},
      .execute = conditional_execute,
      .samples = conditional_samples,
      .rejected = conditional_rejected,
  };
  return def;
}

Values cond(Value predicate, const std::function<Values()>& then, const std::function<Values()>& otherwise) {
  Session& session = predicate.session();
  const Part yes = capture_part(session, {}, {}, [&](const Values&) { return then(); });
  const Part no = capture_part(session, {}, {}, [&](const Values&) { return otherwise(); });
  return choose(std::move(predicate), yes, no);
}

}  // namespace gemel::inline ops
