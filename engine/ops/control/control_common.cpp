#include "engine/ops/control/control_common.h"

#include <fmt/format.h>

#include <array>

#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "engine/passes/passes.h"

namespace gemel::control {

Cost no_cost(const Problem&) { return {}; }

Specs outputs_of(const Program& program) {
  Specs out;
  for (const auto& u : program.outputs) out.push_back(u.spec);
  return out;
}

std::size_t counted(const char* op, const Attributes& a, const char* name, std::size_t most) {
  const std::int64_t n = a.integer(name);
  if (n < 0 || at(n) > most) throw ShapeError(fmt::format("{}: {} is {}; accepted: 0 to {}", op, name, n, most));
  return at(n);
}

Values or_zeros(Session& session, Values values, const Specs& like) {
  for (std::size_t i = 0; i < like.size(); ++i)
    if (!values[i]) values[i] = full(session, like[i], 0);
  return values;
}

Part capture_part(Session& session, Specs arguments, const Values& operands, const Body& f) {
  for (const Value& v : operands) arguments.push_back(v.spec());
  Program program = capture(session, arguments, f, Outside::passed);
  const Values captured = std::move(program.captured);
  program.captured.clear();
  // Only passes that leave operators as they are: a body is differentiated by applying it again.
  program = merge_common_subexpressions(session, eliminate_dead_code(session, std::move(program)));
  return {std::make_shared<const Program>(std::move(program)), join(operands, captured)};
}

Values pull_back(Session& session, const Program& program, const Values& inputs, const Values& output_gradients, const std::vector<std::size_t>& wanted) {
  const GradientMode on(session, GradientMode::Mode::on);
  Values targets;
  Specs specs;
  for (std::size_t i : wanted) {
    targets.push_back(inputs[i]);
    specs.push_back(inputs[i].spec());
  }
  const Values outputs = replay(session, program, inputs);
  return or_zeros(session, gradient(outputs, targets, output_gradients, Tape::extend), specs);
}

void check_takes(const char* op, const char* part, const Program& program, const Specs& given) {
  if (program.inputs.size() != given.size())
    throw ShapeError(fmt::format("{}: {} takes {} values, {} given; accepted: as many", op, part, program.inputs.size(), given.size()));
  for (std::size_t i = 0; i < given.size(); ++i)
    if (program.inputs[i].spec != given[i])
      throw ShapeError(fmt::format("{}: value {} for {} is {}; accepted: {}", op, i, part, to_string(given[i]), to_string(program.inputs[i].spec)));
}

Value number(Session& session, std::int64_t value) {
  const std::array out{session.empty(i64({}), "trip")};
  const Attributes attributes{{"shape", Shape{}}, {"dtype", DType::int64}, {"value", static_cast<double>(value)}};
  session.interpreter().compute(full_def(), attributes, {}, out);
  return out[0];
}

namespace {

Specs arguments_of(const Loop& loop) {  // of its body, what it captured aside
  Specs out{i64({})};
  for (const Value& v : loop.carried) out.push_back(v.spec());
  for (const Value& v : loop.rows) {
    Spec row = v.spec();
    row.shape = Shape(row.shape.span().subspan(1));
    out.push_back(row);
  }
  return out;
}

/// Rows [trip] of everything that the body was given to carry, by running the loop once more.
Values history_of(Session& session, const Loop& loop) {
  const std::size_t k = loop.carried.size();
  const Part again = capture_part(session, arguments_of(loop), loop.captured,
                                  [&](const Values& v) { return join(cut(replay(session, *loop.body, v), 0, k), cut(v, 1, 1 + k)); });
  Loop forward = loop;
  forward.body = again.program;
  forward.captured = again.operands;
  return cut(scan(forward), k, 2 * k);
}

/// Which inputs of the body are differentiated for: what it carries if floating, then what is wanted.
struct Wanted {
  std::vector<std::size_t> carried, rows, captured;  // by index in the loop
  std::vector<std::size_t> inputs;                   // by index in the body's inputs, in this order
};
Wanted wanted_of(const Loop& loop, const LoopWants& wants) {
  Wanted w;
  const std::size_t k = loop.carried.size(), s = loop.rows.size();
  for (std::size_t j = 0; j < k; ++j)
    if (is_floating(loop.carried[j].dtype())) w.carried.push_back(j);
  for (std::size_t j = 0; j < s; ++j)
    if (wants.rows[j] && is_floating(loop.rows[j].dtype())) w.rows.push_back(j);
  for (std::size_t j = 0; j < loop.captured.size(); ++j)
    if (wants.captured[j] && is_floating(loop.captured[j].dtype())) w.captured.push_back(j);
  for (std::size_t j : w.carried) w.inputs.push_back(1 + j);
  for (std::size_t j : w.rows) w.inputs.push_back(1 + k + j);
  for (std::size_t j : w.captured) w.inputs.push_back(1 + k + s + j);
  return w;
}

Values chosen(const Values& from, const std::vector<std::size_t>& indices) {
  Values out;
  for (std::size_t i : indices) out.push_back(from[i]);
  return out;
}

void spread(const Values& found, std::size_t from, const std::vector<std::size_t>& indices, Values& to) {
  for (std::size_t i = 0; i < indices.size(); ++i) to[indices[i]] = found[from + i];
}

}  // namespace

LoopGradients gradients_of(const Loop& loop, const Values& carried, const Values& stacks, const LoopWants& wants) {
  Session& session = loop.count.session();
  const std::size_t k = loop.carried.size(), s = loop.rows.size();
  const Wanted wanted = wanted_of(loop, wants);
  const std::size_t c = wanted.carried.size(), a = wanted.captured.size();
  Loop back = loop;
  back.direction = loop.direction == Direction::up ? Direction::down : Direction::up;
  const Values last = chosen(carried, wanted.carried), summed = chosen(loop.captured, wanted.captured);
  back.carried = join(or_zeros(session, last, specs_of(chosen(loop.carried, wanted.carried))), or_zeros(session, Values(a), specs_of(summed)));
  back.rows = join(history_of(session, loop), loop.rows);
  std::vector<std::size_t> arrived;
  for (std::size_t m = 0; m < stacks.size(); ++m)
    if (stacks[m]) arrived.push_back(m);
  back.rows = join(back.rows, chosen(stacks, arrived));
  // v: trip, gradients of what is carried, sums for what was captured; then rows: carried, the loop's, gradients of stacks; captured
  const Part body = capture_part(session, arguments_of(back), loop.captured, [&](const Values& v) {
    const std::size_t rows = 1 + c + a, captures = rows + k + s + arrived.size();
    const Values inputs = join(join(Values{v[0]}, cut(v, rows, rows + k + s)), cut(v, captures, captures + loop.captured.size()));
    Values seeds(k + stacks.size());
    for (std::size_t j = 0; j < c; ++j) seeds[wanted.carried[j]] = v[1 + j];
    for (std::size_t j = 0; j < arrived.size(); ++j) seeds[k + arrived[j]] = v[rows + k + s + j];
    const Values d = pull_back(session, *loop.body, inputs, seeds, wanted.inputs);
    Values out = cut(d, 0, c);
    for (std::size_t j = 0; j < a; ++j) out.push_back(add(v[1 + c + j], d[c + wanted.rows.size() + j]));
    return join(out, cut(d, c, c + wanted.rows.size()));
  });
  back.body = body.program;
  back.captured = body.operands;
  const Values found = scan(back);
  LoopGradients out{Values(k), Values(s), Values(loop.captured.size())};
  spread(found, 0, wanted.carried, out.carried);
  spread(found, c, wanted.captured, out.captured);
  spread(found, c + a, wanted.rows, out.rows);
  return out;
}

}  // namespace gemel::control
