#include "frontends/domains/text_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "datasets/texts/open_tokenizer.h"
#include "engine/base/error.h"

namespace gemel::domains {
namespace {

constexpr std::int64_t kTextLength = 128;  // tokens, where nothing is said

std::unique_ptr<datasets::Tokenizer> opened_tokenizer(const std::string& vocabulary, bool cased) {
  return datasets::open_tokenizer(vocabulary, cased ? datasets::Letters::kept : datasets::Letters::lower);
}

/// No more than the model has positions for.
std::int64_t default_length(const RunOptions& options) {
  const std::int64_t longest = models::text_sizes(options.text("model"), options.text("config")).longest;
  return longest > 0 ? std::min(longest, kTextLength) : kTextLength;
}

std::int64_t max_length(const RunOptions& options) { return options.given("max-length") ? options.whole("max-length", 2, 1e6) : default_length(options); }

}  // namespace

const OptionDef kVocabulary{
    "vocab", "", "vocabulary of its texts: BERT's vocab.txt, a tokenizer.json, or a folder with one of them or with GPT-2's vocab.json and merges.txt",
    OptionUse::inputs};
const OptionDef kCased{"cased", false, "letters and accents of texts stay as they are", OptionUse::inputs};
const OptionDef kMaxLength{"max-length", kTextLength,
                           "tokens of a text at most, or as many as the model has positions for, [CLS] and [SEP] among them; of a block of running text; of a "
                           "source, and of its translation",
                           OptionUse::inputs};

std::string TextData::title() const { return fmt::format("{}-{}", model, std::filesystem::path(config).stem().string()); }
std::unique_ptr<datasets::Tokenizer> TextData::tokenizer() const { return opened_tokenizer(vocabulary, cased); }

std::vector<std::string> models_of(models::TextKind kind) {
  std::vector<std::string> out;
  for (const std::string_view name : models::text_names())
    if (models::text_kind(name) == kind) out.emplace_back(name);
  return out;
}

bool has_text_blocks(const std::string& model) { return models::text_has_blocks(model); }

std::vector<std::string> with_synthetic(const std::vector<std::string>& files) {
  std::vector<std::string> out{kSynthetic};
  out.insert(out.end(), files.begin(), files.end());
  return out;
}

TextData read_text_data(const RunOptions& options, const TextFiles& files) {
  TextData out{.model = options.text("model"),
               .config = options.text("config"),
               .dataset = checked_data_set(options, with_synthetic(files.names), files.files),
               .folder = options.text("data"),
               .vocabulary = options.text("vocab")};
  if (out.dataset == kSynthetic && !out.vocabulary.empty())
    throw UsageError(fmt::format("--vocab: '{}' is given with --dataset synthetic, which has no texts to tokenize; accepted: --dataset {} with it",
                                 out.vocabulary, fmt::join(files.names, " or ")));
  if (out.dataset != kSynthetic && out.vocabulary.empty())
    throw UsageError(fmt::format("--vocab: none is given for --dataset {}; accepted: {}", out.dataset, files.vocabulary));
  out.cased = options.flag("cased");
  out.buckets = options.on("length-buckets");
  out.max_length = max_length(options);
  out.limit = sample_limit(options);
  out.seed = data_seed(options);
  out.label_smoothing = label_smoothing(options);
  return out;
}

std::vector<TextData> made_up_texts(const RunOptions& options, std::int64_t samples) {
  const std::vector<std::int64_t> lengths = options.text("input").empty() ? std::vector{default_length(options)} : options.wholes("input", 2, 1'000'000);
  std::vector<TextData> out;
  for (const std::int64_t length : lengths)
    out.push_back({.model = options.text("model"),
                   .config = options.text("config"),
                   .max_length = length,
                   .length_option = "--input",
                   .samples = samples,
                   .seed = data_seed(options)});
  return out;
}

std::vector<MadeUp> made_up_of(const std::vector<TextData>& all, std::unique_ptr<Workload> (*open)(const TextData&)) {
  std::vector<MadeUp> out;
  for (const TextData& data : all) out.push_back({std::to_string(data.max_length), [open, data] { return open(data); }});
  return out;
}

std::vector<std::pair<std::string, OptionValue>> resolved_length(const RunOptions& options) {
  if (!options.has("max-length")) return {};
  return {{"max-length", max_length(options)}};
}

std::unique_ptr<datasets::Tokenizer> tokenizer_of(const RunOptions& options, const std::string& beside, const char* accepted, std::int64_t tokens) {
  const std::string& vocabulary = options.text("vocab");
  if (vocabulary.empty()) throw UsageError(fmt::format("--vocab: none is given with {}; accepted: {}", beside, accepted));
  auto out = opened_tokenizer(vocabulary, options.flag("cased"));
  if (out->vocabulary().size() != tokens)
    throw DataError(fmt::format("infer: {} has {} tokens, {} is of {}; accepted: the vocabulary that it was trained with", vocabulary, out->vocabulary().size(),
                                options.text("weights"), tokens));
  return out;
}

void refuse_beside_tokens(const RunOptions& options, std::initializer_list<const char*> names) {
  refuse(options, names, "--input, which has tokens", "with --text");
}

}  // namespace gemel::domains
