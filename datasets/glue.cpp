#include "datasets/glue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/base/span.h"

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
constexpr auto kNames = [] {
  std::array<std::string_view, kForms.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kForms[i].name;
  return names;
}();

std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> out;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find('\t', begin), line.size());
    out.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

/// A line's sample. @throws DataError what is wrong with it
void add_line(Texts& out, std::string_view line, const Form& form, const Tokenizer& tokenizer, std::int64_t max_length) {
  if (line.find('\0') != std::string_view::npos) throw DataError("it has a NUL byte");
  const std::vector<std::string_view> columns = columns_of(line);
  if (columns.size() != form.columns) throw DataError(fmt::format("it has {} column{}; accepted: {}, with tabs between", columns.size(), columns.size() == 1 ? "" : "s", form.columns));
  const std::string_view label = columns[form.label];
  if (label != "0" && label != "1") throw DataError(fmt::format("its label is '{}'; accepted: 0 or 1", label));
  const auto second = form.second ? std::optional(columns[*form.second]) : std::nullopt;
  out.add(tokenizer.for_model(columns[form.first], second, max_length), label == "1" ? 1 : 0);
}

std::unique_ptr<Texts> read(const std::filesystem::path& file, const Form& form, const Tokenizer& tokenizer, const GlueOptions& options) {
  const MappedFile mapped(file);
  const std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
  auto out = std::make_unique<Texts>(TextsOptions{std::string(form.name), kClasses, tokenizer.padding(), options.lengths});
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size() && (options.limit == 0 || out->size() < options.limit);) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (number == 1 && form.has_header) continue;
    try {
      add_line(*out, line, form, tokenizer, options.max_length);
    } catch (const DataError& e) {
      throw DataError(fmt::format("{}: {}, line {}: {}", form.name, file.string(), number, e.what()));
    }
  }
  if (out->size() == 0) throw DataError(fmt::format("{}: {} has no samples", form.name, file.string()));
  return out;
}

}  // namespace

std::span<const std::string_view> glue_names() { return kNames; }

TextSplits open_glue(std::string_view name, const Tokenizer& tokenizer, const GlueOptions& options) {
  const auto form = std::ranges::find(kForms, name, &Form::name);
  if (form == kForms.end()) throw UsageError(fmt::format("dataset: '{}' is unknown; accepted: {}", name, fmt::join(kNames, ", ")));
  return {read(options.folder / "train.tsv", *form, tokenizer, options), read(options.folder / "dev.tsv", *form, tokenizer, options)};
}

}  // namespace gemel::datasets
