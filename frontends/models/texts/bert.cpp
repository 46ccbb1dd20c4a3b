#include "frontends/models/texts/bert.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "frontends/models/blocks.h"
#include "frontends/models/config_file.h"
#include "frontends/nn/layers/multi_head_attention.h"

namespace gemel::models {
namespace {

constexpr BertConfig sized(std::int64_t layers, std::int64_t width) {
  constexpr std::int64_t kWidthOfHead = 64, kIntermediate = 4;
  return {.hidden_size = width, .num_hidden_layers = layers, .num_attention_heads = width / kWidthOfHead, .intermediate_size = kIntermediate * width};
}
constexpr std::array<BertConfig, 4> kConfigs{sized(2, 128), sized(4, 256), sized(4, 512), sized(12, 768)};

void check(const BertConfig& c) {
  check_size("bert", "vocab_size", c.vocab_size, kMostTokens);
  check_size("bert", "hidden_size", c.hidden_size, kWidest);
  check_size("bert", "num_hidden_layers", c.num_hidden_layers, kMostLayers);
  check_size("bert", "num_attention_heads", c.num_attention_heads, kWidest);
  check_size("bert", "intermediate_size", c.intermediate_size, kWidest);
  check_size("bert", "max_position_embeddings", c.max_position_embeddings, kMostPositions);
  check_size("bert", "type_vocab_size", c.type_vocab_size, kMostTokens);
  if (c.hidden_size % c.num_attention_heads != 0)
    throw UsageError(fmt::format("bert: {} heads share a width of {}; accepted: heads that divide it", c.num_attention_heads, c.hidden_size));
  if (c.pad_token_id < 0 || c.pad_token_id >= c.vocab_size)
    throw UsageError(fmt::format("bert: pad_token_id is {}; accepted: 0..{}", c.pad_token_id, c.vocab_size - 1));
}

/// Modules that stand between others in the names alone.
class Part : public nn::Module {
 public:
  using nn::Module::add;
  using nn::Module::adopt;
};

class Embeddings : public nn::Module {
 public:
  explicit Embeddings(const BertConfig& c)
      : words_(add<nn::Embedding>("word_embeddings", c.vocab_size, c.hidden_size, c.pad_token_id)),
        positions_(add<nn::Embedding>("position_embeddings", c.max_position_embeddings, c.hidden_size)),
        types_(add<nn::Embedding>("token_type_embeddings", c.type_vocab_size, c.hidden_size)),
        norm_(add<nn::LayerNorm>("LayerNorm", c.hidden_size, c.layer_norm_eps)),
        dropout_(add<nn::Dropout>("dropout", c.hidden_dropout_prob)) {}

 protected:
  /// Of ids and types.
  Values forward_values(Values in) override {
    const std::int64_t length = in[0].shape()[1], positions = positions_.weight().spec.shape[0];
    if (length > positions)
      throw ShapeError(fmt::format("bert: a text has {} tokens; accepted: at most {}, as many as there are positions", length, positions));
    const Value places = nn::places(in[0].session(), length);
    Value sum = words_(std::move(in[0])) + positions_(places);
    return {dropout_(norm_(std::move(sum) + types_(std::move(in[1]))))};
  }

 private:
  nn::Embedding &words_, &positions_, &types_;
  nn::LayerNorm& norm_;
  nn::Dropout& dropout_;
};

/// A product, what it is added to, and the normalisation of the sum: "output" of attention and of a layer.
class Output : public nn::Module {
 public:
  Output(const BertConfig& c, std::int64_t in)
      : dense_(add<nn::Linear>("dense", in, c.hidden_size)),
        norm_(add<nn::LayerNorm>("LayerNorm", c.hidden_size, c.layer_norm_eps)),
        dropout_(add<nn::Dropout>("dropout", c.hidden_dropout_prob)) {}

 protected:
  Values forward_values(Values in) override { return {norm_(dropout_(dense_(std::move(in[0]))) + std::move(in[1]))}; }

 private:
  nn::Linear& dense_;
  nn::LayerNorm& norm_;
  nn::Dropout& dropout_;
};

class SelfAttention : public nn::Module {
 public:
  explicit SelfAttention(const BertConfig& c)
      : heads_(c.num_attention_heads),
        query_(add<nn::Linear>("query", c.hidden_size, c.hidden_size)),
        key_(add<nn::Linear>("key", c.hidden_size, c.hidden_size)),
        value_(add<nn::Linear>("value", c.hidden_size, c.hidden_size)),
        dropout_(c.attention_probs_dropout_prob) {}

 protected:
  Values forward_values(Values in) override { return {nn::attention({query_(in[0]), key_(in[0]), value_(in[0]), in[1]}, heads_, training() ? dropout_ : 0)}; }

 private:
  std::int64_t heads_;
  nn::Linear &query_, &key_, &value_;
  double dropout_;
};

class Layer : public RepeatedBlock {
 public:
  explicit Layer(const BertConfig& c)
      : attention_(add<Part>("attention")),
        self_(attention_.add<SelfAttention>("self", c)),
        attended_(attention_.add<Output>("output", c, c.hidden_size)),
        intermediate_(add<Part>("intermediate").add<nn::Linear>("dense", c.hidden_size, c.intermediate_size)),
        output_(add<Output>("output", c, c.intermediate_size)) {}

