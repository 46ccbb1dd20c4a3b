#include "frontends/cli/commands/infer_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <span>
#include <vector>

#include "datasets/formats/utf8_stream.h"
#include "datasets/speech/characters.h"
#include "datasets/texts/open_tokenizer.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/files/weights.h"
#include "engine/ops/ops.h"
#include "frontends/cli/options/dataset_options.h"
#include "frontends/cli/options/model_options.h"
#include "frontends/domains/workload.h"
#include "frontends/models/speech/deep_speech.h"
#include "frontends/models/texts/text_models.h"
#include "frontends/nn/state/state_dict.h"
#include "frontends/train/tasks/speech_task.h"
#include "frontends/train/tasks/translation_task.h"

namespace gemel::cli {
namespace {

using Order = InferOrder;
using Texts = std::vector<std::string>;

Order pictures_order(const po::variables_map& v) {
  if (v.count("text"))
    throw UsageError(fmt::format("--text: it is given with --model {}, which takes pictures; accepted: --input", v["model"].as<std::string>()));
  refuse_text_options(v, "--model " + v["model"].as<std::string>() + ", which takes pictures");
  Order order;
  std::int64_t channels = 0;
  order.inputs = pictures_of(v["input"].as<std::string>(), channels);
  order.model = model_of_weights(v, channels);
  return order;
}

/// --vocab, which has as many tokens as the weights are of. @param beside  that it is needed with  @param accepted  as such
std::unique_ptr<datasets::Tokenizer> tokenizer_of(const po::variables_map& v, const std::string& beside, const char* accepted, std::int64_t tokens) {
  const auto vocabulary = v["vocab"].as<std::string>();
  if (vocabulary.empty()) throw UsageError(fmt::format("--vocab: none is given with {}; accepted: {}", beside, accepted));
  auto out = datasets::open_tokenizer(vocabulary, v["cased"].as<bool>() ? datasets::Letters::kept : datasets::Letters::lower);
  if (out->vocabulary().size() != tokens)
    throw DataError(fmt::format("infer: {} has {} tokens, {} is of {}; accepted: the vocabulary that it was trained with", vocabulary, out->vocabulary().size(),
                                v["weights"].as<std::string>(), tokens));
  return out;
}

void refuse_beside_tokens(const po::variables_map& v, std::initializer_list<const char*> options) {
  for (const char* option : options)
    if (!v[option].defaulted()) throw UsageError(fmt::format("--{}: it is given with --input, which has tokens; accepted: with --text", option));
}

void refuse_classes(const po::variables_map& v, const std::string& name) {
  if (!v["classes"].defaulted()) throw UsageError(fmt::format("--classes: it is given with --model {}, which has none; accepted: without it", name));
}

/// "1 0.9312 a text": the class of the largest logit, its probability.
void print_classes(const Value& logits, std::span<const std::string> texts) {
  const std::vector<double> all = read(logits);
  const std::size_t classes = all.size() / texts.size();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::span row = std::span(all).subspan(i * classes, classes);
    const auto most = std::ranges::max_element(row);
    double sum = 0;
    for (const double x : row) sum += std::exp(x - *most);
    fmt::print("{} {:.4f} {}\n", most - row.begin(), 1 / sum, texts[i]);
  }
}

/// The sizes of vocabulary and last layer are the weight file's.
Order texts_order(const po::variables_map& v, const std::string& name) {
  const bool language_model = is_language_model(name);
  if (language_model && v.count("text"))
    throw UsageError(fmt::format("--text: it is given with --model {}, which has no classes; accepted: --input, or gemel generate --prompt", name));
  if (language_model) refuse_classes(v, name);
  const WeightsHeader weights(v["weights"].as<std::string>());
  models::TextOptions options{.config = v["config"].as<std::string>()};
  models::TextSizes sizes = models::text_sizes(name, options.config);
  sizes.vocabulary = models::vocabulary_in(name, weights.tensors()).value_or(sizes.vocabulary);
  Order order;
  if (v.count("text")) {
    const auto tokenizer = tokenizer_of(v, "--text", "BERT's vocab.txt, a tokenizer.json, or a folder with one of them", sizes.vocabulary);
    sizes.padding = tokenizer->padding();
    const std::int64_t given = whole_number(v, "max-length", 2, 1e6), longest = sizes.longest > 0 ? std::min(sizes.longest, given) : given;
    const auto texts = v["text"].as<Texts>();
    order.inputs = tokens_of(texts, sizes.padding, [&](const std::string& text) { return tokenizer->for_model(text, {}, longest); });
    order.tell = [texts](const Values& outputs, std::int64_t begin, std::int64_t count) {
      print_classes(outputs[0], std::span(texts).subspan(at(begin), at(count)));
    };
  } else {
    refuse_beside_tokens(v, {"vocab", "cased", "max-length"});
    order.inputs = tokens_of(v["input"].as<std::string>(), sizes.vocabulary, sizes.longest);
  }
  options.vocabulary = sizes.vocabulary;
  options.padding = sizes.padding;
  order.takes_types = !language_model;
  if (const std::int64_t asked = class_count(v, 0); asked > 0)
    options.classes = asked;
  else if (!language_model)
    options.classes = nn::output_size_in(*models::make_text(name, options), weights.tensors()).value_or(options.classes);
  order.model = models::make_text(name, options);
  order.model->eval();
  return order;
}

/// A translation a line.
void print_translations(const Value& tokens, const datasets::Tokenizer& tokenizer) {
  const std::vector<double> all = read(tokens);
  const auto most = static_cast<std::size_t>(tokens.shape()[1]);
  for (std::size_t begin = 0; begin < all.size(); begin += most) {
    datasets::Utf8Pieces whole;  // bytes that a model writes need be no text
    const std::string text = whole.add(tokenizer.decode(train::before_end(std::span(all).subspan(begin, most), tokenizer.ends().end)));
    fmt::print("{}{}\n", text, whole.end());
  }
}

Order translation_order(const po::variables_map& v, const std::string& name) {
  refuse_classes(v, name);
  const WeightsHeader weights(v["weights"].as<std::string>());
  const auto config = v["config"].as<std::string>();
  const std::int64_t vocabulary = models::vocabulary_in(name, weights.tensors()).value_or(models::text_sizes(name, config).vocabulary);
  const std::shared_ptr<const datasets::Tokenizer> tokenizer = tokenizer_of(v, "--model " + name, "the vocabulary that it was trained with", vocabulary);
  const std::int64_t longest = whole_number(v, "max-length", 2, 1e6);
  Order order{.takes_types = false, .tells_finite = true};
  if (v.count("text")) {
    order.inputs = tokens_of(v["text"].as<Texts>(), tokenizer->padding(), [&](const std::string& text) {
      std::vector<std::int64_t> ids = datasets::between_ends(*tokenizer, text, longest), types(ids.size(), 0);
      return datasets::Tokens{std::move(ids), std::move(types)};
    });
    order.tell = [tokenizer](const Values& outputs, std::int64_t, std::int64_t) { print_translations(outputs[0], *tokenizer); };
  } else {
    refuse_beside_tokens(v, {"cased"});
    order.inputs = tokens_of(v["input"].as<std::string>(), vocabulary, 0);
  }
  const datasets::TextEnds ends = tokenizer->ends();
  order.model = models::make_text(
      name, {.config = config, .vocabulary = vocabulary, .padding = tokenizer->padding(), .begin = ends.begin, .end = ends.end, .longest = longest});
  order.model->eval();
  return order;
}

/// Transcripts are printed as the data set's files have them.
Order speech_order(const po::variables_map& v) {
  const std::string model = fmt::format("--model {}", kSpeech);
  if (v.count("text")) throw UsageError(fmt::format("--text: it is given with {}, which takes sounds; accepted: --input", model));
  for (const char* option : {"classes", "vocab", "cased", "max-length", "length-buckets"})
    if (!v[option].defaulted()) throw UsageError(fmt::format("--{}: it is given with {}; accepted: without it", option, model));
  const models::SpeechConfig config = models::speech_config(v["config"].as<std::string>());
  const std::vector<std::string> files = words_of(v["input"].as<std::string>());
  Order order;
  order.inputs = sounds_of(files, {.sample_rate = config.sample_rate, .bands = config.bands});
  order.model = models::speech(config, datasets::kCharacterClasses);
  order.tell = [files](const Values& outputs, std::int64_t begin, std::int64_t) {
    const std::vector<std::string> texts = train::texts_of(read(argmax(outputs[0], 2)), read(outputs[1]));
    for (std::size_t i = 0; i < texts.size(); ++i) fmt::print("{}\t{}\n", files[at(begin) + i], texts[i]);
  };
  return order;
}

}  // namespace

InferOrder infer_order(const po::variables_map& v, const std::string& model) {
  if (takes_texts(model) && !v["length-buckets"].defaulted())
    throw UsageError("--length-buckets: it is given with infer, which takes inputs in their order; accepted: without it");
  if (is_translator(model)) return translation_order(v, model);
  if (takes_texts(model)) return texts_order(v, model);
  return model == kSpeech ? speech_order(v) : pictures_order(v);
}

}  // namespace gemel::cli
