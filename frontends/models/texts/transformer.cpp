#include "frontends/models/texts/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/ops/ops.h"
#include "frontends/models/config_file.h"
#include "frontends/models/texts/transformer_layers.h"
#include "frontends/nn/layers/multi_head_attention.h"

namespace gemel::models {
namespace {

constexpr TransformerConfig sized(std::int64_t layers, std::int64_t width) {
  constexpr std::int64_t kWidthOfHead = 64, kFeedForward = 4;
  return {.d_model = width, .nhead = width / kWidthOfHead, .num_encoder_layers = layers, .num_decoder_layers = layers, .dim_feedforward = kFeedForward * width};
}
constexpr std::array<TransformerConfig, 4> kConfigs{sized(2, 128), sized(4, 256), sized(4, 384), sized(6, 512)};

void check(const TransformerConfig& c) {
  check_size("transformer", "vocab_size", c.vocab_size, kMostTokens);
  check_size("transformer", "d_model", c.d_model, kWidest);
  check_size("transformer", "nhead", c.nhead, kWidest);
  check_size("transformer", "num_encoder_layers", c.num_encoder_layers, kMostLayers);
  check_size("transformer", "num_decoder_layers", c.num_decoder_layers, kMostLayers);
  check_size("transformer", "dim_feedforward", c.dim_feedforward, kWidest);
  check_size("transformer", "max_length", c.max_length, kMostPositions);
  if (c.d_model % c.nhead != 0) throw UsageError(fmt::format("transformer: {} heads share a width of {}; accepted: heads that divide it", c.nhead, c.d_model));
  for (const auto& [name, id] : {std::pair{"pad_token_id", c.pad_token_id}, {"bos_token_id", c.bos_token_id}, {"eos_token_id", c.eos_token_id}})
    if (id < 0 || id >= c.vocab_size) throw UsageError(fmt::format("transformer: {} is {}; accepted: 0..{}", name, id, c.vocab_size - 1));
}

/// y[t, 2i] = sin(t / 10000^(2i / D)), y[t, 2i + 1] = cos(the same). Each number is computed once.
class Sinusoids {
 public:
  explicit Sinusoids(std::int64_t width) : width_(width) {}
  /// float32 [places, D], made anew as a graph keeps what it is captured with.
  Value first(Session& session, std::int64_t places) {
    for (std::int64_t t = std::ssize(table_) / width_; t < places; ++t)
      for (std::int64_t k = 0; k < width_; ++k) table_.push_back(at_place(t, k));
    return session.tensor(f32({places, width_}), std::as_bytes(std::span(table_).first(at(places * width_))));
  }

 private:
  float at_place(std::int64_t t, std::int64_t k) const {
    constexpr double kLongest = 10000;  // of the wavelengths, over 2 pi
    const double angle = static_cast<double>(t) / std::pow(kLongest, static_cast<double>(k - k % 2) / static_cast<double>(width_));
    return static_cast<float>(k % 2 == 0 ? std::sin(angle) : std::cos(angle));
  }
  std::int64_t width_;
  std::vector<float> table_;  // of the places that were asked for
};

class Transformer : public nn::Module {
 public:
  explicit Transformer(const TransformerConfig& c)
      : config_(c),
        embedding_(add<nn::Embedding>("embedding", c.vocab_size, c.d_model)),
        dropout_(add<nn::Dropout>("dropout", c.dropout)),
        encoder_(add<TransformerEncoder>("encoder", c)),
        decoder_(add<TransformerDecoder>("decoder", c)),
        output_(add<nn::TiedLinear>("output", embedding_, nn::Bias::no)) {
    embedding_.start_normal(1 / std::sqrt(static_cast<double>(c.d_model)));  // so that logits start with a variance of 1
  }
  std::string describe() const override { return "Transformer"; }

 protected:
  Values forward_values(Values in) override {
    const bool fits =
        in.size() <= 2 && std::ranges::all_of(in, [&](const Value& ids) { return ids.shape().rank() == 2 && ids.shape()[0] == in[0].shape()[0]; });
    if (!fits) throw ShapeError("transformer: accepted: a source int64 [N, S], alone or with a target int64 [N, T]");
    const TransformerMemory memory = remembered(std::move(in[0]));
    if (in.size() == 1) return translation(memory);
    const std::int64_t length = in[1].shape()[1];
    Value x = embedded(std::move(in[1]), sinusoids_.first(memory.bias.session(), length));
    return {output_(decoder_.read(std::move(x), memory))};
  }

