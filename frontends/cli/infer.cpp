// gemel infer: a model's outputs for an array of pictures or tokens, or for texts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>

#include "datasets/npy.h"
#include "datasets/tokenizers.h"
#include "datasets/utf8_pieces.h"
#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/files/safetensors.h"
#include "frontends/cli/command.h"
#include "frontends/cli/dataset_options.h"
#include "frontends/cli/infer_inputs.h"
#include "frontends/cli/model_options.h"
#include "frontends/cli/run_scope.h"
#include "frontends/models/texts.h"
#include "frontends/nn/state_dict.h"
#include "frontends/train/inference.h"
#include "frontends/train/translation.h"

namespace gemel::cli {
namespace {

using Texts = std::vector<std::string>;

/// What a model is to be run on, before there is a device.
struct Order {
  std::unique_ptr<InferInputs> inputs;
  std::unique_ptr<nn::Module> model;  // without memory
  Texts texts = {};                   // that the inputs are of, where they are texts
  bool takes_types = true;            // behind tokens
  std::function<void(const Value& outputs, std::span<const std::string> texts)> print = {};  // of a batch, where they are texts
};

Order pictures_order(const po::variables_map& v) {
  if (v.count("text")) throw UsageError(fmt::format("--text: it is given with --model {}, which takes pictures; accepted: --input", v["model"].as<std::string>()));
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

/// The sizes of vocabulary and last layer are the weight file's.
Order texts_order(const po::variables_map& v, const std::string& name) {
  const bool language_model = is_language_model(name);
  if (language_model && v.count("text")) throw UsageError(fmt::format("--text: it is given with --model {}, which has no classes; accepted: --input, or gemel generate --prompt", name));
  if (language_model) refuse_classes(v, name);
  const SafetensorsFile weights(v["weights"].as<std::string>());
  models::TextOptions options{.config = v["config"].as<std::string>()};
  models::TextSizes sizes = models::text_sizes(name, options.config);
  sizes.vocabulary = models::vocabulary_in(name, weights.tensors()).value_or(sizes.vocabulary);
  Order order;
  if (v.count("text")) {
    const auto tokenizer = tokenizer_of(v, "--text", "BERT's vocab.txt, or a folder with it", sizes.vocabulary);
    sizes.padding = tokenizer->padding();
    const std::int64_t given = whole_number(v, "max-length", 2, 1e6), longest = sizes.longest > 0 ? std::min(sizes.longest, given) : given;
    order.texts = v["text"].as<Texts>();
    order.inputs = tokens_of(order.texts, sizes.padding, [&](const std::string& text) { return tokenizer->for_model(text, {}, longest); });
  } else {
    refuse_beside_tokens(v, {"vocab", "cased", "max-length"});
    order.inputs = tokens_of(v["input"].as<std::string>(), sizes.vocabulary, sizes.longest);
  }
  options.vocabulary = sizes.vocabulary;
  options.padding = sizes.padding;
  order.takes_types = !language_model;
  if (const std::int64_t asked = class_count(v, 0); asked > 0) options.classes = asked;
  else if (!language_model) options.classes = nn::output_size_in(*models::make_text(name, options), weights.tensors()).value_or(options.classes);
  order.model = models::make_text(name, options);
  order.model->eval();
  return order;
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
  const SafetensorsFile weights(v["weights"].as<std::string>());
  const auto config = v["config"].as<std::string>();
  const std::int64_t vocabulary = models::vocabulary_in(name, weights.tensors()).value_or(models::text_sizes(name, config).vocabulary);
  const std::shared_ptr<const datasets::Tokenizer> tokenizer = tokenizer_of(v, "--model " + name, "the vocabulary that it was trained with", vocabulary);
  const std::int64_t longest = whole_number(v, "max-length", 2, 1e6);
  Order order{.takes_types = false};
  if (v.count("text")) {
    order.texts = v["text"].as<Texts>();
    order.inputs = tokens_of(order.texts, tokenizer->padding(), [&](const std::string& text) {
      std::vector<std::int64_t> ids = datasets::between_ends(*tokenizer, text, longest), types(ids.size(), 0);
      return datasets::Tokens{std::move(ids), std::move(types)};
    });
    order.print = [tokenizer](const Value& tokens, std::span<const std::string>) { print_translations(tokens, *tokenizer); };
  } else {
    refuse_beside_tokens(v, {"cased"});
    order.inputs = tokens_of(v["input"].as<std::string>(), vocabulary, 0);
  }
  const datasets::TextEnds ends = tokenizer->ends();
  order.model = models::make_text(name, {.config = config, .vocabulary = vocabulary, .padding = tokenizer->padding(), .begin = ends.begin, .end = ends.end, .longest = longest});
  order.model->eval();
  return order;
}

Order order_of(const po::variables_map& v, const std::string& name) {
  if (is_translator(name)) return translation_order(v, name);
  if (!takes_texts(name)) return pictures_order(v);
  Order order = texts_order(v, name);
  order.print = print_classes;
  return order;
}

/// @param output  of the file; empty: none
void run_batches(RunScope& run, const Order& order, Frontend frontend, std::int64_t batch_size, const std::string& output) {
  train::Inference inference(run.session(), *order.model, frontend, run.options().passes);
  const std::int64_t n = order.inputs->count();
  const auto output_of = [&](std::int64_t begin) {
    const std::int64_t count = std::min(batch_size, n - begin);
    Values in = order.inputs->batch(run.session(), begin, count);
    if (!order.takes_types) in.resize(1);
    Value out = inference(in)[0];
    if (!order.texts.empty()) order.print(out, std::span(order.texts).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)));
    return out;
  };
  // The first batch (of none, where there is no sample) tells the shape of the output.
  const Value first = output_of(0);
  const auto each = [&](const std::function<void(const Value&)>& take) {
    take(first);
    for (std::int64_t begin = batch_size; begin < n; begin += batch_size) {
      run.begin_batch();
      take(output_of(begin));
    }
  };
  if (output.empty()) return each([](const Value&) {});
  Shape shape{n};
  for (int k = 1; k < first.shape().rank(); ++k) shape.push_back(first.shape()[k]);
  datasets::write_npy(output, {shape, first.dtype()}, [&](FileWriter& out) { each([&](const Value& y) { out.write(read_bytes(y)); }); });
}

void check_given(const po::variables_map& v) {
  if (v.count("input") + v.count("text") != 1) throw UsageError("infer: accepted: --input or --text, one of them");
  if (v.count("input") && v["output"].as<std::string>().empty()) throw UsageError("infer: --input is given without --output; accepted: with it");
}

}  // namespace

