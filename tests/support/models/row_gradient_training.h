// A table and a layer trained together, the table's gradient dense or of rows: what the tests of such gradients share.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/graph/compile.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/optim/optimizer.h"
#include "tests/support/device/test_device.h"

namespace gemel::testing {

using Numbers = std::vector<double>;

inline Value words_of(Session& session, const Numbers& words) {
  return session.tensor({Shape{std::ssize(words)}, DType::int64}, std::span<const double>(words));
}

struct RowModel : nn::Module {
  static constexpr std::int64_t kRows = 9, kWidth = 5;
  explicit RowModel(GradientForm form, std::optional<std::int64_t> padding_idx = {})
      : table(add<nn::Embedding>("table", kRows, kWidth, padding_idx, form)), layer(add<nn::Linear>("layer", kWidth, 3)) {}
  Value forward(Value words) override { return layer(table(std::move(words))); }
  nn::Embedding& table;
  nn::Linear& layer;
};

/// Steps on the sum of squares of what the model makes of some words.
struct RowTraining {
  Session& session = test_session();
  RowModel model;
  std::unique_ptr<optim::Optimizer> optimizer{};
  Value (*loss)(RowModel&, const Value&) = [](RowModel& m, const Value& words) { return sum(square(m(words))); };
  double max_norm = 0;  // 0: gradients are not clipped

  RowTraining(GradientForm form, std::string_view name, std::optional<std::int64_t> padding_idx = {}) : model(form, padding_idx) {
    session.manual_seed(session.seed());  // trainings that are compared start alike
    model.materialise(session);
    optimizer = optim::make(name, optim::all_in_one(model.parameters()));
  }
  Values gradients(const Value& words) {
    return gradient({loss(model, words)}, values_of(optimizer->parameters()), {}, {.into = optimizer->gradient_places()});
  }
  Values step(const Values& in) {
    Values found = gradients(in[0]);
    if (max_norm > 0) optimizer->clip_norm(found, max_norm);
    optimizer->apply_updates(std::move(found), {in[1]});
    return {};
  }
  /// A step on each list of words, at once or captured.
  void train(const std::vector<Numbers>& steps, bool captured) {
    graph::Compiled compiled = graph::compile(session, [this](const Values& in) { return step(in); });
    for (const Numbers& words : steps) {
      const Values in{words_of(session, words), optimizer->hyper(0.125)[0]};
      captured ? compiled(in) : step(in);
      optimizer->advance();
    }
  }
  Numbers table() const { return read(*model.parameters().find("table.weight")); }
  Numbers slot(std::string_view name) const {
    for (const NamedValue& s : optimizer->state())
      if (s.name == name) return read(s.value);
    return {};
  }
  /// Table, layer and slots, one after the other.
  std::vector<Numbers> everything() const {
    std::vector<Numbers> out;
    for (const NamedValue& p : model.parameters().parameters()) out.push_back(read(p.value));
    for (const NamedValue& s : optimizer->state()) out.push_back(read(s.value));
    return out;
  }
};

/// Words with repetitions; rows 0, 3 and 6 come up never, row 8 in the first and third step only.
inline const std::vector<Numbers> kRowSteps{{4, 2, 4, 8, 4}, {1, 1, 7, 4, 2}, {8, 5, 8, 2, 4}, {7, 4, 4, 4, 1}};

}  // namespace gemel::testing
