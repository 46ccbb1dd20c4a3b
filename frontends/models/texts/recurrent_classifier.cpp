#include "frontends/models/texts/recurrent_classifier.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/ops/ops.h"
#include "frontends/models/config_file.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/multi_head_attention.h"
#include "frontends/nn/layers/parameterless_layers.h"

namespace gemel::models {
namespace {

struct Names {
  const char *model, *module;
};
constexpr std::array<Names, 2> kNames{{{"lstm_classifier", "LstmClassifier"}, {"gru_classifier", "GruClassifier"}}};  // [RecurrentKind]
const Names& names_of(RecurrentKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

constexpr RecurrentClassifierConfig sized(std::int64_t layers, std::int64_t embedding, std::int64_t hidden) {
  return {.embedding_size = embedding, .hidden_size = hidden, .num_hidden_layers = layers};
}
constexpr std::array<RecurrentClassifierConfig, 4> kConfigs{sized(1, 128, 128), sized(1, 256, 256), sized(2, 256, 256), sized(2, 256, 512)};

void check(const char* name, const RecurrentClassifierConfig& c) {
  check_size(name, "vocab_size", c.vocab_size, kMostTokens);
  check_size(name, "embedding_size", c.embedding_size, kWidest);
  check_size(name, "hidden_size", c.hidden_size, kWidest);
  check_size(name, "num_hidden_layers", c.num_hidden_layers, kMostLayers);
  if (c.pad_token_id < 0 || c.pad_token_id >= c.vocab_size)
    throw UsageError(fmt::format("{}: pad_token_id is {}; accepted: 0..{}", name, c.pad_token_id, c.vocab_size - 1));
}

void take(const char* name, const ConfigFile& file, RecurrentClassifierConfig& c) {
  file.require("model_type", {name});
  file.take("vocab_size", c.vocab_size);
  file.take("embedding_size", c.embedding_size);
  file.take("hidden_size", c.hidden_size);
  file.take("num_hidden_layers", c.num_hidden_layers);
  file.take("pad_token_id", c.pad_token_id);
  file.take("embedding_dropout_prob", c.embedding_dropout_prob);
  file.take("hidden_dropout_prob", c.hidden_dropout_prob);
  file.take("initializer_range", c.initializer_range);
}

class RecurrentClassifier : public nn::Module {
 public:
  RecurrentClassifier(RecurrentKind kind, const RecurrentClassifierConfig& c, std::int64_t classes, nn::LstmComputation computation)
      : kind_(kind),
        padding_(c.pad_token_id),
        embedding_(add<nn::Embedding>("embedding", c.vocab_size, c.embedding_size, c.pad_token_id)),
        embedding_dropout_(add<nn::Dropout>("embedding_dropout", c.embedding_dropout_prob)),
        layer_(layer(c, computation)),
        dropout_(add<nn::Dropout>("dropout", c.hidden_dropout_prob)),
        classifier_(add<nn::Linear>("classifier", 2 * 2 * c.hidden_size, classes)) {
    embedding_.start_normal(c.initializer_range);
  }
  std::string describe() const override { return names_of(kind_).module; }

 protected:
  Values forward_values(Values in) override {
    if (in.size() != 2 || in[0].shape().rank() != 2 || in[1].shape() != in[0].shape() || in[0].shape()[1] == 0)
      throw ShapeError(fmt::format("{}: accepted: ids and types, int64 [N, T] each, of at least one step", names_of(kind_).model));
    const Value lengths = lengths_of(in[0]);
    Value states = layer_({embedding_dropout_(embedding_(std::move(in[0]))), lengths})[0];
    return {classifier_(dropout_(pooled(std::move(states), lengths)))};
  }

 private:
  nn::Recurrent& layer(const RecurrentClassifierConfig& c, nn::LstmComputation computation) {
    const nn::RecurrentOptions options{.layers = c.num_hidden_layers, .bidirectional = nn::Bidirectional::yes, .dropout = c.hidden_dropout_prob};
    if (kind_ == RecurrentKind::gru) return add<nn::GRU>("gru", c.embedding_size, c.hidden_size, options);
    return add<nn::LSTM>("lstm", c.embedding_size, c.hidden_size, options, computation);
  }
  /// 1..T of the steps of a text, int64 [1, T].
  static Value ends(Session& session, std::int64_t steps) { return reshape(nn::places(session, steps) + 1, Shape{1, steps}); }
  /// Where the last id ends that is not padding: int64 [N].
  Value lengths_of(const Value& ids) const {
    Session& session = ids.session();
    const auto number = [&](std::int64_t value) { return full(session, {Shape{}, ids.dtype()}, static_cast<double>(value)); };
    return max(where(equal(ids, number(padding_)), number(0), ends(session, ids.shape()[1])), {1});
  }
  /// The largest and the mean of each hidden number over a text's steps: [N, 2 H] of both directions after each other.
  static Value pooled(Value states, const Value& lengths) {
    constexpr double kLeast = -1;  // of a state: an LSTM's is a product of a sigmoid and a tanh, a GRU's a mean of such
    Session& session = states.session();
    const std::int64_t N = states.shape()[0], T = states.shape()[1];
    const Value is_text = reshape(less_equal(ends(session, T), reshape(lengths, Shape{N, 1})), Shape{N, T, 1});
    Value largest = max(where(is_text, states, full(session, f32({1}), kLeast)), {1});
    const Value count = maximum(cast(reshape(lengths, Shape{N, 1}), DType::float32), full(session, f32({1}), 1));
    return concatenate({std::move(largest), sum(std::move(states), {1}) / count}, 1);  // states behind a text are 0
  }

  RecurrentKind kind_;
  std::int64_t padding_;
  nn::Embedding& embedding_;
  nn::Dropout& embedding_dropout_;
  nn::Recurrent& layer_;
  nn::Dropout& dropout_;
  nn::Linear& classifier_;
};

}  // namespace

RecurrentClassifierConfig recurrent_classifier_config(RecurrentKind kind, const std::string& name_or_file) {
  const char* name = names_of(kind).model;
  return config_of(
      name, name_or_file, kConfigs, [name](const ConfigFile& file, RecurrentClassifierConfig& c) { take(name, file, c); },
      [name](const RecurrentClassifierConfig& c) { check(name, c); });
}

std::unique_ptr<nn::Module> recurrent_classifier(RecurrentKind kind, const RecurrentClassifierConfig& config, std::int64_t classes,
                                                 nn::LstmComputation computation) {
  check(names_of(kind).model, config);
  if (classes < 1) throw UsageError(fmt::format("{}: {} classes given; accepted: 1 or more", names_of(kind).model, classes));
  return std::make_unique<RecurrentClassifier>(kind, config, classes, computation);
}

}  // namespace gemel::models
