// while and scan: loops over a captured body. The gradient of while is the loop once more, as a scan that stacks what is
// carried, then a scan downwards that differentiates the body at each row. Scans are closed under differentiation.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/base/error.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/control/control_common.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

using namespace control;

void check_carried(const char* op, const Specs& carried, const Specs& returned) {
  if (returned.size() < carried.size())
    throw ShapeError(fmt::format("{}: the body returns {} values; accepted: what is carried, {} values", op, returned.size(), carried.size()));
  for (std::size_t i = 0; i < carried.size(); ++i)
    if (returned[i] != carried[i])
      throw ShapeError(fmt::format("{}: the body returns {} for carried value {}; accepted: {}", op, to_string(returned[i]), i, to_string(carried[i])));
}

void copy_all(Interpreter& interpreter, std::span<const Value> from, std::span<const Value> to) {
  for (std::size_t i = 0; i < to.size(); ++i) interpreter.copy(from[i], to[i]);
}

// ---- while; inputs: carried, what the condition captured, what the body captured

Specs while_infer(const Specs& in, const Attributes& a) {
  const std::size_t k = counted("while", a, "carried", in.size());
  const std::size_t p = counted("while", a, "condition_captures", in.size() - k);
  if (k == 0) throw ShapeError("while: nothing is carried; accepted: one value at least");
  if (a.integer("max_trips") < 0) throw ShapeError(fmt::format("while: max_trips is {}; accepted: 0 or more", a.integer("max_trips")));
  const Specs carried = cut(in, 0, k), decided = outputs_of(*a.program("condition")), returned = outputs_of(*a.program("body"));
  check_takes("while", "condition", *a.program("condition"), cut(in, 0, k + p));
  check_takes("while", "body", *a.program("body"), join(join(Specs{i64({})}, carried), cut(in, k + p, in.size())));
  if (decided != Specs{b8({})})
    throw ShapeError(fmt::format("while: the condition returns {}; accepted: one bool []", decided.empty() ? "nothing" : to_string(decided[0])));
  check_carried("while", carried, returned);
  return join(Specs{i64({})}, carried);
}

void while_execute(Interpreter& interpreter, const Attributes& a, std::span<const Value> in, std::span<const Value> out) {
  Session& session = in[0].session();
  const std::size_t k = at(a.integer("carried")), p = at(a.integer("condition_captures"));
  Executor& condition = session.executor(a.program("condition"));
  Executor& body = session.executor(a.program("body"));
  const Values given(in.begin(), in.end());
  Values now = cut(given, 0, k);
  const Values for_condition = cut(given, k, k + p), for_body = cut(given, k + p, given.size());
  std::int64_t trip = 0;
  for (; trip < a.integer("max_trips"); ++trip) {
    if (read(condition.run(join(now, for_condition))[0])[0] == 0) break;  // the host waits here
    now = cut(body.run(join(join(Values{number(session, trip)}, now), for_body)), 0, k);
  }
  interpreter.copy(number(session, trip), out[0]);
  copy_all(interpreter, now, out.subspan(1));
}

Values while_gradient(const Backward& b) {
  const Attributes& a = b.attributes();
  const int k = static_cast<int>(a.integer("carried")), p = static_cast<int>(a.integer("condition_captures"));
  Loop loop{.body = a.program("body"), .count = b.output(0), .rows_kept = a.integer("max_trips")};
  LoopWants wants;
  for (int i = 0; i < b.input_count(); ++i) {
    if (i < k) loop.carried.push_back(b.input(i));
    if (i < k + p) continue;
    loop.captured.push_back(b.input(i));
    wants.captured.push_back(b.wants(i));
  }
  Values arrived(at(k));
  for (int i = 0; i < k; ++i)
    if (b.has_gradient(1 + i)) arrived[at(i)] = b.gradient(1 + i);
  const LoopGradients found = gradients_of(loop, arrived, {}, wants);
  return join(join(found.carried, Values(at(p))), found.captured);  // a decision has no gradient
}

// ---- scan; inputs: count, carried, rows, what the body captured

Direction direction_of(const Attributes& a) { return a.boolean("down") ? Direction::down : Direction::up; }

Specs scan_infer(const Specs& in, const Attributes& a) {
  if (in.empty() || in[0] != i64({})) throw ShapeError(fmt::format("scan: count is {}; accepted: int64 []", in.empty() ? "missing" : to_string(in[0])));
  const std::size_t k = counted("scan", a, "carried", in.size() - 1), s = counted("scan", a, "rows", in.size() - 1 - k);
  const std::int64_t kept = a.integer("rows_kept");
  if (kept < 0) throw ShapeError(fmt::format("scan: rows_kept is {}; accepted: 0 or more", kept));
  Specs arguments = join(Specs{i64({})}, cut(in, 1, 1 + k));
  for (std::size_t r = 1 + k; r < 1 + k + s; ++r) {
    if (in[r].shape.empty() || in[r].shape[0] != kept)
      throw ShapeError(fmt::format("scan: rows {} are {}; accepted: {} rows", r - 1 - k, to_string(in[r]), kept));
    arguments.push_back({Shape(in[r].shape.span().subspan(1)), in[r].dtype});
  }
  check_takes("scan", "body", *a.program("body"), join(arguments, cut(in, 1 + k + s, in.size())));
  Specs out = outputs_of(*a.program("body"));
  check_carried("scan", cut(in, 1, 1 + k), out);
  for (std::size_t o = k; o < out.size(); ++o) {
    Shape stacked{kept};
    for (std::int64_t n : out[o].shape) stacked.push_back(n);
    out[o].shape = stacked;
  }
  return out;
}

