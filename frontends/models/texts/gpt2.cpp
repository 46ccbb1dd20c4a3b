#include "frontends/models/texts/gpt2.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "frontends/models/blocks.h"
#include "frontends/models/config_file.h"
#include "frontends/nn/layers/multi_head_attention.h"

namespace gemel::models {
namespace {

constexpr Gpt2Config sized(std::int64_t layers, std::int64_t width) {
  constexpr std::int64_t kWidthOfHead = 64;
  return {.n_embd = width, .n_layer = layers, .n_head = width / kWidthOfHead};
}
constexpr std::array<Gpt2Config, 4> kConfigs{sized(2, 128), sized(4, 256), sized(4, 512), sized(12, 768)};

std::int64_t inner_width(const Gpt2Config& c) { return c.n_inner != 0 ? c.n_inner : 4 * c.n_embd; }

const Gpt2Config& checked(const Gpt2Config& c) {
  check_size("gpt2", "vocab_size", c.vocab_size, kMostTokens);
  check_size("gpt2", "n_positions", c.n_positions, kMostPositions);
  check_size("gpt2", "n_embd", c.n_embd, kWidest);
  check_size("gpt2", "n_layer", c.n_layer, kMostLayers);
  check_size("gpt2", "n_head", c.n_head, kWidest);
  check_size("gpt2", "n_inner", inner_width(c), 4 * kWidest);
  if (c.n_embd % c.n_head != 0) throw UsageError(fmt::format("gpt2: {} heads share a width of {}; accepted: heads that divide it", c.n_head, c.n_embd));
  return c;
}

/// x W + b with the weight [in, out] in files, too, as Hugging Face has it in GPT-2.
class Conv1D : public nn::Module {
 public:
  Conv1D(std::int64_t in, std::int64_t out, double deviation)
      : weight_(add_parameter("weight", f32({in, out}), nn::FileLayout::same, nn::normal(deviation))),
        bias_(add_parameter("bias", f32({out}), nn::FileLayout::same, nn::constant(0))) {}
  std::string describe() const override { return fmt::format("Conv1D({}, {})", weight_.spec.shape[0], weight_.spec.shape[1]); }

 protected:
  Value forward(Value x) override { return matmul(std::move(x), weight_.tensor()) + bias_.tensor(); }

 private:
  nn::Parameter &weight_, &bias_;
};

/// Of the last product before a residual sum: the more of these there are, the less each adds.
double residual_deviation(const Gpt2Config& c) { return c.initializer_range / std::sqrt(2.0 * static_cast<double>(c.n_layer)); }

class SelfAttention : public nn::Module {
 public:
  explicit SelfAttention(const Gpt2Config& c)
      : heads_(c.n_head),
        parts_(add<Conv1D>("c_attn", c.n_embd, 3 * c.n_embd, c.initializer_range)),
        projection_(add<Conv1D>("c_proj", c.n_embd, c.n_embd, residual_deviation(c))),
        dropout_(add<nn::Dropout>("attn_dropout", c.attn_pdrop)),
        residual_dropout_(add<nn::Dropout>("resid_dropout", c.resid_pdrop)) {}

 protected:
  /// Of x; with a cache also of the bias of scores, the cache's keys and values, and the place of x's first token in it.
  Values forward_values(Values in) override {
    constexpr std::size_t kBias = 1, kKeys = 2, kValues = 3, kFirst = 4;
    const bool cached = in.size() > kFirst;
    const std::int64_t width = in[0].shape()[2];
    Values parts = split(parts_(std::move(in[0])), {width, width, width}, 2);
    nn::AttentionInputs of{std::move(parts[0]), std::move(parts[1]), std::move(parts[2])};
    if (cached) {
      of.bias = std::move(in[kBias]);
      write_rows(in[kKeys], in[kFirst], std::move(of.key), 1);
      write_rows(in[kValues], in[kFirst], std::move(of.value), 1);
      of.key = std::move(in[kKeys]);
      of.value = std::move(in[kValues]);
    }
    return {residual_dropout_(projection_(nn::attention(std::move(of), heads_, training() ? dropout_.rate() : 0, cached ? Causal::no : Causal::yes)))};
  }

 private:
  std::int64_t heads_;
  Conv1D &parts_, &projection_;
  nn::Dropout &dropout_, &residual_dropout_;
};

class Mlp : public nn::Module {
 public:
  explicit Mlp(const Gpt2Config& c)
      : in_(add<Conv1D>("c_fc", c.n_embd, inner_width(c), c.initializer_range)),
        out_(add<Conv1D>("c_proj", inner_width(c), c.n_embd, residual_deviation(c))),
        dropout_(add<nn::Dropout>("dropout", c.resid_pdrop)) {}

 protected:
  Value forward(Value x) override { return dropout_(out_(gelu_tanh(in_(std::move(x))))); }

 private:
  Conv1D &in_, &out_;
  nn::Dropout& dropout_;
};

class Block : public RepeatedBlock {
 public:
  explicit Block(const Gpt2Config& c)
      : attention_norm_(add<nn::LayerNorm>("ln_1", c.n_embd, c.layer_norm_epsilon)),
        attention_(add<SelfAttention>("attn", c)),
        mlp_norm_(add<nn::LayerNorm>("ln_2", c.n_embd, c.layer_norm_epsilon)),
        mlp_(add<Mlp>("mlp", c)) {}

