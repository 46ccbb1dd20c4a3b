#include "frontends/cli/options/dataset_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "datasets/texts/glue.h"
#include "engine/base/error.h"
#include "frontends/cli/options/model_options.h"
#include "frontends/models/config_file.h"
#include "frontends/models/texts/text_models.h"

namespace gemel::cli {
namespace {

constexpr const char* kRatings = "ratings";

}  // namespace

void add_dataset_options(po::options_description& options) {
  const std::string names =
      fmt::format("data set: {}; of texts: {}, {}; of language models: {}, {}; of translations: {}, {}; of ratings: {}, {}; of speech: {}, {}",
                  fmt::join(datasets::dataset_names(), ", "), kSynthetic, fmt::join(datasets::glue_names(), ", "), kSynthetic, kRunningText, kSynthetic,
                  kTranslation, kSynthetic, kRatings, kSynthetic, kSpeech);
  auto option = options.add_options();
  option("dataset", po::value<std::string>()->default_value("synthetic"), names.c_str());
  option("data", po::value<std::string>()->default_value(""), "its folder, or for cifar10 the official .tar.gz or its .tar");
  option("input", po::value<std::string>()->default_value(""),
         "CxHxW of its pictures; synthetic makes 3x32x32, or what a model takes that cannot train on those");
  option("normalize", po::value<std::string>()->default_value("none"), "none, or standard: by CIFAR-10's mean and deviation");
  option("limit", po::value<std::int64_t>()->default_value(0), "use only the first so many samples of each split; 0: all");
}

namespace {

/// @param others  names of the data sets that read files, which are `files`
void check_data(const std::string& name, const std::string& data, const std::vector<std::string>& others, const char* files) {
  if (name == kSynthetic && !data.empty())
    throw UsageError(
        fmt::format("--data: '{}' is given with --dataset synthetic, which reads no files; accepted: --dataset {} with it", data, fmt::join(others, " or ")));
  if (name != kSynthetic && data.empty()) throw UsageError(fmt::format("--data: no data path was given for --dataset {}; accepted: {}", name, files));
}

/// What synthetic makes where --input is not given: empty, the data set's own pictures, but for a model that takes others.
Shape synthetic_input(const std::string& model) {
  const Shape small = models::small_input(model);
  return small != Shape{3, 32, 32} ? small : Shape();
}

}  // namespace

datasets::DatasetOptions dataset_options(const po::variables_map& v, std::uint64_t seed) {
  datasets::DatasetOptions o;
  o.name = v["dataset"].as<std::string>();
  const auto names = datasets::dataset_names();
  check_choice("--dataset", o.name, {names.begin(), names.end()});
  o.data = v["data"].as<std::string>();
  check_data(o.name, o.data.string(), {names.begin() + 1, names.end()}, "the path of its files");
  if (const auto input = v["input"].as<std::string>(); !input.empty())
    o.input = Shape(parse_extents("--input", input));
  else if (o.name == "synthetic")
    o.input = synthetic_input(model_name(v));
  o.classes = class_count(v, 0);
  const auto normalize = v["normalize"].as<std::string>();
  check_choice("--normalize", normalize, {"none", "standard"});
  o.normalize = normalize == "standard" ? datasets::Normalize::standard : datasets::Normalize::none;
  o.limit = whole_number(v, "limit", 0, 1e12);
  o.seed = seed;
  return o;
}

namespace {

constexpr const char* kTextOptions[] = {"config", "vocab", "cased", "max-length", "length-buckets"};
constexpr const char* kPictureOptions[] = {"input", "normalize", "augment"};
constexpr const char* kOthersThanRatings[] = {"input", "normalize", "classes", "vocab", "cased", "max-length", "length-buckets"};
constexpr const char* kOthersThanSpeech[] = {"input", "normalize", "augment", "classes", "vocab", "cased", "max-length"};
constexpr const char* kClassOption[] = {"classes"};
constexpr std::int64_t kLeastTextClasses = 2;  // as GLUE's tasks have
constexpr std::int64_t kTextLength = 128;      // tokens, where nothing is said
constexpr const char* kClassifierOptions[] = {"classes", "length-buckets"};

/// Options that would do nothing are refused.
void refuse(const po::variables_map& v, std::span<const char* const> names, const std::string& beside) {
  for (const char* name : names)
    if (v.count(name) && !v[name].defaulted()) throw UsageError(fmt::format("--{}: it is given with {}; accepted: without it", name, beside));
}

/// The data sets of files that a kind of model takes, and what they are.
struct TextFiles {
  std::vector<std::string> names;
  const char *files, *vocabulary;
};
TextFiles text_files(const std::string& model) {
  if (is_translator(model))
    return {{std::string(kTranslation)},
            "the folder of its train.tsv and dev.tsv",
            "BERT's vocab.txt, a tokenizer.json, or a folder with one of them or with GPT-2's vocab.json and merges.txt"};
  if (is_language_model(model))
    return {{std::string(kRunningText)}, "the folder of its train.txt", "GPT-2's folder of vocab.json and merges.txt, or a tokenizer.json"};
  const auto glue = datasets::glue_names();
  return {{glue.begin(), glue.end()}, "the folder of its train.tsv and dev.tsv", "BERT's vocab.txt, a tokenizer.json, or a folder with one of them"};
}

bool buckets_option(const po::variables_map& v) {
  const auto buckets = v["length-buckets"].as<std::string>();
  check_choice("--length-buckets", buckets, {"on", "off"});
  return buckets == "on";
}

/// Tokens of a text where nothing is said: no more than the model has positions for.
std::int64_t default_length(const po::variables_map& v, const std::string& model) {
  const std::int64_t longest = models::text_sizes(model, v["config"].as<std::string>()).longest;
  return longest > 0 ? std::min(longest, kTextLength) : kTextLength;
}

WorkloadOptions::Text text_options(const po::variables_map& v, const std::string& model, std::uint64_t seed) {
  WorkloadOptions::Text o;
  if (is_language_model(model)) refuse(v, kClassifierOptions, fmt::format("--model {}, which has no classes", model));
  if (is_translator(model)) refuse(v, kClassOption, fmt::format("--model {}, which has no classes", model));
  const auto [of_files, files, vocabulary] = text_files(model);
  std::vector<std::string> all = of_files;
  all.emplace_back(kSynthetic);
  o.dataset = v["dataset"].as<std::string>();
  check_choice("--dataset", o.dataset, all);
  o.folder = v["data"].as<std::string>();
  check_data(o.dataset, o.folder, of_files, files);
  o.vocabulary = v["vocab"].as<std::string>();
  if (o.dataset == kSynthetic && !o.vocabulary.empty())
    throw UsageError(fmt::format("--vocab: '{}' is given with --dataset synthetic, which has no texts to tokenize; accepted: --dataset {} with it",
                                 o.vocabulary, fmt::join(of_files, " or ")));
  if (o.dataset != kSynthetic && o.vocabulary.empty())
    throw UsageError(fmt::format("--vocab: none is given for --dataset {}; accepted: {}", o.dataset, vocabulary));
  o.config = v["config"].as<std::string>();
  o.cased = v["cased"].as<bool>();
  o.buckets = buckets_option(v);
  o.max_length = v["max-length"].defaulted() ? default_length(v, model) : whole_number(v, "max-length", 2, 1e6);
  o.limit = whole_number(v, "limit", 0, 1e12);
  o.classes = class_count(v, 0);
  if (o.classes > 0 && o.classes < kLeastTextClasses)
    throw UsageError(fmt::format("--classes: {} is given with --model {}, whose texts have {} or more; accepted: as many, or 0 for the data set's", o.classes,
                                 model, kLeastTextClasses));
  o.seed = seed;
  return o;
}

WorkloadOptions::Ratings ratings_options(const po::variables_map& v, std::uint64_t seed) {
  WorkloadOptions::Ratings o{.dataset = v["dataset"].as<std::string>(), .folder = v["data"].as<std::string>(), .config = v["config"].as<std::string>()};
  check_choice("--dataset", o.dataset, {std::string(kSynthetic), kRatings});
  check_data(o.dataset, o.folder, {kRatings}, "the folder of its ratings.tsv");
  o.limit = whole_number(v, "limit", 0, 1e12);
  o.seed = seed;
  return o;
}

WorkloadOptions::Speech speech_options(const po::variables_map& v, std::uint64_t seed) {
  WorkloadOptions::Speech o{.dataset = v["dataset"].as<std::string>(), .folder = v["data"].as<std::string>(), .config = v["config"].as<std::string>()};
  check_choice("--dataset", o.dataset, {std::string(kSynthetic), std::string(kSpeech)});
  check_data(o.dataset, o.folder, {std::string(kSpeech)}, "the folder of its train.tsv and dev.tsv");
  o.buckets = buckets_option(v);
  o.limit = whole_number(v, "limit", 0, 1e12);
  o.seed = seed;
  return o;
}

/// --input's, of data that are made up.
std::vector<MadeUp> made_up_ratings(const po::variables_map& v, std::int64_t samples, std::uint64_t seed) {
  constexpr std::int64_t kMost = 100'000'000;      // users, or items
  constexpr const char* kMovieLens = "6040x3706";  // of MovieLens 1M
  refuse(v, kClassOption, fmt::format("--model {}, which takes ratings", kNcf));
  const auto given = v["input"].as<std::string>();
  std::vector<MadeUp> out;
  for (const std::string& input : words_of(given.empty() ? kMovieLens : given)) {
    const std::vector<std::int64_t> extents = parse_extents("--input", input, kMovieLens, kMost);
    const WorkloadOptions::Ratings ratings{.config = v["config"].as<std::string>(), .users = extents[0], .items = extents[1], .samples = samples, .seed = seed};
    out.push_back({fmt::format("{}", fmt::join(extents, "x")), {.model = std::string(kNcf), .ratings = ratings}});
  }
  return out;
}

std::vector<MadeUp> made_up_speech(const po::variables_map& v, std::int64_t samples, std::uint64_t seed) {
  constexpr std::int64_t kFrames = 400;  // four seconds
  refuse(v, kClassOption, fmt::format("--model {}, whose classes are characters", kSpeech));
  std::vector<MadeUp> out;
  for (const std::int64_t frames : v["input"].as<std::string>().empty() ? std::vector{kFrames} : whole_numbers(v, "input", 8, 1'000'000)) {
    const WorkloadOptions::Speech speech{.config = v["config"].as<std::string>(), .frames = frames, .samples = samples, .seed = seed};
    out.push_back({std::to_string(frames), {.model = std::string(kSpeech), .speech = speech}});
  }
  return out;
}

}  // namespace

void add_config_option(po::options_description& options) {
  const std::string sizes = fmt::format("sizes of a model of texts, speech or ratings: {}, or a config.json", fmt::join(models::kConfigNames, ", "));
  options.add_options()("config", po::value<std::string>()->default_value("base"), sizes.c_str());
}

void add_text_options(po::options_description& options) {
  add_config_option(options);
  auto option = options.add_options();
  option("vocab", po::value<std::string>()->default_value(""),
         "vocabulary of its texts: BERT's vocab.txt, a tokenizer.json, or a folder with one of them or with GPT-2's vocab.json and merges.txt");
  option("cased", po::bool_switch(), "letters and accents of texts stay as they are");
  option("max-length", po::value<std::int64_t>()->default_value(kTextLength),
         "tokens of a text at most, or as many as the model has positions for, [CLS] and [SEP] among them; "
         "of a block of running text; of a source, and of its translation");
  option("length-buckets", po::value<std::string>()->default_value("off"),
         "on: batches are of texts or speech of like length, padded to one of a few lengths; off: all to the longest");
}

void refuse_text_options(const po::variables_map& v, const std::string& beside) { refuse(v, kTextOptions, beside); }

WorkloadOptions workload_options(const po::variables_map& v, std::uint64_t seed) {
  WorkloadOptions o{.model = model_name(v, ModelKinds::all)};
  if (o.model == kNcf) {
    refuse(v, kOthersThanRatings, fmt::format("--model {}, which takes ratings", o.model));
    o.ratings = ratings_options(v, seed);
  } else if (o.model == kSpeech) {
    refuse(v, kOthersThanSpeech, fmt::format("--model {}, which takes speech", o.model));
    o.speech = speech_options(v, seed);
  } else if (takes_texts(o.model)) {
    refuse(v, kPictureOptions, fmt::format("--model {}, which takes texts", o.model));
    o.text = text_options(v, o.model, seed);
  } else {
    refuse_text_options(v, fmt::format("--model {}, which takes pictures", o.model));
    o.pictures = dataset_options(v, seed);
  }
  return o;
}

Json resolved(Json spec, const WorkloadOptions& work) {
  if (work.text) spec["max-length"] = work.text->max_length;
  return spec;
}

std::vector<MadeUp> made_up(const po::variables_map& v, const std::string& model, std::int64_t samples, std::uint64_t seed) {
  if (model == kNcf) return made_up_ratings(v, samples, seed);
  if (model == kSpeech) return made_up_speech(v, samples, seed);
  std::vector<MadeUp> out;
  const auto given = v["input"].as<std::string>();
  if (takes_texts(model)) {
    const std::vector<std::int64_t> lengths = given.empty() ? std::vector{default_length(v, model)} : whole_numbers(v, "input", 2, 1'000'000);
    const std::int64_t classes = v["classes"].defaulted() ? kLeastTextClasses : class_count(v, kLeastTextClasses);
    for (const std::int64_t length : lengths)
      out.push_back({std::to_string(length),
                     {.model = model,
                      .text = WorkloadOptions::Text{.config = v["config"].as<std::string>(),
                                                    .max_length = length,
                                                    .classes = classes,
                                                    .length_option = "--input",
                                                    .samples = samples,
                                                    .seed = seed}}});
    return out;
  }
  refuse_text_options(v, fmt::format("--model {}, which takes pictures", model));
  std::vector<std::vector<std::int64_t>> inputs;
  if (given.empty()) {
    const Shape usual = models::usual_input(model);
    inputs.emplace_back(usual.begin(), usual.end());
  } else {
    for (const std::string& input : words_of(given)) inputs.push_back(parse_extents("--input", input));
  }
  for (const std::vector<std::int64_t>& input : inputs)
    out.push_back({fmt::format("{}", fmt::join(input, "x")),
                   {.model = model, .pictures = {.input = Shape(input), .classes = class_count(v, 1), .seed = seed, .samples = samples}}});
  return out;
}

MadeUp made_up_once(const po::variables_map& v, const std::string& model, std::int64_t samples, std::uint64_t seed) {
  const std::vector<MadeUp> all = made_up(v, model, samples, seed);
  if (all.size() != 1) throw UsageError(fmt::format("--input: '{}' is given; accepted: one", v["input"].as<std::string>()));
  return all.front();
}

}  // namespace gemel::cli
