#include "frontends/models/texts/transformer_layers.h"

#include <utility>

#include "engine/base/numbers.h"
#include "engine/ops/ops.h"
#include "frontends/nn/layers/multi_head_attention.h"

namespace gemel::models {
namespace {

/// torch.nn.MultiheadAttention: queries, keys and values by one packed product.
class PackedAttention : public nn::Module {
 public:
  explicit PackedAttention(const TransformerConfig& c)
      : heads_(c.nhead),
        rate_(c.dropout),
        weight_(add_parameter("in_proj_weight", f32({c.d_model, 3 * c.d_model}), nn::FileLayout::linear, nullptr)),
        bias_(add_parameter("in_proj_bias", f32({3 * c.d_model}), nn::FileLayout::same, nn::constant(0))),
        out_(add<nn::Linear>("out_proj", c.d_model, c.d_model)) {
    weight_.initialise = nn::uniform_within(nn::glorot_bound(weight_.spec.shape));
    out_.weight().initialise = nn::uniform_within(nn::glorot_bound(out_.weight().spec.shape));
    out_.bias()->initialise = nn::constant(0);
  }

 protected:
  enum Part : std::int64_t { query = 0, key = 1, end = 3 };  // of the product: queries, keys, values
  /// Parts first..last - 1 of the product with x.
  Values projected(Value x, Part first, Part last) const {
    const std::int64_t width = weight_.spec.shape[0];
    const bool all = first == query && last == end;
    Value weight = all ? weight_.tensor() : slice(weight_.tensor(), {0, first * width}, {width, last * width});
    Value bias = all ? bias_.tensor() : slice(bias_.tensor(), {first * width}, {last * width});
    Value product = matmul(std::move(x), std::move(weight)) + std::move(bias);
    return split(std::move(product), std::vector(at(last - first), width), 2);
  }
  Value attended(nn::AttentionInputs in, Causal causal = Causal::no) { return out_(nn::attention(std::move(in), heads_, training() ? rate_ : 0, causal)); }

 private:
  std::int64_t heads_;
  double rate_;
  nn::Parameter &weight_, &bias_;
  nn::Linear& out_;
};

class SelfAttention : public PackedAttention {
 public:
  SelfAttention(const TransformerConfig& c, Causal causal) : PackedAttention(c), causal_(causal) {}

 protected:
  /// Of x and a bias of scores, which may be empty. Of one token also a cache's keys and values, and its place in them: gives these with its own, too.
  Values forward_values(Values in) override {
    constexpr std::size_t kBias = 1, kKeys = 2, kValues = 3, kHere = 4;
    Values parts = projected(std::move(in[0]), query, end);
    nn::AttentionInputs of{std::move(parts[0]), std::move(parts[1]), std::move(parts[2]), std::move(in[kBias])};
    if (in.size() <= kHere) return {attended(std::move(of), causal_)};
    const Value keys = where(in[kHere], std::move(of.key), std::move(in[kKeys])), values = where(in[kHere], std::move(of.value), std::move(in[kValues]));
    of.key = keys;
    of.value = values;
    return {attended(std::move(of)), keys, values};
  }

 private:
  Causal causal_;
};

class CrossAttention : public PackedAttention {
 public:
  using PackedAttention::PackedAttention;

 protected:
  /// Of what the encoder gives: its keys and values. Of x, these, and a bias of scores: what x finds there.
  Values forward_values(Values in) override {
    if (in.size() == 1) return projected(std::move(in[0]), key, end);
    Value query_of = std::move(projected(std::move(in[0]), query, key)[0]);
    return {attended({std::move(query_of), std::move(in[1]), std::move(in[2]), std::move(in[3])})};
  }
};

/// What layers of both sides are made of.
class Layer : public RepeatedBlock {
 protected:
  explicit Layer(const TransformerConfig& c) : config_(c) {}
  /// The feed-forward sublayer, and as many normalisations and dropouts as there are sublayers.
  void add_rest(int sublayers) {
    const TransformerConfig& c = config_;
    in_ = &add<nn::Linear>("linear1", c.d_model, c.dim_feedforward);
    within_ = &add<nn::Dropout>("dropout", c.dropout);
    out_ = &add<nn::Linear>("linear2", c.dim_feedforward, c.d_model);
    for (nn::Linear* linear : {in_, out_}) linear->weight().initialise = nn::uniform_within(nn::glorot_bound(linear->weight().spec.shape));
    for (int i = 1; i <= sublayers; ++i) norms_.push_back(&add<nn::LayerNorm>("norm" + std::to_string(i), c.d_model, c.layer_norm_eps));
    for (int i = 1; i <= sublayers; ++i) dropouts_.push_back(&add<nn::Dropout>("dropout" + std::to_string(i), c.dropout));
  }
  /// x with what the sublayer makes of it.
  template <class F>
  Value residual(std::size_t sublayer, Value x, const F& f) {
    nn::LayerNorm& norm = *norms_[sublayer];
    nn::Dropout& dropout = *dropouts_[sublayer];
    if (config_.norm_first) return x + dropout(f(norm(x)));
    return norm(x + dropout(f(x)));
  }
  Value feed_forward(Value x) { return (*out_)((*within_)(relu((*in_)(std::move(x))))); }

