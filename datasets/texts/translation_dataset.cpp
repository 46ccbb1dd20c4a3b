#include "datasets/texts/translation_dataset.h"

#include <fmt/format.h>

#include <algorithm>

#include "datasets/formats/tsv.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"

namespace gemel::datasets {

void Translations::add(std::span<const std::int64_t> source, std::span<const std::int64_t> target) {
  sources_.add(source);
  targets_.add(target.first(target.size() - 1));
  labels_.add(target.subspan(1));
}

void Translations::keep(std::int64_t samples) {
  for (TokenRows* rows : {&sources_, &targets_, &labels_}) rows->keep(samples);
}

std::int64_t Translations::length(std::int64_t i) const { return std::max(sources_.length(i), labels_.length(i)); }

std::vector<HostTensor> Translations::tensors(std::span<const std::int64_t> samples, const std::optional<Draws>&) const {
  constexpr std::int64_t kNoLabel = -1;
  const auto tensor = [&](const char* name, const TokenRows& rows, std::int64_t padding) {
    const std::int64_t width = rows.row_length(samples, options_.lengths);
    std::vector<std::int64_t> ids(samples.size() * at(width), padding);
    for (std::size_t j = 0; j < samples.size(); ++j) std::ranges::copy(rows[samples[j]], ids.begin() + static_cast<std::ptrdiff_t>(j) * width);
    return host_tensor(name, {std::ssize(samples), width}, std::span<const std::int64_t>(ids));
  };
  return {tensor("source", sources_, options_.padding), tensor("target", targets_, options_.padding), tensor("labels", labels_, kNoLabel)};
}

namespace {

constexpr const char* kName = "translation";

std::unique_ptr<Translations> read(const std::filesystem::path& path, const Tokenizer& tokenizer, const TranslationOptions& options) {
  const TsvFile file(kName, path);
  auto out = std::make_unique<Translations>(TranslationsOptions{kName, tokenizer.vocabulary().size(), tokenizer.padding(), options.lengths});
  file.each_line([&](const TsvFile::Columns& line) {
    if (line.size() != 2)
      throw DataError(fmt::format("it has {} column{}; accepted: 2, with a tab between: source and target", line.size(), line.size() == 1 ? "" : "s"));
    out->add(between_ends(tokenizer, line[0], options.max_length), between_ends(tokenizer, line[1], options.max_length + 1));
    return options.limit == 0 || out->size() < options.limit;
  });
  if (out->size() == 0) throw DataError(fmt::format("{} has no lines; accepted: source and target in each, with a tab between", file.title()));
  return out;
}

std::unique_ptr<Translations> made_up(const SyntheticTranslationsOptions& o, std::int64_t samples, std::uint32_t split) {
  constexpr std::int64_t kTokens = 1000;  // that are used of a vocabulary: few enough to meet each often
  std::vector<std::int64_t> used;
  for (std::int64_t id = 0; id < std::min(o.vocabulary, kTokens); ++id)
    if (id != o.padding && id != o.ends.begin && id != o.ends.end) used.push_back(id);
  if (used.empty()) throw UsageError(fmt::format("synthetic: texts over {} tokens; accepted: one or more besides ends and padding", o.vocabulary));
  if (o.length < 2) throw UsageError(fmt::format("synthetic: texts of {} token; accepted: 2 or more", o.length));
  auto out = std::make_unique<Translations>(TranslationsOptions{"synthetic", o.vocabulary, o.padding, o.lengths});
  PhiloxStream stream(o.seed ^ std::uint64_t{split} << 32, stream_hash("synthetic translations"));
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(stream.below(narrow<std::uint32_t>(n))); };
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t length = i == 0 ? o.length : o.length / 2 + below(o.length - o.length / 2) + 1;
    std::vector<std::int64_t> source{o.ends.begin};
    while (std::ssize(source) + 1 < length) source.push_back(used[at(below(std::ssize(used)))]);
    source.push_back(o.ends.end);
    std::vector<std::int64_t> target = source;
    target.insert(target.begin() + 1, used.front());  // so that it has as many labels as the source has tokens
    out->add(source, target);
  }
  return out;
}

}  // namespace

TranslationSplits open_translations(const Tokenizer& tokenizer, const TranslationOptions& options) {
  return {read(options.folder / "train.tsv", tokenizer, options), read(options.folder / "dev.tsv", tokenizer, options)};
}

TranslationSplits synthetic_translations(const SyntheticTranslationsOptions& options) {
  constexpr std::int64_t kValidation = 512;
  return {made_up(options, options.samples, 0), made_up(options, std::min(kValidation, options.samples), 1)};
}

}  // namespace gemel::datasets
