#include "frontends/models/speech/deep_speech.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "frontends/models/blocks.h"
#include "frontends/models/config_file.h"
#include "frontends/nn/layers/multi_head_attention.h"
#include "frontends/nn/layers/rnn.h"

namespace gemel::models {
namespace {

constexpr std::array<SpeechConfig, 4> kConfigs{{{.bands = 40, .stride = 4, .channels = 64, .hidden_size = 64, .num_layers = 1},
                                                {.channels = 128, .hidden_size = 128, .num_layers = 2},
                                                {.channels = 256, .hidden_size = 256, .num_layers = 3},
                                                {}}};
constexpr std::int64_t kKernel = 11, kFirstStride = 2;  // frames
constexpr double kCeiling = 20;                         // of activations

void check(const SpeechConfig& c) {
  check_size("speech", "sample_rate", c.sample_rate, 1'000'000);
  check_size("speech", "bands", c.bands, 4096);
  check_size("speech", "channels", c.channels, kWidest);
  check_size("speech", "hidden_size", c.hidden_size, kWidest);
  check_size("speech", "num_layers", c.num_layers, 64);
  if (c.stride != kFirstStride && c.stride != 2 * kFirstStride)
    throw UsageError(fmt::format("speech: stride is {}; accepted: {} or {}", c.stride, kFirstStride, 2 * kFirstStride));
  if (!(c.dropout >= 0 && c.dropout <= 1)) throw UsageError(fmt::format("speech: dropout is {}; accepted: 0..1", c.dropout));
}

/// Which of so many frames lie within a sample, bool [N, count, 1], where each is one of `stride` frames of the input.
Value within(const Value& frames, std::int64_t count, std::int64_t stride) {
  const Value firsts = reshape(nn::places(frames.session(), count) * stride, Shape{1, count, 1});
  return less(firsts, cast(reshape(frames, Shape{frames.elements(), 1, 1}), DType::int64));
}

class DeepSpeech : public nn::Module {
 public:
  DeepSpeech(const SpeechConfig& c, std::int64_t classes)
      : bands_(c.bands),
        strides_{kFirstStride, c.stride / kFirstStride},
        conv_(add<nn::ModuleList>("conv")),
        norm_(add<nn::ModuleList>("norm")),
        rnn_(add<nn::GRU>("rnn", c.channels, c.hidden_size, nn::RecurrentOptions{c.num_layers, nn::Bidirectional::yes, c.dropout})),
        dropout_(add<nn::Dropout>("dropout", c.dropout)),
        fc_(add<nn::Linear>("fc", 2 * c.hidden_size, classes)) {
    for (std::size_t i = 0; i < strides_.size(); ++i) {
      conv_.emplace<nn::Conv1d>(i == 0 ? c.bands : c.channels, c.channels, nn::Convolution1dOptions{kKernel, {.stride = strides_[i], .padding = kKernel / 2}});
      norm_.emplace<nn::LayerNorm>(c.channels);
    }
  }
  std::string describe() const override { return "DeepSpeech"; }

 protected:
  Values forward_values(Values in) override {
    if (in.size() != 2 || in[0].shape().rank() != 3 || in[0].shape()[2] != bands_ || in[1].shape() != Shape{in[0].shape()[0]})
      throw ShapeError(fmt::format("speech: accepted: features [N, T, {}] and frames, int64 [N]", bands_));
    Value x = std::move(in[0]);
    std::int64_t stride = 1;
    Value inside = within(in[1], x.shape()[1], stride);
    const Value zero = full(x.session(), {Shape{}, x.dtype()}, 0);
    // What lies behind the end is 0 wherever a convolution reads it, as what it pads with is.
    for (std::size_t i = 0; i < strides_.size(); ++i) {
      x = clamp(norm_[i](conv_[i](where(std::move(inside), std::move(x), zero))), 0, kCeiling);
      stride *= strides_[i];
      inside = within(in[1], x.shape()[1], stride);
    }
    const Value counted = cast(sum(cast(std::move(inside), DType::float32), {1, 2}), DType::int64);
    x = rnn_({std::move(x), counted}).at(0);
    return {log_softmax(fc_(dropout_(std::move(x)))), counted};
  }

 private:
  std::int64_t bands_;
  std::array<std::int64_t, 2> strides_;
  nn::ModuleList &conv_, &norm_;
  nn::GRU& rnn_;
  nn::Dropout& dropout_;
  nn::Linear& fc_;
};

void take(const ConfigFile& file, SpeechConfig& c) {
  file.require("model_type", {"speech"});
  file.take("sample_rate", c.sample_rate);
  file.take("bands", c.bands);
  file.take("stride", c.stride);
  file.take("channels", c.channels);
  file.take("hidden_size", c.hidden_size);
  file.take("num_layers", c.num_layers);
  file.take("dropout", c.dropout);
}

}  // namespace

SpeechConfig speech_config(const std::string& name_or_file) { return config_of("speech", name_or_file, kConfigs, take, check); }

std::unique_ptr<nn::Module> speech(const SpeechConfig& config, std::int64_t classes) {
  check(config);
  if (classes < 2) throw UsageError(fmt::format("speech: {} classes given; accepted: 2 or more, a blank among them", classes));
  return std::make_unique<DeepSpeech>(config, classes);
}

}  // namespace gemel::models
