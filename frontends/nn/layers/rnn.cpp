#include "frontends/nn/layers/rnn.h"

#include <fmt/format.h>

#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::nn {
namespace {

/// Row i of states [L D, N, H]; empty where there are none.
Value state_at(const Value& states, std::int64_t i) {
  if (!states) return {};
  const Shape& s = states.shape();
  return reshape(slice(states, {i, 0, 0}, {i + 1, s[1], s[2]}), Shape{s[1], s[2]});
}

/// [N, H] of each layer and direction as [L D, N, H].
Value joined(const Values& states) {
  Values rows;
  for (const Value& s : states) rows.push_back(reshape(s, Shape{1, s.shape()[0], s.shape()[1]}));
  return rows.size() == 1 ? rows[0] : concatenate(std::move(rows), 0);
}

}  // namespace

Recurrent::Recurrent(const char* kind, const Sizes& sizes, std::size_t states, const RecurrentOptions& options)
    : kind_(kind), sizes_(sizes), states_(states), options_(options) {
  for (const auto& [name, value] : {std::pair{"input numbers", sizes.input}, {"hidden numbers", sizes.hidden}, {"layers", options.layers}})
    if (value < 1) throw UsageError(fmt::format("{}: {} {} given; accepted: 1 or more", kind, value, name));
  if (!(options.dropout >= 0 && options.dropout <= 1)) throw UsageError(fmt::format("{}: dropout {} given; accepted: 0..1", kind, options.dropout));
  const Initialiser start = uniform_within(default_bound(static_cast<double>(sizes.hidden)));
  const std::int64_t width = sizes.gates * sizes.hidden;
  for (std::int64_t layer = 0; layer < options.layers; ++layer)
    for (std::int64_t direction = 0; direction < directions(); ++direction) {
      const auto add = [&](const char* what, const Shape& shape, FileLayout layout) -> Parameter& {
        return add_parameter(fmt::format("{}_l{}{}", what, layer, direction ? "_reverse" : ""), {shape, DType::float32}, layout, start);
      };
      Parameter& weight_ih = add("weight_ih", {layer ? directions() * sizes.hidden : sizes.input, width}, FileLayout::linear);
      Parameter& weight_hh = add("weight_hh", {sizes.hidden, width}, FileLayout::linear);
      Parameter& bias_ih = add("bias_ih", {width}, FileLayout::same);
      cells_.push_back({weight_ih, weight_hh, bias_ih, add("bias_hh", {width}, FileLayout::same)});
    }
}

std::string Recurrent::describe() const {
  std::string text = fmt::format("{}({}, {}", kind_, sizes_.input, sizes_.hidden);
  if (options_.layers != 1) text += fmt::format(", {} layers", options_.layers);
  if (options_.bidirectional == Bidirectional::yes) text += ", bidirectional";
  if (options_.dropout > 0 && options_.layers > 1) text += fmt::format(", dropout {:g}", options_.dropout);
  return text + ")";
}

void Recurrent::check(const Values& in) const {
  if (in.size() > 2 + states_) throw ShapeError(fmt::format("{}: {} inputs given; accepted: at most {}", kind_, in.size(), 2 + states_));
  const Shape& x = in[0].shape();
  if (x.rank() != 3 || x[2] != sizes_.input) throw ShapeError(fmt::format("{}: x is {}; accepted: [N, T, {}]", kind_, to_string(x), sizes_.input));
  const Shape state{options_.layers * directions(), x[0], sizes_.hidden};
  for (std::size_t i = 2; i < in.size(); ++i)
    if (in[i] && in[i].shape() != state)
      throw ShapeError(fmt::format("{}: the first states are {}; accepted: {}", kind_, to_string(in[i].shape()), to_string(state)));
}

Values Recurrent::forward_values(Values in) {
  check(in);
  in.resize(2 + states_);
  Value x = std::move(in[0]), lengths = std::move(in[1]);
  if (!lengths) lengths = full(x.session(), i64({x.shape()[0]}), static_cast<double>(x.shape()[1]));
  std::vector<Values> last(states_);  // [state][L D]
  for (std::size_t i = 0; i < cells_.size();) {
    if (i > 0 && training() && options_.dropout > 0) x = dropout(std::move(x), options_.dropout);
    Values outputs;
    for (std::int64_t direction = 0; direction < directions(); ++direction, ++i) {
      Values start;
      for (std::size_t s = 0; s < states_; ++s) start.push_back(state_at(in[2 + s], static_cast<std::int64_t>(i)));
      Values out = run({matmul(x, cells_[i].weight_ih.tensor()), lengths, direction ? Reverse::yes : Reverse::no}, cells_[i], std::move(start));
      outputs.push_back(std::move(out[0]));
      for (std::size_t s = 0; s < states_; ++s) last[s].push_back(std::move(out[1 + s]));
    }
    x = outputs.size() == 1 ? std::move(outputs[0]) : concatenate(std::move(outputs), 2);
  }
  Values out{std::move(x)};
  for (const Values& states : last) out.push_back(joined(states));
  return out;
}

LSTM::LSTM(std::int64_t input, std::int64_t hidden, const RecurrentOptions& options, LstmComputation computation)
    : Recurrent("LSTM", {input, hidden, 4}, 2, options), computation_(computation) {}

Values LSTM::run(Sequences in, const Cell& cell, Values start) const {
  const Value &weight = cell.weight_hh.tensor(), bias = cell.bias_ih.tensor() + cell.bias_hh.tensor();
  LstmState first{std::move(start[0]), std::move(start[1])};
  LstmResult out =
      computation_ == LstmComputation::steps ? lstm_steps(in, weight, bias, std::move(first)) : lstm(std::move(in), weight, bias, std::move(first));
  return list(std::move(out.y), std::move(out.state.h), std::move(out.state.c));
}

GRU::GRU(std::int64_t input, std::int64_t hidden, const RecurrentOptions& options) : Recurrent("GRU", {input, hidden, 3}, 1, options) {}

Values GRU::run(Sequences in, const Cell& cell, Values start) const {
  GruResult out = gru(std::move(in), {cell.weight_hh.tensor(), cell.bias_ih.tensor(), cell.bias_hh.tensor()}, std::move(start[0]));
  return list(std::move(out.y), std::move(out.h));
}

}  // namespace gemel::nn
