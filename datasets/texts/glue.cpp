#include "datasets/texts/glue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "datasets/formats/tsv.h"
#include "engine/base/error.h"

namespace gemel::datasets {
namespace {

/// What a task's files are like; numbers of columns from 0.
struct Form {
  std::string_view name;
  bool has_header;
  std::size_t columns, label, first;
  std::optional<std::size_t> second;
};
constexpr std::array<Form, 3> kForms{{{"sst2", true, 2, 1, 0, {}}, {"cola", false, 4, 1, 3, {}}, {"mrpc", true, 5, 0, 3, 4}}};
constexpr std::int64_t kClasses = 2;  // of each of them
constexpr auto kGlueNames = [] {
  std::array<std::string_view, kForms.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kForms[i].name;
  return names;
}();

bool is_label(std::string_view text) { return text == "0" || text == "1"; }

/// @throws DataError where the line would be a sample, which would be lost
void check_header(const TsvFile::Columns& columns, const Form& form) {
  if (columns.size() == form.columns && is_label(columns[form.label])) throw DataError("it is a sample; accepted: the names of the columns in the first line");
}

/// A line's sample. @throws DataError what is wrong with it
void add_line(Texts& out, const TsvFile::Columns& columns, const Form& form, const Tokenizer& tokenizer, std::int64_t max_length) {
  if (columns.size() != form.columns)
    throw DataError(fmt::format("it has {} column{}; accepted: {}, with tabs between", columns.size(), columns.size() == 1 ? "" : "s", form.columns));
  const std::string_view label = columns[form.label];
  if (!is_label(label)) throw DataError(fmt::format("its label is '{}'; accepted: 0 or 1", label));
  const auto second = form.second ? std::optional(columns[*form.second]) : std::nullopt;
  out.add(tokenizer.for_model(columns[form.first], second, max_length), label == "1" ? 1 : 0);
}

std::unique_ptr<Texts> read(const std::filesystem::path& path, const Form& form, const Tokenizer& tokenizer, const GlueOptions& options) {
  const TsvFile file(std::string(form.name), path);
  auto out = std::make_unique<Texts>(TextsOptions{std::string(form.name), kClasses, tokenizer.padding(), options.lengths});
  bool is_header = form.has_header;
  file.each_line([&](const TsvFile::Columns& columns) {
    if (std::exchange(is_header, false))
      check_header(columns, form);
    else
      add_line(*out, columns, form, tokenizer, options.max_length);
    return options.limit == 0 || out->size() < options.limit;
  });
  if (out->size() == 0) throw DataError(fmt::format("{} has no samples", file.title()));
  return out;
}

}  // namespace

std::span<const std::string_view> glue_names() { return kGlueNames; }

TextSplits open_glue(std::string_view name, const Tokenizer& tokenizer, const GlueOptions& options) {
  const auto form = std::ranges::find(kForms, name, &Form::name);
  if (form == kForms.end()) throw UsageError(fmt::format("dataset: '{}' is unknown; accepted: {}", name, fmt::join(kGlueNames, ", ")));
  return {read(options.folder / "train.tsv", *form, tokenizer, options), read(options.folder / "dev.tsv", *form, tokenizer, options)};
}

}  // namespace gemel::datasets