 private:
  /// @param places  what tells places apart, [T, D]  @return [N, T, D]
  Value embedded(Value ids, Value places) { return dropout_(embedding_(std::move(ids)) * std::sqrt(static_cast<double>(config_.d_model)) + std::move(places)); }
  TransformerMemory remembered(Value source) {
    Value bias = nn::padding_bias(source, config_.pad_token_id);
    const std::int64_t length = source.shape()[1];
    Session& session = source.session();
    const Value encoded = encoder_({embedded(std::move(source), sinusoids_.first(session, length)), bias})[0];
    return decoder_.memory(encoded, std::move(bias));
  }
  /// What is carried from step to step.
  struct Written {
    Value count;   // tokens so far, int64 []
    Value last;    // int64 [N, 1]
    Value open;    // whether a row has not ended, bool [N, 1]
    Value tokens;  // int64 [N, max_length]
    Value finite;  // whether the logits that a row's were chosen by are, bool [N, 1]
    Values cache;  // of the decoder
  };
  static Written written(const Values& v) { return {v[0], v[1], v[2], v[3], v[4], Values(v.begin() + 5, v.end())}; }
  static Values carried(Written w) {
    Values out = list(std::move(w.count), std::move(w.last), std::move(w.open), std::move(w.tokens), std::move(w.finite));
    out.insert(out.end(), std::make_move_iterator(w.cache.begin()), std::make_move_iterator(w.cache.end()));
    return out;
  }
  Value token(Session& session, std::int64_t id) const { return full(session, i64({}), static_cast<double>(id)); }

  Values translation(const TransformerMemory& memory) {
    Session& session = memory.bias.session();
    const std::int64_t n = memory.bias.shape()[0], most = config_.max_length;
    const auto all = [&](const Shape& shape, std::int64_t id) { return full(session, {shape, DType::int64}, static_cast<double>(id)); };
    Written begin{token(session, 0),
                  all({n, 1}, config_.bos_token_id),
                  full(session, b8({n, 1}), 1),
                  all({n, most}, config_.pad_token_id),
                  full(session, b8({n, 1}), 1),
                  {}};
    for (std::size_t i = 0; i < memory.keys_and_values.size(); ++i) begin.cache.push_back(full(session, f32({n, most, config_.d_model}), 0));
    const Value places = sinusoids_.first(session, most), numbers = nn::places(session, most);
    const auto some_open = [&](const Values& v) { return less(full(session, f32({}), 0), sum(cast(written(v).open, DType::float32))); };
    const auto step = [&](const Values& v) { return carried(next(written(v), memory, places, numbers)); };
    Written end = written(while_loop(some_open, step, carried(std::move(begin)), most));
    return list(std::move(end.tokens), std::move(end.finite));
  }
  /// @param places  of embedded(), of all of max_length  @param numbers  0, 1, ... of the places
  Written next(Written before, const TransformerMemory& memory, const Value& places, const Value& numbers) {
    Session& session = numbers.session();
    const Value here = equal(numbers, before.count), place = reshape(before.count, Shape{1});
    Values made = decoder_.step(embedded(before.last, gather(places, place)), memory,
                                {before.cache, nn::causal_bias(place, numbers.elements()), reshape(here, Shape{numbers.elements(), 1})});
    const Value logits = output_(std::move(made[0])), finite = is_finite(max(abs(logits), {2}));
    const Value last = where(before.open, argmax(logits, 2), token(session, config_.pad_token_id));
    return {before.count + token(session, 1),
            last,
            logical_and(before.open, not_equal(last, token(session, config_.eos_token_id))),
            where(here, last, before.tokens),
            where(before.open, logical_and(before.finite, finite), before.finite),
            Values(made.begin() + 1, made.end())};
  }

  const TransformerConfig config_;
  Sinusoids sinusoids_{config_.d_model};
  nn::Embedding& embedding_;
  nn::Dropout& dropout_;
  TransformerEncoder& encoder_;
  TransformerDecoder& decoder_;
  nn::TiedLinear& output_;
};

void take(const ConfigFile& file, TransformerConfig& c) {
  file.require("model_type", {"transformer"});
  file.require("activation", {"relu"});
  file.take("vocab_size", c.vocab_size);
  file.take("d_model", c.d_model);
  file.take("nhead", c.nhead);
  file.take("num_encoder_layers", c.num_encoder_layers);
  file.take("num_decoder_layers", c.num_decoder_layers);
  file.take("dim_feedforward", c.dim_feedforward);
  file.take("pad_token_id", c.pad_token_id);
  file.take("bos_token_id", c.bos_token_id);
  file.take("eos_token_id", c.eos_token_id);
  file.take("dropout", c.dropout);
  file.take("layer_norm_eps", c.layer_norm_eps);
  file.take("norm_first", c.norm_first);
}

}  // namespace

TransformerConfig transformer_config(const std::string& name_or_file) { return config_of("transformer", name_or_file, kConfigs, take, check); }

std::unique_ptr<nn::Module> transformer(const TransformerConfig& config) {
  check(config);
  return std::make_unique<Transformer>(config);
}

}  // namespace gemel::models