Value row_of(const Value& stack, std::int64_t i) {
  const Spec row{Shape(stack.shape().span().subspan(1)), stack.dtype()};
  return stack.view(row, i * row.elements());
}

void clear_rows(Interpreter& interpreter, const Value& stack, std::int64_t from) {
  Spec rest = stack.spec();
  rest.shape[0] -= from;
  const std::int64_t row = from ? stack.elements() / stack.shape()[0] : 0;
  const std::array out{stack.view(rest, from * row)};
  interpreter.compute(full_def(), {{"shape", rest.shape}, {"dtype", rest.dtype}, {"value", 0.0}}, {}, out);
}

void scan_execute(Interpreter& interpreter, const Attributes& a, std::span<const Value> in, std::span<const Value> out) {
  Session& session = in[0].session();
  const std::size_t k = at(a.integer("carried")), s = at(a.integer("rows"));
  const std::int64_t kept = a.integer("rows_kept");
  const std::int64_t count = std::clamp(static_cast<std::int64_t>(read(in[0])[0]), std::int64_t{0}, kept);  // the host waits here
  Executor& body = session.executor(a.program("body"));
  const Values given(in.begin(), in.end()), captured = cut(given, 1 + k + s, given.size());
  Values now = cut(given, 1, 1 + k);
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t i = direction_of(a) == Direction::up ? n : count - 1 - n;
    Values arguments = join(Values{number(session, i)}, now);
    for (std::size_t r = 0; r < s; ++r) {  // copied: a kernel wants aligned memory, a row need not be
      const Value row = row_of(in[1 + k + r], i);
      arguments.push_back(session.empty(row.spec(), "row"));
      interpreter.copy(row, arguments.back());
    }
    const Values made = body.run(join(std::move(arguments), captured));
    for (std::size_t o = k; o < out.size(); ++o) interpreter.copy(made[o], row_of(out[o], i));
    now = cut(made, 0, k);
  }
  for (std::size_t o = k; o < out.size(); ++o)
    if (count < kept) clear_rows(interpreter, out[o], count);
  copy_all(interpreter, now, out.first(k));
}

Values scan_gradient(const Backward& b) {
  const Attributes& a = b.attributes();
  const int k = static_cast<int>(a.integer("carried")), s = static_cast<int>(a.integer("rows"));
  Loop loop{.body = a.program("body"), .count = b.input(0), .rows_kept = a.integer("rows_kept"), .direction = direction_of(a)};
  LoopWants wants;
  for (int i = 1; i < b.input_count(); ++i) {
    Values& to = i <= k ? loop.carried : i <= k + s ? loop.rows : loop.captured;
    to.push_back(b.input(i));
    if (i > k) (i <= k + s ? wants.rows : wants.captured).push_back(b.wants(i));
  }
  Values carried(at(k)), stacks(at(b.output_count() - k));
  for (int o = 0; o < b.output_count(); ++o)
    if (b.has_gradient(o)) (o < k ? carried[at(o)] : stacks[at(o - k)]) = b.gradient(o);
  const LoopGradients found = gradients_of(loop, carried, stacks, wants);
  return join(join(join(Values(1), found.carried), found.rows), found.captured);
}

// ---- samples

/// c = tanh(c w + row), stacking c * row.
std::vector<Sample> scan_samples() {
  const auto session = Session::reference();
  const auto body = std::make_shared<const Program>(capture(
      *session, {i64({}), f32({2, 3}), f32({3}), f32({3, 3})},
      [](const Values& v) -> Values {
        const Value next = tanh(matmul(v[1], v[3]) + v[2]);
        return {next, next * v[2]};
      },
      Outside::passed));
  const auto sample = [&](std::int64_t rows, int count, bool down) {
    return Sample{{i64({}), f32({2, 3}), {Shape{rows, 3}, DType::float32}, f32({3, 3})},
                  {{"body", body}, {"carried", 1}, {"rows", 1}, {"rows_kept", rows}, {"down", down}},
                  {integers(count, count + 1), Fill{}}};
  };
  return {sample(4, 4, false), sample(4, 2, false), sample(4, 3, true), sample(3, 0, false), sample(0, 0, false)};
}

std::vector<Rejected> scan_rejected() {
  const Sample s = scan_samples()[0];
  return {{{i32({}), f32({2, 3}), f32({4, 3}), f32({3, 3})}, s.attributes, "scan: count is int32 []; accepted: int64 []"},
          {{i64({}), f32({2, 3}), f32({5, 3}), f32({3, 3})}, s.attributes, "scan: rows 0 are float32 [5, 3]; accepted: 4 rows"}};
}