int infer(const Arguments& arguments) {
  po::options_description options("options", 110);
  add_loaded_model_options(options, ModelKinds::pictures_and_texts);
  options.add_options()("input", po::value<std::string>(), "x.npy: float32 [N, C, H, W] of pictures, or int64 [N, T] of tokens")
      ("text", po::value<Texts>(), "a text; may be given several times. Its class and the probability of it are printed, or its translation")
      ("output", po::value<std::string>()->default_value(""), "y.npy: the model's output, float32, or int64 of translations")
      ("batch-size", po::value<std::int64_t>()->default_value(64), "samples at a time");
  add_text_options(options);
  add_frontend_option(options);
  add_common_options(options);
  const auto v = parse("infer", "Runs a model on an array of inputs, or on texts.", options, arguments);
  const std::string name = model_name(v, ModelKinds::pictures_and_texts);
  const auto batch_size = whole_number(v, "batch-size", 1, 1e9);
  const Frontend frontend = frontend_option(v);
  check_given(v);
  RunScope run(common_options(v), "infer", arguments);
  return run.carry_out([&] {
    const auto output = v["output"].as<std::string>();
    if (!output.empty()) check_can_write(output);
    const Order order = order_of(v, name);
    run.open_device();
    nn::load_weights(*order.model, run.session(), v["weights"].as<std::string>());
    run.log_start(name, *order.model);
    run_batches(run, order, frontend, batch_size, output);
    run.summary()["samples"] = order.inputs->count();
  });
}

}  // namespace gemel::cli
