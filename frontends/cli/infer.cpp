// gemel infer: a model's outputs for an array of pictures or tokens, for texts, or for sounds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "datasets/characters.h"
#include "datasets/npy.h"
#include "datasets/tokenizers.h"
#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/base/span.h"
#include "engine/files/safetensors.h"
#include "engine/ops/ops.h"
#include "frontends/cli/command.h"
#include "frontends/cli/dataset_options.h"
#include "frontends/cli/infer_inputs.h"
#include "frontends/cli/model_options.h"
#include "frontends/cli/run_scope.h"
#include "frontends/models/speech.h"
#include "frontends/models/texts.h"
#include "frontends/nn/state_dict.h"
#include "frontends/train/inference.h"
#include "frontends/train/speech_task.h"

namespace gemel::cli {
namespace {

using Texts = std::vector<std::string>;

/// What a model is to be run on, before there is a device.
struct Order {
  std::unique_ptr<InferInputs> inputs;
  std::unique_ptr<nn::Module> model;  // without memory
  bool takes_types = true;            // behind tokens
  /// Prints what the outputs for these inputs say; null: nothing.
  std::function<void(const Values& outputs, std::int64_t begin, std::int64_t count)> tell = {};
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
  if (language_model && v.count("text")) throw UsageError(fmt::format("--text: it is given with --model {}, which has no classes; accepted: --input, or gemel generate --prompt", name));
  if (language_model && !v["classes"].defaulted()) throw UsageError(fmt::format("--classes: it is given with --model {}, which has none; accepted: without it", name));
  const SafetensorsFile weights(v["weights"].as<std::string>());
  models::TextOptions options{.config = v["config"].as<std::string>()};
  models::TextSizes sizes = models::text_sizes(name, options.config);
  sizes.vocabulary = models::vocabulary_in(name, weights.tensors()).value_or(sizes.vocabulary);
  std::unique_ptr<datasets::Tokenizer> tokenizer;
  Order order;
  if (v.count("text")) {
    const auto texts = v["text"].as<Texts>();
    const auto vocabulary = v["vocab"].as<std::string>();
    if (vocabulary.empty()) throw UsageError("--vocab: none is given with --text; accepted: BERT's vocab.txt, or a folder with it");
    tokenizer = datasets::open_tokenizer(vocabulary, v["cased"].as<bool>() ? datasets::Letters::kept : datasets::Letters::lower);
    if (tokenizer->vocabulary().size() != sizes.vocabulary)
      throw DataError(fmt::format("infer: {} has {} tokens, {} is of {}; accepted: the vocabulary that it was trained with", vocabulary, tokenizer->vocabulary().size(),
                                  v["weights"].as<std::string>(), sizes.vocabulary));
    sizes.padding = tokenizer->padding();
    const std::int64_t given = whole_number(v, "max-length", 2, 1e6), longest = sizes.longest > 0 ? std::min(sizes.longest, given) : given;
    order.inputs = tokens_of(texts, *tokenizer, longest);
    order.tell = [texts](const Values& outputs, std::int64_t begin, std::int64_t count) {
      print_classes(outputs[0], std::span(texts).subspan(at(begin), at(count)));
    };
  } else {
    for (const char* option : {"vocab", "cased", "max-length"})
      if (!v[option].defaulted()) throw UsageError(fmt::format("--{}: it is given with --input, which has tokens; accepted: with --text", option));
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

/// @param output  of the file; empty: none
void run_batches(RunScope& run, const Order& order, Frontend frontend, std::int64_t batch_size, const std::string& output) {
  train::Inference inference(run.session(), *order.model, frontend, run.options().passes);
  const std::int64_t n = order.inputs->count();
  const auto output_of = [&](std::int64_t begin) {
    const std::int64_t count = std::min(batch_size, n - begin);
    Values in = order.inputs->batch(run.session(), begin, count);
    if (!order.takes_types) in.resize(1);
    const Values out = inference(in);
    if (order.tell) order.tell(out, begin, count);
    return out[0];
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
  datasets::write_npy(output, {shape, DType::float32}, [&](FileWriter& out) { each([&](const Value& y) { out.write(read_bytes(y)); }); });
}

void check_given(const po::variables_map& v, const std::string& name) {
  if (v.count("input") + v.count("text") != 1) throw UsageError("infer: accepted: --input or --text, one of them");
  if (v.count("input") && name != kSpeech && v["output"].as<std::string>().empty()) throw UsageError("infer: --input is given without --output; accepted: with it");
}

}  // namespace

int infer(const Arguments& arguments) {
  po::options_description options("options", 110);
  add_loaded_model_options(options, ModelKinds::all_but_ratings);
  options.add_options()
      ("input", po::value<std::string>(),
       "x.npy: float32 [N, C, H, W] of pictures, or int64 [N, T] of tokens; x.wav, or several with commas between: what was said is printed")
      ("text", po::value<Texts>(), "a text; may be given several times. Its class and the probability of it are printed")
      ("output", po::value<std::string>()->default_value(""), "y.npy: the model's output, float32")
      ("batch-size", po::value<std::int64_t>()->default_value(64), "samples at a time");
  add_text_options(options);
  add_frontend_option(options);
  add_common_options(options);
  const auto v = parse("infer", "Runs a model on an array of inputs, on texts, or on sounds.", options, arguments);
  const std::string name = model_name(v, ModelKinds::all_but_ratings);
  const auto batch_size = whole_number(v, "batch-size", 1, 1e9);
  const Frontend frontend = frontend_option(v);
  check_given(v, name);
  RunScope run(common_options(v), "infer", arguments);
  return run.carry_out([&] {
    const auto output = v["output"].as<std::string>();
    if (!output.empty()) check_can_write(output);
    const Order order = takes_texts(name) ? texts_order(v, name) : name == kSpeech ? speech_order(v) : pictures_order(v);
    run.open_device();
    nn::load_weights(*order.model, run.session(), v["weights"].as<std::string>());
    run.log_start(name, *order.model);
    run_batches(run, order, frontend, batch_size, output);
    run.summary()["samples"] = order.inputs->count();
  });
}

}  // namespace gemel::cli