/// c = tanh(c w) while the count, carried too, is below a captured number.
std::vector<Sample> while_samples() {
  const auto session = Session::reference();
  const auto condition = std::make_shared<const Program>(capture(
      *session, {f32({2, 3}), i64({}), i64({})}, [](const Values& v) -> Values { return {less(v[1], v[2])}; }, Outside::passed));
  const auto body = std::make_shared<const Program>(capture(
      *session, {i64({}), f32({2, 3}), i64({}), f32({3, 3})},
      [](const Values& v) -> Values {
        return {tanh(matmul(v[1], v[3])), v[2] + full(v[2].session(), i64({}), 1)};
      },
      Outside::passed));
  const auto sample = [&](int trips, std::int64_t most) {
    return Sample{{f32({2, 3}), i64({}), i64({}), f32({3, 3})},
                  {{"condition", condition}, {"body", body}, {"carried", 2}, {"condition_captures", 1}, {"max_trips", most}},
                  {Fill{}, integers(0, 1), integers(trips, trips + 1), Fill{}}};
  };
  return {sample(3, 5), sample(1, 1), sample(0, 2), sample(9, 4)};
}

std::vector<Rejected> while_rejected() {
  const Sample s = while_samples()[0];
  return {{{f32({2, 4}), i64({}), i64({}), f32({3, 3})}, s.attributes, "while: value 0 for condition is float32 [2, 4]; accepted: float32 [2, 3]"}};
}

}  // namespace

const OpDef& while_def() {
  static const OpDef def{
      .name = "while",
      .doc = "Runs a captured body on what it carries while a captured condition holds.",
      .inputs = {"carried_and_captured..."},
      .outputs = {"trips", "carried..."},
      .attributes = {{"condition", Type::program, "takes what is carried and its captures, gives a boolean"},
                     {"body", Type::program, "takes the trip, what is carried and its captures, gives what is carried"},
                     {"carried", Type::integer, "how many values are carried"},
                     {"condition_captures", Type::integer, "how many captured values are for the condition; the others are for the body"},
                     {"max_trips", Type::integer, "the loop ends after so many trips at the latest"}},
      .infer = while_infer,
      .cost = no_cost,
      .gradient = while_gradient,
      .gradient_reads = {all_inputs | outputs(0)},
      .execute = while_execute,
      .samples = while_samples,
      .rejected = while_rejected,
  };
  return def;
}

const OpDef& scan_def() {
  static const OpDef def{
      .name = "scan",
      .doc = "Runs a captured body a counted number of times over rows, stacking what it gives beside what it carries.",
      .inputs = {"count", "carried_rows_and_captured..."},
      .outputs = {"carried_and_stacked..."},
      .attributes = {{"body", Type::program, "takes the trip, what is carried, a row of each stack and its captures"},
                     {"carried", Type::integer, "how many values are carried"},
                     {"rows", Type::integer, "how many stacks are given, of which a trip gets one row"},
                     {"rows_kept", Type::integer, "rows of every stack; trips at most"},
                     {"down", Type::boolean, "whether trips count down to 0"}},
      .infer = scan_infer,
      .cost = no_cost,
      .gradient = scan_gradient,
      .gradient_reads = {all_inputs},
      .execute = scan_execute,
      .samples = scan_samples,
      .rejected = scan_rejected,
  };
  return def;
}

Values while_loop(const std::function<Value(const Values&)>& condition, const std::function<Values(const Values&)>& body, Values carried,
                  std::int64_t max_trips) {
  if (carried.empty()) throw ShapeError("while: nothing is carried; accepted: one value at least");
  Session& session = carried[0].session();
  const Specs specs = specs_of(carried);
  const Part decide = capture_part(session, specs, {}, [&](const Values& v) -> Values { return {condition(v)}; });
  const Part run = capture_part(session, join(Specs{i64({})}, specs), {}, [&](const Values& v) {
    Random& random = session.random();
    random.derive([outside = random, trip = v[0]]() mutable { return fold_in(outside.state(), trip); });
    return body(cut(v, 1, v.size()));
  });
  const auto k = static_cast<std::int64_t>(carried.size()), p = static_cast<std::int64_t>(decide.operands.size());
  Values out = apply(while_def(), join(join(std::move(carried), decide.operands), run.operands),
                     {{"condition", decide.program}, {"body", run.program}, {"carried", k}, {"condition_captures", p}, {"max_trips", max_trips}});
  out.erase(out.begin());
  return out;
}

}  // namespace gemel::inline ops

namespace gemel::control {

Values scan(const Loop& loop) {
  return apply(scan_def(), join(join(join(Values{loop.count}, loop.carried), loop.rows), loop.captured),
               {{"body", loop.body},
                {"carried", static_cast<std::int64_t>(loop.carried.size())},
                {"rows", static_cast<std::int64_t>(loop.rows.size())},
                {"rows_kept", loop.rows_kept},
                {"down", loop.direction == Direction::down}});
}

}  // namespace gemel::control