 protected:
  /// Of the layer before, and the bias of scores.
  Values forward_values(Values in) override {
    Values x = attended_({self_({in[0], in[1]})[0], in[0]});
    return output_({gelu(intermediate_(x[0])), x[0]});
  }

 private:
  Part& attention_;
  SelfAttention& self_;
  Output& attended_;
  nn::Linear& intermediate_;
  Output& output_;
};

class BertClassifier : public nn::Module {
 public:
  BertClassifier(const BertConfig& c, std::int64_t classes)
      : padding_(c.pad_token_id),
        bert_(add<Part>("bert")),
        embeddings_(bert_.add<Embeddings>("embeddings", c)),
        layers_(bert_.add<Part>("encoder").add<nn::ModuleList>("layer")),
        pooler_(bert_.add<Part>("pooler").add<nn::Linear>("dense", c.hidden_size, c.hidden_size)),
        dropout_(add<nn::Dropout>("dropout", c.hidden_dropout_prob)),
        classifier_(add<nn::Linear>("classifier", c.hidden_size, classes)) {
    for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace<Layer>(c);
    start(c.initializer_range);
  }
  std::string describe() const override { return "BertClassifier"; }
  /// The pooler starts afresh, too, where a file comes from a model that had none.
  std::vector<std::string> output_layers() const override { return {"classifier", "bert.pooler.dense"}; }
  bool is_pretrained_without_output() const override { return true; }
  /// Files of the encoder alone have no "bert." before its names; older ones call the scale and shift of a normalisation gamma and beta; heads of
  /// pretraining and tables that are the same in every file are nothing of this model's.
  std::string name_of(const std::string& in_file) const override {
    std::string name = in_file;
    for (const auto& [old, now] : {std::pair<std::string_view, std::string_view>{".gamma", ".weight"}, {".beta", ".bias"}})
      if (name.ends_with(old)) name.replace(name.size() - old.size(), old.size(), now);
    if (name.starts_with("embeddings.") || name.starts_with("encoder.") || name.starts_with("pooler.")) name = "bert." + name;
    const bool aside = name.starts_with("cls.") || name == "bert.embeddings.position_ids" || name == "bert.embeddings.token_type_ids";
    return aside ? "" : name;
  }

 protected:
  Values forward_values(Values in) override {
    if (in.size() != 2 || in[0].shape().rank() != 2 || in[1].shape() != in[0].shape()) throw ShapeError("bert: accepted: ids and types, int64 [N, T] each");
    const Value bias = nn::padding_bias(in[0], padding_);
    const Shape shape = in[0].shape();
    Value x = embeddings_({in[0], in[1]})[0];
    for (std::size_t i = 0; i < layers_.size(); ++i) x = layers_[i]({std::move(x), bias})[0];
    const std::int64_t width = x.shape()[2];
    Value first = reshape(slice(std::move(x), {0, 0, 0}, {shape[0], 1, width}), Shape{shape[0], width});
    return {classifier_(dropout_(tanh(pooler_(std::move(first)))))};
  }

 private:
  /// Weights are normal, but for rows of padding; biases are 0, and what normalises begins at 1 and 0.
  void start(double deviation) {
    visit_all<nn::Linear>([&](nn::Linear& linear) {
      linear.weight().initialise = nn::normal(deviation);
      linear.bias()->initialise = nn::constant(0);
    });
    visit_all<nn::Embedding>([&](nn::Embedding& table) { table.start_normal(deviation); });
  }

  std::int64_t padding_;
  Part& bert_;
  Embeddings& embeddings_;
  nn::ModuleList& layers_;
  nn::Linear& pooler_;
  nn::Dropout& dropout_;
  nn::Linear& classifier_;
};

void take(const ConfigFile& file, BertConfig& c) {
  file.require("model_type", {"bert"});
  file.require("hidden_act", {"gelu"});
  file.require("position_embedding_type", {"absolute"});
  file.take("vocab_size", c.vocab_size);
  file.take("hidden_size", c.hidden_size);
  file.take("num_hidden_layers", c.num_hidden_layers);
  file.take("num_attention_heads", c.num_attention_heads);
  file.take("intermediate_size", c.intermediate_size);
  file.take("max_position_embeddings", c.max_position_embeddings);
  file.take("type_vocab_size", c.type_vocab_size);
  file.take("pad_token_id", c.pad_token_id);
  file.take("hidden_dropout_prob", c.hidden_dropout_prob);
  file.take("attention_probs_dropout_prob", c.attention_probs_dropout_prob);
  file.take("layer_norm_eps", c.layer_norm_eps);
  file.take("initializer_range", c.initializer_range);
}

}  // namespace

BertConfig bert_config(const std::string& name_or_file) { return config_of("bert", name_or_file, kConfigs, take, check); }

std::unique_ptr<nn::Module> bert_classifier(const BertConfig& config, std::int64_t classes) {
  check(config);
  if (classes < 1) throw UsageError(fmt::format("bert: {} classes given; accepted: 1 or more", classes));
  return std::make_unique<BertClassifier>(config, classes);
}

}  // namespace gemel::models