 protected:
  /// As SelfAttention takes them.
  Values forward_values(Values in) override {
    Value x = in[0];
    in[0] = attention_norm_(x);
    x = std::move(x) + attention_(std::move(in))[0];
    return {x + mlp_(mlp_norm_(x))};
  }

 private:
  nn::LayerNorm& attention_norm_;
  SelfAttention& attention_;
  nn::LayerNorm& mlp_norm_;
  Mlp& mlp_;
};

}  // namespace

Gpt2::Gpt2(const Gpt2Config& c)
    : config_(checked(c)),
      transformer_(add<nn::ModuleDict>("transformer")),
      tokens_(transformer_.insert("wte", std::make_unique<nn::Embedding>(c.vocab_size, c.n_embd))),
      positions_(transformer_.insert("wpe", std::make_unique<nn::Embedding>(c.n_positions, c.n_embd))),
      dropout_(transformer_.insert("drop", std::make_unique<nn::Dropout>(c.embd_pdrop))),
      blocks_(transformer_.insert("h", std::make_unique<nn::ModuleList>())),
      norm_(transformer_.insert("ln_f", std::make_unique<nn::LayerNorm>(c.n_embd, c.layer_norm_epsilon))),
      head_(add<nn::TiedLinear>("lm_head", tokens_, nn::Bias::no)) {
  for (std::int64_t i = 0; i < c.n_layer; ++i) blocks_.emplace<Block>(c);
  tokens_.start_normal(c.initializer_range);
  positions_.start_normal(c.initializer_range);
}

std::string Gpt2::name_of(const std::string& in_file) const {
  std::string name = in_file;
  for (const std::string_view begin : {"wte.", "wpe.", "h.", "ln_f."})
    if (in_file.starts_with(begin)) name = "transformer." + in_file;
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ? "" : name;
}

Specs Gpt2::cache(std::int64_t samples, std::int64_t places) const {
  return Specs(static_cast<std::size_t>(2 * config_.n_layer), f32({samples, places, config_.n_embd}));
}

void Gpt2::check(const Values& in) const {
  if (in[0].shape().rank() != 2) throw ShapeError(fmt::format("gpt2: ids is {}; accepted: int64 [N, T]", to_string(in[0].spec())));
  const std::int64_t length = in[0].shape()[1];
  if (length > config_.n_positions)
    throw ShapeError(fmt::format("gpt2: a text has {} tokens; accepted: at most {}, as many as there are positions", length, config_.n_positions));
  if (in.size() == 1) return;
  const bool fits = in.size() == 2 + cache(1, 1).size() && in[1].shape() == Shape{length} && in[2].shape().rank() == 3;
  if (!fits || specs_of(std::span(in).subspan(2)) != cache(in[0].shape()[0], in[2].shape()[1]))
    throw ShapeError("gpt2: accepted: ids int64 [N, T] alone, or with their places int64 [T] and the tensors of a cache for N samples");
}

Values Gpt2::forward_values(Values in) {
  check(in);
  const bool cached = in.size() > 1;
  const std::int64_t length = in[0].shape()[1];
  const Value places = cached ? in[1] : nn::places(in[0].session(), length);
  const Value bias = cached ? nn::causal_bias(places, in[2].shape()[1]) : Value(), first = cached ? slice(places, {0}, {1}) : Value();
  Value x = dropout_(tokens_(std::move(in[0])) + positions_(places));
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    x = blocks_[i](cached ? list(std::move(x), bias, in[2 + 2 * i], in[3 + 2 * i], first) : list(std::move(x)))[0];
  x = norm_(std::move(x));
  if (cached) {
    const Shape shape = x.shape();
    x = reshape(slice(std::move(x), {0, length - 1, 0}, {shape[0], length, shape[2]}), Shape{shape[0], shape[2]});
  }
  return {head_(std::move(x))};
}

namespace {

void take(const ConfigFile& file, Gpt2Config& c) {
  file.require("model_type", {"gpt2"});
  file.require("activation_function", {"gelu_new", "gelu_pytorch_tanh"});  // two names of one function
  file.require_switch("scale_attn_weights", true);
  file.require_switch("scale_attn_by_inverse_layer_idx", false);
  file.require_switch("tie_word_embeddings", true);
  file.require_switch("add_cross_attention", false);
  file.take("vocab_size", c.vocab_size);
  file.take("n_positions", c.n_positions);
  file.take("n_embd", c.n_embd);
  file.take("n_layer", c.n_layer);
  file.take("n_head", c.n_head);
  file.take("n_inner", c.n_inner);
  file.take("embd_pdrop", c.embd_pdrop);
  file.take("attn_pdrop", c.attn_pdrop);
  file.take("resid_pdrop", c.resid_pdrop);
  file.take("layer_norm_epsilon", c.layer_norm_epsilon);
  file.take("initializer_range", c.initializer_range);
}

}  // namespace

Gpt2Config gpt2_config(const std::string& name_or_file) { return config_of("gpt2", name_or_file, kConfigs, take, checked); }

}  // namespace gemel::models
