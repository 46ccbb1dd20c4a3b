#include "frontends/domains/domain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "datasets/pictures/picture_dataset.h"
#include "engine/base/accepted.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/models/config_file.h"

/// All domains, a line each, in the order of the help.
#define GEMEL_DOMAINS(DOMAIN) \
  DOMAIN(pictures)            \
  DOMAIN(text_classification) \
  DOMAIN(language_models)     \
  DOMAIN(translation)         \
  DOMAIN(speech)              \
  DOMAIN(ratings)

namespace gemel::domains {

#define GEMEL_DECLARE(domain) const Domain& domain();
GEMEL_DOMAINS(GEMEL_DECLARE)
#undef GEMEL_DECLARE

std::span<const Domain* const> all() {
#define GEMEL_ADDRESS(domain) &domain(),
  static const Domain* const domains[] = {GEMEL_DOMAINS(GEMEL_ADDRESS)};
#undef GEMEL_ADDRESS
  return domains;
}

const Domain& of_model(const RunOptions& options) {
  const std::string& model = options.choice("model", model_names());
  for (const Domain* domain : all())
    if (std::ranges::count(domain->models(), model)) return *domain;
  throw InternalError("domains: " + model + " is no domain's");
}

std::vector<std::string> model_names(bool infer) {
  std::vector<std::string> out;
  for (const Domain* domain : all()) {
    const std::vector<std::string> names = domain->models();
    if (!infer || domain->infer) out.insert(out.end(), names.begin(), names.end());
  }
  return out;
}

namespace {

/// @param most  the command takes options of this use, and of those before it
void refuse_others(const Domain& domain, const RunOptions& options, OptionUse most) {
  for (const Domain* other : all())
    for (const OptionDef* option : other->options)
      if (option->use <= most && !std::ranges::count(domain.options, option))
        refuse(options, {option->name}, fmt::format("--model {}, which {}", options.text("model"), domain.takes));
}

/// That --config, where the domain takes it, is the name of a configuration or a file.
void check_config(const Domain& domain, const RunOptions& options) {
  if (!std::ranges::count(domain.options, &kConfig)) return;
  const std::string& config = options.text(kConfig.name);
  const std::vector<std::string> names(models::kConfigNames.begin(), models::kConfigNames.end());
  if (std::ranges::count(names, config) || is_there(config)) return;
  const std::string near = nearest(config, names);
  throw UsageError(fmt::format("--config: '{}' is neither known nor a file{}; accepted: {}, or a config.json", config,
                               near.empty() ? "" : fmt::format(", did you mean '{}'?", near), fmt::join(names, ", ")));
}

/// What is known of the options of a model before anything is opened.
void check_options(const Domain& domain, const RunOptions& options, OptionUse most) {
  refuse_others(domain, options, most);
  check_config(domain, options);
}

}  // namespace

OpenWorkload read(const RunOptions& options) {
  const Domain& domain = of_model(options);
  check_options(domain, options, OptionUse::data_set);
  return domain.read(options);
}

std::vector<MadeUp> made_up(const RunOptions& options, std::int64_t samples) {
  const Domain& domain = of_model(options);
  check_options(domain, options, OptionUse::model);
  return domain.made_up(options, samples);
}

InferRequest infer(const RunOptions& options) {
  const Domain& domain = of_model(options);
  check_options(domain, options, OptionUse::inputs);
  return domain.infer(options);
}

std::int64_t sample_limit(const RunOptions& options) { return options.whole("limit", 0, 1e12); }
std::uint64_t data_seed(const RunOptions& options) { return options.has("seed") ? static_cast<std::uint64_t>(options.whole("seed", 0, 1e15)) : 1; }

double label_smoothing(const RunOptions& options) {
  if (!options.has("label-smoothing")) return 0;
  check_range("--label-smoothing", options.number("label-smoothing"), 0, 1);
  return options.number("label-smoothing");
}

std::int64_t class_count(const RunOptions& options, std::int64_t least) { return options.whole("classes", static_cast<double>(least), datasets::kMaxClasses); }

std::string checked_data_set(const RunOptions& options, const std::vector<std::string>& names, const char* files) {
  const std::string &name = options.choice("dataset", names), &data = options.text("data");
  std::vector<std::string> of_files;
  std::ranges::copy_if(names, std::back_inserter(of_files), [](const std::string& n) { return n != kSynthetic; });
  if (name == kSynthetic && !data.empty())
    throw UsageError(
        fmt::format("--data: '{}' is given with --dataset synthetic, which reads no files; accepted: --dataset {} with it", data, fmt::join(of_files, " or ")));
  if (name != kSynthetic && data.empty()) throw UsageError(fmt::format("--data: no data path was given for --dataset {}; accepted: {}", name, files));
  return name;
}

void refuse(const RunOptions& options, std::initializer_list<const char*> names, const std::string& beside, const char* accepted) {
  for (const char* name : names)
    if (options.given(name)) throw UsageError(fmt::format("--{}: it is given with {}; accepted: {}", name, beside, accepted));
}

const OptionDef kClasses{"classes", {}, "", OptionUse::model};
const OptionDef kAugment{"augment", {}, "", OptionUse::data_set};
const OptionDef kConfig{"config", "base",
                        fmt::format("sizes of a model of texts, speech or ratings: {}, or a config.json", fmt::join(models::kConfigNames, ", ")),
                        OptionUse::model};
const OptionDef kLengthBuckets{
    "length-buckets", "off", "on: batches are of texts or speech of like length, padded to one of a few lengths; off: all to the longest", OptionUse::data_set};

}  // namespace gemel::domains