 private:
  const TransformerConfig config_;
  nn::Linear *in_ = nullptr, *out_ = nullptr;
  nn::Dropout* within_ = nullptr;
  std::vector<nn::LayerNorm*> norms_;
  std::vector<nn::Dropout*> dropouts_;
};

class EncoderLayer : public Layer {
 public:
  explicit EncoderLayer(const TransformerConfig& c) : Layer(c), attention_(add<SelfAttention>("self_attn", c, Causal::no)) { add_rest(2); }

 protected:
  /// Of the layer before, and the bias of scores.
  Values forward_values(Values in) override {
    Value x = residual(0, std::move(in[0]), [&](const Value& given) { return attention_({given, in[1]})[0]; });
    return {residual(1, std::move(x), [&](const Value& given) { return feed_forward(given); })};
  }

 private:
  SelfAttention& attention_;
};

class DecoderLayer : public Layer {
 public:
  explicit DecoderLayer(const TransformerConfig& c)
      : Layer(c), attention_(add<SelfAttention>("self_attn", c, Causal::yes)), source_attention_(add<CrossAttention>("multihead_attn", c)) {
    add_rest(3);
  }
  /// Keys and values of what the encoder gives.
  Values remembered(const Value& encoded) {
    const Scope scope(encoded.session(), *this);
    return source_attention_(Values{encoded});
  }

 protected:
  /// Of the layer before, the source's keys, values and bias of scores; and of a step the cache's bias, keys, values and the place in them.
  Values forward_values(Values in) override {
    constexpr std::size_t kSource = 1, kCache = 4;
    const bool is_step = in.size() > kCache;
    Values made;
    Value x = residual(0, std::move(in[0]), [&](const Value& given) {
      made = attention_(is_step ? Values{given, in[kCache], in[kCache + 1], in[kCache + 2], in[kCache + 3]} : Values{given, Value()});
      return made[0];
    });
    x = residual(1, std::move(x), [&](const Value& given) { return source_attention_({given, in[kSource], in[kSource + 1], in[kSource + 2]})[0]; });
    made[0] = residual(2, std::move(x), [&](const Value& given) { return feed_forward(given); });
    return made;
  }

 private:
  SelfAttention& attention_;
  CrossAttention& source_attention_;
};

}  // namespace

TransformerEncoder::TransformerEncoder(const TransformerConfig& c)
    : layers_(add<nn::ModuleList>("layers")), norm_(add<nn::LayerNorm>("norm", c.d_model, c.layer_norm_eps)) {
  for (std::int64_t i = 0; i < c.num_encoder_layers; ++i) layers_.emplace<EncoderLayer>(c);
}

Values TransformerEncoder::forward_values(Values in) {
  Value x = std::move(in[0]);
  for (std::size_t i = 0; i < layers_.size(); ++i) x = layers_[i]({std::move(x), in[1]})[0];
  return {norm_(std::move(x))};
}

TransformerDecoder::TransformerDecoder(const TransformerConfig& c)
    : layers_(add<nn::ModuleList>("layers")), norm_(add<nn::LayerNorm>("norm", c.d_model, c.layer_norm_eps)) {
  for (std::int64_t i = 0; i < c.num_decoder_layers; ++i) layers_.emplace<DecoderLayer>(c);
}

TransformerMemory TransformerDecoder::memory(const Value& encoded, Value bias) {
  const Scope scope(encoded.session(), *this);
  TransformerMemory out{{}, std::move(bias)};
  for (std::size_t i = 0; i < layers_.size(); ++i)
    for (Value& v : static_cast<DecoderLayer&>(layers_[i]).remembered(encoded)) out.keys_and_values.push_back(std::move(v));
  return out;
}

namespace {

void append(Values& to, const Values& more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace

Value TransformerDecoder::read(Value x, const TransformerMemory& memory) {
  Values in = list(std::move(x));
  append(in, memory.keys_and_values);
  in.push_back(memory.bias);
  return std::move((*this)(std::move(in))[0]);
}

Values TransformerDecoder::step(Value x, const TransformerMemory& memory, const TransformerCache& cache) {
  Values in = list(std::move(x));
  append(in, memory.keys_and_values);
  in.push_back(memory.bias);
  append(in, cache.keys_and_values);
  append(in, {cache.bias, cache.here});
  return (*this)(std::move(in));
}

Values TransformerDecoder::forward_values(Values in) {
  const std::size_t tensors = 2 * layers_.size(), source = 1, bias = source + tensors, cache = bias + 1;
  const bool is_step = in.size() > cache;
  Values out{std::move(in[0])};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Values given = list(std::move(out[0]), in[source + 2 * i], in[source + 2 * i + 1], in[bias]);
    if (is_step) append(given, {in[cache + tensors], in[cache + 2 * i], in[cache + 2 * i + 1], in[cache + tensors + 1]});
    Values made = layers_[i](std::move(given));
    out[0] = std::move(made[0]);
    for (std::size_t k = 1; k < made.size(); ++k) out.push_back(std::move(made[k]));
  }
  out[0] = norm_(std::move(out[0]));
  return out;
}

}  // namespace gemel::models
