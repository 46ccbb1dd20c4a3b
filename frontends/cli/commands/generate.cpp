// gemel generate: a language model goes on from a text.
#include <fmt/format.h>

#include <cstdio>

#include "datasets/formats/utf8_stream.h"
#include "datasets/texts/open_tokenizer.h"
#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/files/weights.h"
#include "frontends/cli/command.h"
#include "frontends/cli/options/dataset_options.h"
#include "frontends/cli/options/model_options.h"
#include "frontends/cli/run/run_scope.h"
#include "frontends/cli/system/console.h"
#include "frontends/generation/text_generation.h"
#include "frontends/models/texts/text_models.h"
#include "frontends/nn/state/state_dict.h"

namespace gemel::cli {
namespace {

constexpr const char* kModel = "gpt2";
constexpr std::string_view kEndOfText = "<|endoftext|>";

struct GenerateOrder {
  std::string weights, vocabulary, prompt, config;
  std::int64_t max_tokens;
  train::Sampling sampling;
  Frontend frontend;
};

/// What is known before there is a device.
struct Prepared {
  std::unique_ptr<datasets::BytePairs> tokenizer;
  std::unique_ptr<models::Gpt2> model;  // without memory
  std::vector<std::int64_t> prompt;
};

std::unique_ptr<models::Gpt2> model_of(const GenerateOrder& order, std::int64_t vocabulary) {
  models::Gpt2Config config = models::gpt2_config(order.config);
  const std::int64_t tokens = models::vocabulary_in(kModel, WeightsHeader(order.weights).tensors()).value_or(config.vocab_size);
  if (tokens != vocabulary)
    throw DataError(fmt::format("generate: {} has {} tokens, {} is of {}; accepted: the vocabulary that it was trained with", order.vocabulary, vocabulary,
                                order.weights, tokens));
  config.vocab_size = tokens;
  return std::make_unique<models::Gpt2>(config);
}

Prepared prepare(const GenerateOrder& order) {
  Prepared out{datasets::open_byte_pairs(order.vocabulary), nullptr, {}};
  try {
    out.prompt = out.tokenizer->encode(order.prompt);
  } catch (const DataError& e) {
    throw UsageError(fmt::format("--prompt: {}; accepted: UTF-8", e.what()));
  }
  if (out.prompt.empty()) {  // a text begins behind the end of another
    const auto end = out.tokenizer->vocabulary().find(kEndOfText);
    if (!end) throw UsageError(fmt::format("--prompt: it is empty, and the vocabulary has no {} to begin with; accepted: a text", kEndOfText));
    out.prompt.push_back(*end);
  }
  out.model = model_of(order, out.tokenizer->vocabulary().size());
  const std::int64_t positions = out.model->config().n_positions;
  if (std::ssize(out.prompt) > positions)
    throw UsageError(fmt::format("--prompt: it has {} tokens; accepted: at most {}, as many as there are positions", out.prompt.size(), positions));
  return out;
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// What was made, and in what time: steps read a token each and give the next one. The first of them is not timed, as it builds what all run.
struct Made {
  std::int64_t tokens = 0, steps = -1, timed_ns = 0, prompt_ns = 0;
  const char* end = "--max-tokens";

  double prompt_seconds() const { return 1e-9 * static_cast<double>(prompt_ns); }
  double tokens_per_second() const { return timed_ns > 0 ? static_cast<double>(steps - 1) / (1e-9 * static_cast<double>(timed_ns)) : 0; }
};

/// Prints the continuation as it is made.
Made go_on(RunScope& run, const Prepared& with, const GenerateOrder& order) {
  train::TextReader reader(run.session(), *with.model, order.frontend, run.options().passes);
  train::Sampler sampler(order.sampling);
  datasets::Utf8Pieces text;
  Made made;
  const auto end = with.tokenizer->vocabulary().find(kEndOfText);
  std::vector<std::int64_t> next = with.prompt;
  while (made.tokens < order.max_tokens) {
    run.begin_batch();
    const std::int64_t begin = steady_ns(), token = sampler(reader.read(next)), taken = steady_ns() - begin;
    if (++made.steps == 0)
      made.prompt_ns = taken;
    else if (made.steps > 1)
      made.timed_ns += taken;
    if (token == end) {
      made.end = "<|endoftext|>";
      break;
    }
    ++made.tokens;
    print(text.add(with.tokenizer->decode({token})));
    if (reader.length() == with.model->config().n_positions) {
      made.end = "the last of the model's positions";
      break;
    }
    next = {token};
  }
  print(text.end() + "\n");
  return made;
}

void generate_text(RunScope& run, const GenerateOrder& order) {
  const Prepared with = prepare(order);
  run.open_device();
  say_prefix(nn::load_weights(*with.model, run.session(), order.weights));
  run.log_start(kModel, *with.model);
  print(order.prompt);
  const Made made = go_on(run, with, order);
  const double rate = made.tokens_per_second();
  say("generate: {} tokens of prompt in {:.3f} s, then {} tokens{}; ended by {}\n", with.prompt.size(), made.prompt_seconds(), made.tokens,
      rate > 0 ? fmt::format(", {:.1f} tokens/s", rate) : "", made.end);
  run.summary().update({{"prompt_tokens", with.prompt.size()}, {"prompt_seconds", made.prompt_seconds()}, {"tokens", made.tokens}, {"tokens_per_s", rate}});
}

}  // namespace

int generate(const Arguments& arguments) {
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("model", po::value<std::string>()->default_value(kModel), "language model: gpt2");
  option("weights", po::value<std::string>()->required(), "safetensors file with Hugging Face's names and layouts, or the index or folder of its shards");
  option("vocab", po::value<std::string>()->required(), "folder of its vocab.json and merges.txt, or its tokenizer.json");
  option("prompt", po::value<std::string>()->required(), "text to go on from; an empty one: a text from its beginning");
  option("max-tokens", po::value<std::int64_t>()->default_value(100), "tokens that are made at most");
  option("temperature", po::value<double>()->default_value(0, "0"), "0: the likeliest token each time; above: drawn by softmax(logits / temperature)");
  option("top-k", po::value<std::int64_t>()->default_value(0), "with a temperature: drawn from the likeliest so many; 0: from all");
  add_domain_options(options, domains::OptionUse::model);
  add_frontend_option(options);
  add_common_options(options);
  const auto v =
      parse("generate", "Prints a text and how a language model goes on from it, to the end of the text, --max-tokens, or the model's last position.", options,
            arguments);
  check_choice("--model", v["model"].as<std::string>(), {kModel});
  const CommonOptions common = common_options(v);
  const auto text = [&](const char* name) { return v[name].as<std::string>(); };
  const double temperature = v["temperature"].as<double>();
  check_range("--temperature", temperature, 0, 1e6);
  const std::int64_t top_k = whole_number(v, "top-k", 0, 1e9);
  if (top_k > 0 && temperature == 0) throw UsageError("--top-k: it is given with --temperature 0, which takes the likeliest token; accepted: with one above 0");
  const GenerateOrder order{
      text("weights"),   text("vocab"), text("prompt"), text("config"), whole_number(v, "max-tokens", 1, 1e9), {temperature, top_k, common.seed},
      frontend_option(v)};
  RunScope run(common, "generate", arguments);
  return run.carry_out([&] { generate_text(run, order); });
}

}  // namespace gemel::cli
